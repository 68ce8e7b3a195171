package console

import (
	"context"
	"slices"
	"strings"
	"time"
)

// View is a table of facts about the cluster, or about this proxy.
type View struct {
	// Name is that of the table in schema weft.
	Name string
	// Show is what the admin database calls it.
	Show, Help string
	Columns    []Column
	rows       func(ctx context.Context, src Source, v Viewer) [][]any
	// Spread: each proxy has rows of its own, and the table those of all.
	Spread bool
}

// Table reads it.
func (w *View) Table(ctx context.Context, src Source, v Viewer) Table {
	return Table{Columns: w.Columns, Rows: w.rows(ctx, src, v)}
}

// Views are all of them.
var Views = append(append(plainViews, heatViews...), throttleView, queueView, replicaView, failoverView, backupView, lossView)

var plainViews = []*View{
	{
		"sessions", "CLIENTS", "the clients of this proxy, what they do and why they keep a backend",
		[]Column{
			{"proxy", Text},
			{"id", Int},
			{"username", Text},
			{"database", Text},
			{"application", Text},
			{"address", Text},
			{"state", Text},
			{"connected", Time},
			{"statement", Text},
			{"since", Time},
			{"shard", Text},
			{"backend_pid", Int},
			{"shards", Int},
			{"pinned", Text},
		},
		sessionRows, true,
	},
	{
		"pools", "POOLS", "its connections to shards, by user and database",
		[]Column{
			{"proxy", Text},
			{"shard", Text},
			{"database", Text},
			{"username", Text},
			{"mode", Text},
			{"open", Int},
			{"used", Int},
			{"idle", Int},
			{"waiting", Int},
			{"connection_limit", Int},
		},
		poolRows, true,
	},
	{
		"servers", "SERVERS", "each of these connections, and who has it",
		[]Column{{"proxy", Text}, {"shard", Text}, {"database", Text}, {"username", Text}, {"backend_pid", Int}, {"state", Text}, {"session", Int}},
		serverRows, true,
	},
	{
		"shards", "SHARDS", "the shards of the cluster, and how they fare as seen from this proxy",
		[]Column{
			{"proxy", Text},
			{"name", Text},
			{"hosts", Texts},
			{"home", Bool},
			{"weight", Int},
			{"buckets", Int},
			{"paused", Bool},
			{"open", Int},
			{"used", Int},
			{"waiting", Int},
			{"connection_limit", Int},
			{"statements", Int},
			{"seconds", Float},
			{"p50_ms", Float},
			{"p99_ms", Float},
			{"queue_waits", Int},
			{"queue_seconds", Float},
			{"state", Text},
			{"primary_address", Text},
			{"generation", Text},
			{"primary_state", Text},
			{"at_gate", Int},
			{"durable", Bool},
			{"durable_lacks", Text},
		},
		shardRows, false,
	},
	{
		"tables", "TABLES", "the declared tables",
		[]Column{{"database", Text}, {"schema", Text}, {"name", Text}, {"kind", Text}, {"columns", Texts}, {"vindex", Text}, {"state", Text}},
		tableRows, false,
	},
	{
		"placement", "PLACEMENT", "which buckets are on which shard",
		[]Column{{"first_bucket", Int}, {"last_bucket", Int}, {"buckets", Int}, {"shard", Text}},
		placementRows, false,
	},
	{
		"transactions", "TRANSACTIONS", "transactions of several shards that have not come to their end",
		[]Column{
			{"gid", Text},
			{"database", Text},
			{"shard", Text},
			{"state", Text},
			{"age_seconds", Float},
			{"role", Text},
			{"proxy", Text},
			{"decider", Text},
			{"participants", Texts},
		},
		transactionRows, false,
	},
	{
		"statements", "STATEMENTS", "what statements have cost, by normalised text",
		[]Column{
			{"proxy", Text},
			{"id", Int},
			{"username", Text},
			{"database", Text},
			{"statement", Text},
			{"kind", Text},
			{"calls", Int},
			{"errors", Int},
			{"rows", Int},
			{"shards", Int},
			{"total_ms", Float},
			{"min_ms", Float},
			{"max_ms", Float},
			{"mean_ms", Float},
			{"since", Time},
		},
		statementRows, true,
	},
	{
		"stats", "STATS", "what statements have cost, by how they were carried out",
		[]Column{{"proxy", Text}, {"kind", Text}, {"statements", Int}, {"seconds", Float}, {"p50_ms", Float}, {"p99_ms", Float}},
		statRows, true,
	},
	{
		"recording", "RECORDING", "the recording of transactions, for weft advise",
		[]Column{
			{"proxy", Text},
			{"database", Text},
			{"state", Text},
			{"share", Float},
			{"since", Time},
			{"until", Time},
			{"transactions", Int},
			{"kept", Int},
			{"bytes", Int},
		},
		recordingRows, true,
	},
	{
		"moves", "MOVES", "the jobs that carry rows to other shards, those that are over included, and shards that join or leave",
		[]Column{
			{"job", Text},
			{"database", Text},
			{"kind", Text},
			{"state", Text},
			{"reason", Text},
			{"from_shards", Texts},
			{"to_shards", Texts},
			{"buckets_done", Int},
			{"buckets", Int},
			{"rows", Int},
			{"bytes", Int},
			{"rate", Float},
			{"eta", Time},
			{"pause_p50_ms", Float},
			{"pause_p99_ms", Float},
			{"pause_max_ms", Float},
			{"read_pause_p99_ms", Float},
			{"rounds", Int},
			{"given_up", Int},
			{"blocked_by", Text},
			{"username", Text},
			{"proxy", Text},
			{"started", Time},
			{"ended", Time},
		},
		moveRows, false,
	},
	{
		"move_rounds", "ROUNDS", "the last rounds of these jobs",
		[]Column{
			{"round", Int},
			{"job", Text},
			{"database", Text},
			{"ended", Time},
			{"ways", Text},
			{"buckets", Int},
			{"outcome", Text},
			{"rows", Int},
			{"bytes", Int},
			{"write_pause_ms", Float},
			{"read_pause_ms", Float},
		},
		roundRows, false,
	},
	{
		"buckets", "BUCKETS", "each bucket of the database, its shard, and about how much it holds",
		[]Column{{"bucket", Int}, {"shard", Text}, {"rows", Int}, {"bytes", Int}, {"moving_to", Text}},
		bucketRows, false,
	},
	{
		"settings", "CONFIG", "weft.yaml as it is in effect, but for secrets",
		[]Column{{"proxy", Text}, {"name", Text}, {"value", Text}, {"reload", Bool}},
		settingRows, false,
	},
}

// Named returns the view of that name, nil if there is none.
func Named(name string) *View {
	for _, w := range Views {
		if w.Name == name {
			return w
		}
	}
	return nil
}

// text is a value that is NULL if there is nothing to say.
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// number is the same for numbers that cannot be 0.
func number(n int64) any {
	if n == 0 {
		return nil
	}
	return n
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func sessionRows(_ context.Context, src Source, v Viewer) [][]any {
	var rows [][]any
	list := src.Sessions()
	slices.SortFunc(list, func(a, b Session) int { return int(a.ID - b.ID) })
	for _, s := range list {
		if !v.sees(s.User) {
			rows = append(rows, []any{src.Proxy(), s.ID, s.User, s.Database, nil, nil, nil, nil, hidden, nil, nil, nil, nil, nil})
			continue
		}
		rows = append(rows, []any{
			src.Proxy(), s.ID, s.User, s.Database, text(s.Application), text(s.Address), s.State, s.Connected, text(s.Statement), s.Since,
			text(s.Shard), number(s.BackendPID), s.Shards, text(s.Pinned),
		})
	}
	return rows
}

func poolRows(_ context.Context, src Source, v Viewer) [][]any {
	var rows [][]any
	for _, p := range src.Pools() {
		if !v.sees(p.User) {
			rows = append(rows, []any{src.Proxy(), p.Shard, p.Database, p.User, nil, nil, nil, nil, nil, nil})
			continue
		}
		rows = append(rows, []any{src.Proxy(), p.Shard, p.Database, p.User, p.Mode, p.Open, p.Open - p.Idle, p.Idle, p.Waiting, number(p.Limit)})
	}
	return sorted(rows)
}

func serverRows(_ context.Context, src Source, v Viewer) [][]any {
	var rows [][]any
	for _, s := range src.Servers() {
		if !v.sees(s.User) {
			rows = append(rows, []any{src.Proxy(), s.Shard, s.Database, s.User, nil, nil, nil})
			continue
		}
		rows = append(rows, []any{src.Proxy(), s.Shard, s.Database, s.User, s.PID, s.State, number(s.Session)})
	}
	return sorted(rows)
}

func shardRows(_ context.Context, src Source, v Viewer) [][]any {
	var rows [][]any
	for _, s := range src.Shards() {
		var hosts, primary any // where to attack a server past weft
		if v.All {
			hosts, primary = s.Hosts, text(s.Primary)
		}
		var durable any
		if s.Durable != nil {
			durable = *s.Durable
		}
		rows = append(rows, []any{
			src.Proxy(), s.Name, hosts, s.Home, s.Weight, s.Buckets, s.Paused, s.Open, s.Used, s.Waiting, s.ConnectionLimit, s.Statements, s.Seconds,
			s.Median, s.NinetyNinth, s.QueueWaits, s.QueueSeconds, s.State, primary, text(s.Generation), text(s.PrimaryState), s.AtGate, durable, text(s.Lacks),
		})
	}
	return rows
}

func tableRows(_ context.Context, src Source, v Viewer) [][]any {
	var rows [][]any
	for _, t := range src.Tables() {
		if !v.All && t.Database != v.Database {
			continue
		}
		rows = append(rows, []any{t.Database, t.Schema, t.Name, t.Kind, t.Columns, text(t.Vindex), t.State})
	}
	return rows
}

func placementRows(_ context.Context, src Source, _ Viewer) [][]any {
	var rows [][]any
	for _, r := range src.Placement() {
		rows = append(rows, []any{r.First, r.Last, r.Last - r.First + 1, r.Shard})
	}
	return rows
}

func transactionRows(ctx context.Context, src Source, v Viewer) [][]any {
	var rows [][]any
	for _, t := range src.Transactions(ctx) {
		if t.GID != "" && !v.sees(t.Role) {
			t.GID, t.Decider, t.Participants = "", "", nil
		}
		var age any
		if t.Age != nil {
			age = *t.Age
		}
		var participants any
		if len(t.Participants) > 0 {
			participants = t.Participants
		}
		rows = append(rows, []any{text(t.GID), text(t.Database), t.Shard, t.State, age, text(t.Role), text(t.Proxy), text(t.Decider), participants})
	}
	return rows
}

func statementRows(_ context.Context, src Source, v Viewer) [][]any {
	list := src.Statements()
	slices.SortFunc(list, func(a, b Statement) int { return int(b.Total - a.Total) })
	var rows [][]any
	for _, s := range list {
		id, statement := any(s.ID), s.Text
		if !v.sees(s.User) {
			id, statement = nil, hidden
		}
		rows = append(rows, []any{
			src.Proxy(), id, s.User, s.Database, statement, s.Kind, s.Calls, s.Errors, s.Rows, s.Shards, ms(s.Total), ms(s.Min), ms(s.Max), ms(s.Mean), s.Since,
		})
	}
	return rows
}

func statRows(_ context.Context, src Source, _ Viewer) [][]any {
	var rows [][]any
	for _, s := range src.Stats() {
		rows = append(rows, []any{src.Proxy(), s.Kind, s.Count, s.Seconds, s.Median, s.NinetyNinth})
	}
	return rows
}

func recordingRows(_ context.Context, src Source, _ Viewer) [][]any {
	var rows [][]any
	for _, r := range src.Recordings() {
		rows = append(rows, []any{src.Proxy(), r.Database, r.State, r.Share, r.Since, r.Until, r.Seen, r.Kept, r.Bytes})
	}
	return rows
}

func moveRows(ctx context.Context, src Source, v Viewer) [][]any {
	var rows [][]any
	for _, m := range src.Moves(ctx) {
		if !v.All && m.Database != "" && m.Database != v.Database {
			continue
		}
		var blocked any
		if v.All {
			blocked = text(m.BlockedBy)
		}
		rows = append(rows, []any{
			m.Job, text(m.Database), m.Kind, m.State, text(m.Reason), m.From, m.To, m.Done, m.Buckets, m.Rows, m.Bytes, m.Rate, m.ETA,
			m.Median, m.NinetyNinth, m.Max, m.ReadNinetyNinth, m.Rounds, m.GivenUp, blocked, text(m.User), text(m.Proxy), m.Started, m.Ended,
		})
	}
	return rows
}

func roundRows(ctx context.Context, src Source, v Viewer) [][]any {
	var rows [][]any
	for _, r := range src.MoveRounds(ctx) {
		if v.All || r.Database == v.Database {
			rows = append(rows, []any{r.Number, r.Job, r.Database, r.Ended, r.Ways, r.Buckets, r.Outcome, r.Rows, r.Bytes, r.Writes, r.Reads})
		}
	}
	return rows
}

// bucketRows asks the shards what buckets hold only for those who may see all: it costs the shards
// something.
func bucketRows(ctx context.Context, src Source, v Viewer) [][]any {
	var rows [][]any
	for _, b := range src.Buckets(ctx, v.All) {
		var n, bytes any
		if b.Known {
			n, bytes = b.Rows, b.Bytes
		}
		rows = append(rows, []any{b.Number, b.Shard, n, bytes, text(b.MovingTo)})
	}
	return rows
}

func settingRows(_ context.Context, src Source, v Viewer) [][]any {
	var rows [][]any
	for _, s := range src.Settings() {
		value := any(s.Value)
		if !v.All {
			value = nil
		}
		rows = append(rows, []any{src.Proxy(), s.Name, value, s.Reload})
	}
	return rows
}

// sorted puts rows in the order of what they show.
func sorted(rows [][]any) [][]any {
	slices.SortFunc(rows, func(a, b []any) int {
		for i := range a {
			x, _ := Format(a[i])
			y, _ := Format(b[i])
			if c := strings.Compare(x, y); c != 0 {
				return c
			}
		}
		return 0
	})
	return rows
}
