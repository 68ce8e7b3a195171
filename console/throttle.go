package console

import (
	"context"
	"strconv"
	"strings"
	"time"

	"weft/pgerr"
)

// Throttle is a limit in effect, with what all proxies have counted.
type Throttle struct {
	ID                                               int64
	Kind, Target, Class, Allows, Below, Mode, Origin string
	Database, User                                   string // that the target is of, "" for none
	Reason, By                                       string
	MaxWait                                          float64 // milliseconds
	Created, Expires                                 time.Time
	Demand                                           float64 // statements per second
	Passed, Delayed, Refused                         int64
	DelayP99                                         float64 // milliseconds
}

var throttleView = &View{
	"throttles", "THROTTLES", "the limits in effect, and what they have done to statements",
	[]Column{
		{"id", Int},
		{"target", Text},
		{"database", Text},
		{"class", Text},
		{"allows", Text},
		{"max_wait_ms", Float},
		{"below", Text},
		{"mode", Text},
		{"origin", Text},
		{"reason", Text},
		{"made_by", Text},
		{"created", Time},
		{"expires", Time},
		{"demand_s", Float},
		{"passed", Int},
		{"delayed", Int},
		{"refused", Int},
		{"delay_p99_ms", Float},
	},
	throttleRows, false,
}

// throttleRows shows all throttles to those who may see all. Others see those of their database or of themselves, without
// the values of keys and without the reasons of operators.
func throttleRows(ctx context.Context, src Source, v Viewer) [][]any {
	var rows [][]any
	for _, t := range src.Throttles(ctx, v.All) {
		if !v.All && t.Database != v.Database && t.User != v.User && t.Kind != "shard" {
			continue
		}
		target, reason, by := any(t.Target), text(t.Reason), text(t.By)
		if !v.All {
			reason, by = hidden, hidden
			if t.Kind == "key" || t.Kind == "statement" {
				target = hidden
			}
		}
		rows = append(rows, []any{
			t.ID, target, text(t.Database), t.Class, t.Allows, t.MaxWait, text(t.Below), t.Mode, t.Origin, reason, by, t.Created, t.Expires,
			t.Demand, t.Passed, t.Delayed, t.Refused, t.DelayP99,
		})
	}
	return rows
}

// throttleShard runs THROTTLE SHARD name RATE n FOR time.
func throttleShard(ctx context.Context, c Control, args []string) (Table, error) {
	id, err := c.ThrottleShard(ctx, args[0], args[1], args[2])
	if err != nil {
		return Table{}, err
	}
	return Table{Tag: "THROTTLE", Columns: throttleColumns, Rows: [][]any{{id}}}, nil
}

var throttleColumns = []Column{{"id", Int}}

// unthrottle runs UNTHROTTLE id.
func unthrottle(ctx context.Context, c Control, arg string) (Table, error) {
	if _, err := strconv.ParseInt(arg, 10, 64); err != nil {
		return Table{}, pgerr.New(pgerr.InvalidParameterValue, "%q is not the id of a throttle", strings.TrimSpace(arg)).WithHint("SHOW THROTTLES has the ids.")
	}
	return Table{Tag: "UNTHROTTLE"}, c.Unthrottle(ctx, arg)
}
