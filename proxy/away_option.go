package proxy

import (
	"strconv"
	"strings"
	"time"

	"weft/pgerr"
	"weft/primary"
	"weft/proxy/target"
)

// set takes a value for one of awayOptions, or says what is wrong with the value.
func (w *wish) set(name, value string) *pgerr.Error {
	switch name {
	case "weft.target":
		t, ok := target.Parse(value)
		if !ok {
			return invalidOption(name, value).WithHint("Available values: %s.", target.Names)
		}
		w.target = t
	case "weft.causal":
		if strings.EqualFold(value, "auto") {
			w.causal = target.ByTarget
			return nil
		}
		on, ok := parseBool(value)
		if !ok {
			return invalidOption(name, value).WithHint("Available values: auto, on, off.")
		}
		if w.causal = target.Off; on {
			w.causal = target.On
		}
	case "weft.token":
		if _, err := target.ParseToken(value); err != nil {
			return invalidOption(name, value).WithDetail("%s.", err.Error()).WithHint("SELECT weft.token() returns a token.")
		}
		w.token = value
	default:
		d, ok := parseDuration(value)
		if !ok {
			return invalidOption(name, value).WithHint(`Valid units for this parameter are "us", "ms", "s", "min", "h", and "d".`)
		}
		if name == "weft.max_lag" {
			w.maxLag = d
		} else {
			w.wait = d
		}
	}
	return nil
}

// give returns a token of what all shards have committed until now, and so of what the session has written.
func (aw *away) give() ([][]string, error) {
	var token target.Token
	snap := aw.s.route.snap
	for i := range snap.Shards {
		rows, err := aw.s.route.ask(aw.s.held.laneOf(snap, i).lane, "SELECT "+primary.TimelineSQL+", pg_catalog.pg_current_wal_lsn()")
		if err != nil {
			return nil, err
		}
		timeline, _ := strconv.ParseUint(rows[0][0], 10, 32) // the server has cast it to int
		lsn, err := primary.ParseLSN(rows[0][1])
		if err != nil {
			return nil, err
		}
		token = append(token, target.Place{Shard: snap.Shards[i].Name, Timeline: uint32(timeline), LSN: lsn})
	}
	return [][]string{{token.String()}}, nil
}

var durationUnits = map[string]time.Duration{"": time.Millisecond, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second, "min": time.Minute, "h": time.Hour, "d": 24 * time.Hour}

// parseDuration reads a time as PostgreSQL writes it in settings. Without a unit it is in milliseconds.
func parseDuration(value string) (time.Duration, bool) {
	v := strings.TrimSpace(value)
	number := strings.TrimRight(v, "abcdefghijklmnopqrstuvwxyz")
	unit, known := durationUnits[v[len(number):]]
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !known || err != nil || n < 0 || n*float64(unit) >= 1<<62 {
		return 0, false
	}
	return time.Duration(n * float64(unit)), true
}

// showDuration writes a time as PostgreSQL shows it.
func showDuration(d time.Duration) string {
	for _, unit := range []string{"d", "h", "min", "s", "ms"} {
		if size := durationUnits[unit]; d > 0 && d%size == 0 {
			return strconv.FormatInt(int64(d/size), 10) + unit
		}
	}
	return strconv.FormatInt(int64(d/time.Microsecond), 10) + "us"
}
