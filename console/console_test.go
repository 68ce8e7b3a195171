package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"weft/console"
	"weft/pgerr"
)

// source is a proxy that remembers what it was told to do.
type source struct{ did []string }

var since = time.Date(2024, 2, 3, 4, 5, 6, 7000, time.FixedZone("", 3600))

func (*source) Version() string { return "1.2.3" }
func (*source) Proxy() string   { return "p1" }

func (*source) Sessions() []console.Session {
	return []console.Session{
		{ID: 9, User: "b", Database: "app", Address: "127.0.0.1:2", State: "idle", Connected: since},
		{ID: 8, User: "a", Database: "app", Address: "127.0.0.1:1", State: "active", Connected: since, Statement: "SELECT $1", Since: since, Shard: "home", BackendPID: 77, Shards: 1, Pinned: "temporary objects", Application: "psql"},
	}
}

func (*source) Servers() []console.Server {
	return []console.Server{{Shard: "s1", Database: "app", User: "a", PID: 5, State: "used", Session: 8}, {Shard: "home", Database: "app", User: "a", PID: 6, State: "idle"}}
}

func (*source) Pools() []console.Pool {
	return []console.Pool{{Shard: "home", Database: "app", User: "a", Mode: "transaction", Open: 5, Idle: 2, Waiting: 1}}
}

func (*source) Shards() []console.Shard {
	return []console.Shard{{Name: "home", Hosts: []string{"h1:1", `h"2`}, Home: true, Weight: 1, Buckets: 7, Seconds: 0.5, ConnectionLimit: 80, State: "active", Primary: "h1:1", Generation: "7/2@0/60", PrimaryState: "seeking", AtGate: 3}}
}

func (*source) Placement() []console.Range {
	return []console.Range{{First: 0, Last: 6, Shard: "home"}}
}

func (*source) Tables() []console.Sharded {
	return []console.Sharded{{Database: "app", Schema: "public", Name: "t", Kind: "reference", Columns: []string{}, State: "active"}}
}

func (*source) Statements() []console.Statement {
	return []console.Statement{
		{ID: 1, User: "a", Database: "app", Text: "SELECT $1", Kind: "shard", Calls: 2, Rows: 2, Shards: 2, Total: 3 * time.Millisecond, Min: time.Millisecond, Max: 2 * time.Millisecond, Mean: 1500 * time.Microsecond, Since: since},
		{ID: 2, User: "b", Database: "app", Text: "SELECT x", Kind: "gather", Calls: 1, Total: time.Second, Since: since},
	}
}

func (*source) Stats() []console.Stat {
	return []console.Stat{{Kind: "shard", Count: 3, Seconds: 0.25, Median: 1, NinetyNinth: 5}}
}

func (*source) Recordings() []console.Recording {
	return []console.Recording{{Database: "app", State: "over", Share: 0.5, Since: since, Until: since, Seen: 3, Kept: 2, Bytes: 99}}
}

func (*source) Settings() []console.Setting {
	return []console.Setting{{Name: "listen", Value: ":6432"}, {Name: "log.level", Value: "info", Reload: true}}
}

func (*source) Transactions(context.Context) []console.Transaction {
	age := 1.5
	return []console.Transaction{{GID: "g", Database: "app", Shard: "s1", State: "prepared", Age: &age, Participants: []string{"s2"}}, {Shard: "s3", State: "unreachable"}}
}

func (*source) Moves(context.Context) []console.Move {
	return []console.Move{
		{Job: "j", Database: "app", Kind: "move", State: "running", From: []string{"s1"}, To: []string{"s2"}, Done: 1, Buckets: 4, Rows: 10, Bytes: 99, Rate: 2.5, ETA: since, Max: 3, Rounds: 2, GivenUp: 1, BlockedBy: "somebody", User: "a", Proxy: "p1", Started: since},
		{Job: "k", Database: "other", Kind: "move", State: "done", From: []string{}, To: []string{}, Started: since, Ended: since},
	}
}

func (*source) MoveRounds(context.Context) []console.Round {
	return []console.Round{{Number: 5, Job: "j", Database: "app", Ended: since, Ways: "s1 -> s2: 0", Buckets: 1, Outcome: "carried", Rows: 10, Bytes: 99, Writes: 1.5, Reads: 0.5}}
}

func (*source) Buckets(_ context.Context, sizes bool) []console.Bucket {
	return []console.Bucket{{Number: 0, Shard: "s1", Known: sizes, Rows: 4, Bytes: 40, MovingTo: "s2"}, {Number: 1, Shard: "s2", Known: sizes}}
}

func (*source) Warnings(_ context.Context, values bool) []console.Warning {
	return []console.Warning{
		{ID: "a1", Since: since, Severity: "warning", Object: "key 7", Message: fmt.Sprint("key 7 is hot: ", values), SQL: "SELECT 1", Database: "app", Private: true},
		{ID: "b2", Since: since, Severity: "warning", Object: "shard a", Message: "shard a is saturated", Advice: "more", SQL: "SELECT 2"},
		{ID: "c3", Since: since, Severity: "warning", Object: "bucket 3", Message: "bucket 3 is hot", Database: "other"},
	}
}

func (*source) Throttles(_ context.Context, values bool) []console.Throttle {
	key := "key (hidden) of t"
	if values {
		key = `key <b>7</b>\u0001 of t`
	}
	return []console.Throttle{
		{ID: 1, Kind: "key", Target: key, Database: "app", Class: "any", Allows: "200/s", MaxWait: 500, Mode: "enforce", Origin: "manual", Reason: "why", By: "root", Created: since, Expires: since, Demand: 1.5, Passed: 1, Delayed: 2, Refused: 3, DelayP99: 4},
		{ID: 2, Kind: "username", Target: "user b", User: "b", Class: "read", Allows: "nothing", Mode: "observe", Origin: "automatic", Created: since, Expires: since},
		{ID: 3, Kind: "database", Target: "database other", Database: "other", Class: "any", Allows: "2 at a time", Created: since, Expires: since},
	}
}

func (*source) Heat(_ context.Context, _ console.Aspect, values bool) console.Heat {
	used, allows := 0.75, int64(12)
	w := console.Work{Reads: 4, Writes: 1, Failed: 0.5, Rows: 9, Bytes: 100, Busy: 2.5}
	key := ""
	if values {
		key = "<b>seven</b>\x1b[31m"
	}
	return console.Heat{
		Keys: []console.HotKey{
			{Work: w, Database: "app", Tables: []string{"t"}, Key: key, Bucket: 3, Shard: "s1", OfShard: 0.5, Share: 0.25, Error: 0.01, Median: 1, NinetyNinth: 2, Since: since, Finding: console.Finding{Verdict: "hot", Reason: "single_key"}},
			{Work: w, Database: "other", Tables: []string{}, Since: since},
		},
		Statements: []console.HotStatement{{Work: w, ID: 5, Database: "app", User: "a", Text: "SELECT $1", Shard: "s1", OfShard: 0.5, Median: 1, NinetyNinth: 2, Since: since}},
		Buckets:    []console.HotBucket{{Work: w, Database: "app", Number: 3, Shard: "s1", Share: 0.5, OverMean: 9, TopKey: 0.75, Finding: console.Finding{Verdict: "warm", Reason: "many_warm"}}, {Database: "other"}},
		Shards:     []console.ShardLoad{{Work: w, Shard: "s1", Share: 0.5, OverMean: 2, Median: 1, NinetyNinth: 2, WaitMedian: 3, WaitNinetyNinth: 4, Active: &console.Active{CPU: 5, Lock: 6, IO: 7, WAL: &used, Machine: &used}, Utilisation: &used, FullAt: since, Slowdown: &used, Allows: &allows, Finding: console.Finding{Verdict: "saturated"}}},
		Skews:      []console.Skew{{Database: "app", Class: "read", Evenness: 0.5, Effective: 3, Buckets: 8, Gini: 0.4, TopBucket: 3, TopShare: 0.5, TopKey: 0.25, ShardsOverMean: 2, CrossShard: 0.1, Scatter: 0.05, TwoPhase: 0.01, Usual: 6, Warned: true}, {Database: "other", TopBucket: -1}},
	}
}

func (*source) Queues(values bool) []console.Queue {
	key := "key (hidden) of t"
	if values {
		key = "key 7 of t"
	}
	return []console.Queue{
		{Proxy: "p", Shard: "s1", Database: "app", Key: key, Kind: "row", Mode: "auto", Slots: 2, Used: 2, Waiting: 9, WaitP99: 1.5, Served: 70, Waited: 60, Refused: 1},
		{Proxy: "p", Shard: "s1", Database: "other", Key: key, Kind: "row", Mode: "auto"},
	}
}

func (*source) Replicas() []console.Replica {
	return []console.Replica{
		{Shard: "home", Address: "h1:1", Role: "primary", State: "primary", System: "7", Timeline: 2, LSN: "0/100", Sync: []string{"async", "sync"}, Since: since},
		{Shard: "home", Address: "h2:1", Role: "standby", State: "standby", System: "7", Timeline: 2, LSN: "0/80", Lag: &console.Behind{Bytes: 128, Time: 1500 * time.Millisecond}, Since: since},
		{Shard: "home", Address: "h3:1", State: "silent", Error: "dial h3:1: refused", Since: since},
	}
}

func (*source) Backups(context.Context) []console.Backup {
	usable := true
	return []console.Backup{{Name: "nightly", At: since, Age: 5, Usable: &usable, Size: 99, Took: 12, Waited: 3, LSN: `{"s1":"0/1"}`}, {Name: "odd", At: since, Strict: true, LSN: "{}"}}
}

func (*source) Failovers(context.Context) []console.Failover {
	lost := int64(32)
	return []console.Failover{
		{At: since, Shard: "home", From: "h1:1", To: "h2:1", FromTimeline: 1, Timeline: 2, Fork: "0/60", Last: "0/80", Lost: &lost, Kept: since, Paused: 3, Millis: 1.5},
		{At: since, Shard: "home", To: "h2:1", Timeline: 3},
	}
}

func (*source) Losses(context.Context) []console.Loss {
	told := true
	return []console.Loss{
		{GID: "weft:c:p:1:home.1", Database: "shop", State: "half", Decider: "home", Kept: []string{"home"}, Lost: []string{"b"}, Told: &told, Committed: since, Found: since, Proxy: "p"},
		{GID: "weft:c:p:2:home.1", Database: "other", State: "half", Decider: "home", Kept: []string{"home"}, Lost: []string{"b"}, Found: since, Accepted: since, Proxy: "p"},
	}
}

func (s *source) ThrottleShard(_ context.Context, shard, rate, lasts string) (int64, error) {
	s.did = append(s.did, "throttle "+shard+" "+rate+" "+lasts)
	return 7, nil
}

func (s *source) Unthrottle(_ context.Context, id string) error {
	s.did = append(s.did, "unthrottle "+id)
	return nil
}

func (s *source) PauseMoves(context.Context) (int, error) {
	s.did = append(s.did, "pause moves")
	return 2, nil
}

func (s *source) ResumeMoves(context.Context) (int, error) {
	s.did = append(s.did, "resume moves")
	return 1, nil
}

func (s *source) Eject(address string) error {
	s.did = append(s.did, "eject "+address)
	return nil
}

func (s *source) Admit(address string) error {
	s.did = append(s.did, "admit "+address)
	return nil
}

func (s *source) Pause(_ context.Context, shard string) error {
	s.did = append(s.did, "pause "+shard)
	return nil
}

func (s *source) DrainEverywhere(_ context.Context, shard, lasts string) error {
	s.did = append(s.did, "drain "+shard+" "+lasts)
	return nil
}

func (s *source) ResumeEverywhere(_ context.Context, shard string) error {
	s.did = append(s.did, "resume "+shard+" everywhere")
	return nil
}

func (s *source) Resume(shard string) error {
	s.did = append(s.did, "resume "+shard)
	return nil
}

func (s *source) Reload(context.Context) ([]string, error) {
	s.did = append(s.did, "reload")
	return []string{"listen needs a restart"}, nil
}

func (s *source) Kill(id int32) error {
	s.did = append(s.did, "kill")
	if id != 8 {
		return pgerr.New(pgerr.UndefinedObject, "there is no client with the id %d", id)
	}
	return nil
}

// text writes a table as psql -A does.
func text(t console.Table) string {
	var b strings.Builder
	for _, r := range t.Rows {
		for i, v := range r {
			s, _ := console.Format(v)
			if i > 0 {
				b.WriteByte('|')
			}
			b.WriteString(s)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestShow(t *testing.T) {
	for _, tc := range []struct{ line, rows string }{
		{"SHOW VERSION", "1.2.3\n"},
		{
			" show\n clients ;; ",
			"p1|8|a|app|psql|127.0.0.1:1|active|2024-02-03 03:05:06.000007+00|SELECT $1|2024-02-03 03:05:06.000007+00|home|77|1|temporary objects\n" +
				"p1|9|b|app||127.0.0.1:2|idle|2024-02-03 03:05:06.000007+00|||||0|\n",
		},
		{"show sessions", "p1|8|a"},
		{"Show Pools", "p1|home|app|a|transaction|5|3|2|1|\n"},
		{"SHOW SERVERS", "p1|home|app|a|6|idle|\np1|s1|app|a|5|used|8\n"},
		{"SHOW SHARDS;", `p1|home|{"h1:1","h\"2"}|t|1|7|f|0|0|0|80|0|0.5|0|0|0|0|active|h1:1|7/2@0/60|seeking|3||` + "\n"},
		{"SHOW TABLES", "app|public|t|reference|{}||active\n"},
		{"SHOW PLACEMENT", "0|6|7|home\n"},
		{"SHOW TRANSACTIONS", "g|app|s1|prepared|1.5||||{\"s2\"}\n||s3|unreachable|||||\n"},
		{"SHOW STATEMENTS", "p1|2|b|app|SELECT x|gather|1|0|0|0|1000|0|0|0|2024-02-03 03:05:06.000007+00\np1|1|a|app|SELECT $1|shard|2|0|2|2|3|1|2|1.5|2024"},
		{"SHOW STATS", "p1|shard|3|0.25|1|5\n"},
		{"SHOW RECORDING", "p1|app|over|0.5|2024-02-03 03:05:06.000007+00|2024-02-03 03:05:06.000007+00|3|2|99\n"},
		{"SHOW MOVES", "j|app|move|running||{\"s1\"}|{\"s2\"}|1|4|10|99|2.5|2024-02-03 03:05:06.000007+00|0|0|3|0|2|1|somebody|a|p1|2024-02-03 03:05:06.000007+00|\nk|other|"},
		{"SHOW ROUNDS", "5|j|app|2024-02-03 03:05:06.000007+00|s1 -> s2: 0|1|carried|10|99|1.5|0.5\n"},
		{"show buckets", "0|s1|4|40|s2\n1|s2|0|0|\n"},
		{"SHOW KEYS", `app|{"t"}|<b>seven</b>\u001b[31m|3|s1|4|1|0.5|9|100|2.5|0.5|0.25|0.01|1|2|2024-02-03 03:05:06.000007+00|hot|single_key` + "\nother|{}||0||"},
		{"SHOW HOT", "app|a|5|SELECT $1|s1|4|1|0.5|9|100|2.5|0.5|1|2|2024-02-03 03:05:06.000007+00\n"},
		{"show heat", "app|3|s1|4|1|0.5|9|100|2.5|0.5|9|0.75|warm|many_warm\nother|"},
		{"SHOW LOAD", "s1|4|1|0.5|9|100|2.5|0.5|2|1|2|3|4|5|6|7|saturated||0.75|2024-02-03 03:05:06.000007+00|0.75|12|0.75|0.75\n"},
		{"SHOW SKEW", "app|read|0.5|3|8|0.4|3|0.5|0.25|2|0.1|0.05|0.01|6|t\nother||0|0|0|0||"},
		{"SHOW WARNINGS", "a1|2024-02-03 03:05:06.000007+00|warning|key 7|key 7 is hot: true||SELECT 1\nb2|"},
		{"SHOW QUEUES", "p|s1|app|key 7 of t|row|auto|2|2|9|1.5|70|60|1\np|s1|other|"},
		{
			"SHOW REPLICAS",
			"p1|home|h1:1|primary|primary|7|2|0/100|||{\"async\",\"sync\"}||2024-02-03 03:05:06.000007+00\n" +
				"p1|home|h2:1|standby|standby|7|2|0/80|128|1.5|||2024-02-03 03:05:06.000007+00\n" +
				"p1|home|h3:1||silent|||||||dial h3:1: refused|2024-02-03 03:05:06.000007+00\n",
		},
		{
			"SHOW BACKUPS",
			"nightly|2024-02-03 03:05:06.000007+00|5|f|t|99|12|3|{\"s1\":\"0/1\"}\nodd|2024-02-03 03:05:06.000007+00|0|t||0|0|0|{}\n",
		},
		{
			"SHOW FAILOVERS",
			"2024-02-03 03:05:06.000007+00|home|h1:1|1|h2:1|2|0/60|0/80|t|32|2024-02-03 03:05:06.000007+00|3|1.5\n" +
				"2024-02-03 03:05:06.000007+00|home|||h2:1|3||||||0|0\n",
		},
		{"SHOW THROTTLES", `1|key <b>7</b>\u0001 of t|app|any|200/s|500||enforce|manual|why|root|2024-02-03 03:05:06.000007+00|2024-02-03 03:05:06.000007+00|1.5|1|2|3|4` + "\n2|user b|"},
		{"SHOW CONFIG", "p1|listen|:6432|f\np1|log.level|info|t\n"},
	} {
		got, err := console.Run(t.Context(), tc.line, &source{})
		if err != nil || got.Tag != "SHOW" || !strings.HasPrefix(text(got), tc.rows) {
			t.Errorf("%s: %v\n%s", tc.line, err, text(got))
		}
		cols, err := console.Describe(tc.line)
		if err != nil || len(cols) != len(got.Columns) {
			t.Errorf("%s is described as %v, %v", tc.line, cols, err)
		}
		for _, r := range got.Rows {
			if len(r) != len(cols) {
				t.Errorf("%s: a row of %d columns, not %d", tc.line, len(r), len(cols))
			}
		}
	}
}

// Values are of the types their columns say, and what is JSON of them is too.
func TestTypes(t *testing.T) {
	for _, w := range console.Views {
		tab := w.Table(t.Context(), &source{}, console.Viewer{All: true})
		if len(tab.Rows) == 0 {
			t.Errorf("%s: no rows", w.Name)
		}
		for _, r := range tab.Rows {
			for i, v := range r {
				ok := v == nil
				switch v.(type) {
				case string:
					ok = w.Columns[i].Type == console.Text
				case bool:
					ok = w.Columns[i].Type == console.Bool
				case int64:
					ok = w.Columns[i].Type == console.Int
				case float64:
					ok = w.Columns[i].Type == console.Float
				case time.Time:
					ok = w.Columns[i].Type == console.Time
				case []string:
					ok = w.Columns[i].Type == console.Texts
				}
				if !ok {
					t.Errorf("%s.%s holds %T", w.Name, w.Columns[i].Name, v)
				}
			}
		}
		var objects []map[string]any
		if err := json.Unmarshal(tab.JSON(), &objects); err != nil || len(objects) != len(tab.Rows) {
			t.Errorf("%s: %v in %s", w.Name, err, tab.JSON())
		}
	}
}

// What is others' is for those who may see it.
func TestViewer(t *testing.T) {
	src := &source{}
	for _, name := range []string{"sessions", "statements", "hot_statements"} {
		got := text(console.Named(name).Table(t.Context(), src, console.Viewer{User: "b"}))
		if strings.Contains(got, "SELECT $1") || !strings.Contains(got, "<insufficient privilege>") {
			t.Errorf("%s shows a's statement to b:\n%s", name, got)
		}
		if got := text(console.Named(name).Table(t.Context(), src, console.Viewer{User: "a"})); !strings.Contains(got, "SELECT $1") {
			t.Errorf("%s hides a's own statement:\n%s", name, got)
		}
	}
	for _, name := range []string{"servers", "pools", "shards", "transactions", "replicas", "failovers"} {
		own, others := console.Named(name).Table(t.Context(), src, console.Viewer{All: true}), console.Named(name).Table(t.Context(), src, console.Viewer{User: "b"})
		if len(own.Rows) == 0 || len(own.Rows) != len(others.Rows) {
			t.Fatalf("%s: %d rows, %d for others", name, len(own.Rows), len(others.Rows))
		}
		secret := map[string][]string{
			"servers": {"backend_pid", "state", "session"}, "pools": {"mode", "open", "used", "idle", "waiting", "connection_limit"}, "shards": {"hosts", "primary_address"}, "replicas": {"address", "last_error"}, "failovers": {"from_address", "to_address"}, "transactions": {"gid", "decider", "participants"},
		}
		for i, c := range own.Columns {
			for r := range others.Rows {
				if hides := slices.Contains(secret[name], c.Name); hides && others.Rows[r][i] != nil {
					t.Errorf("%s.%s of a is %v for b", name, c.Name, others.Rows[r][i])
				}
			}
		}
	}
	if got := console.Named("tables").Table(t.Context(), src, console.Viewer{User: "b", Database: "elsewhere"}); len(got.Rows) != 0 {
		t.Errorf("declarations of another database are shown: %v", got.Rows)
	}
	viewer := console.Viewer{User: "b", Database: "app"}
	if got := text(console.Named("moves").Table(t.Context(), src, viewer)); strings.Contains(got, "somebody") || strings.Contains(got, "other") {
		t.Errorf("jobs of other databases, or who is in their way, are shown to everybody:\n%s", got)
	}
	if got := text(console.Named("buckets").Table(t.Context(), src, viewer)); got != "0|s1|||s2\n1|s2|||\n" {
		t.Errorf("everybody makes weft read what buckets hold:\n%s", got)
	}
	for _, name := range []string{"hot_keys", "heat", "skew"} {
		if got := text(console.Named(name).Table(t.Context(), src, viewer)); strings.Contains(got, "seven") || strings.Contains(got, "other") || !strings.HasPrefix(got, "app|") {
			t.Errorf("%s shows values, or other databases, to everybody:\n%s", name, got)
		}
	}
	if got := text(console.Named("hot_keys").Table(t.Context(), src, viewer)); !strings.Contains(got, "<insufficient privilege>") {
		t.Errorf("weft.hot_keys:\n%s", got)
	}
	if got := text(console.Named("warnings").Table(t.Context(), src, viewer)); got != "|2024-02-03 03:05:06.000007+00|warning|<insufficient privilege>|<insufficient privilege>||\n"+
		"|2024-02-03 03:05:06.000007+00|warning|shard a|shard a is saturated|more|\n" {
		t.Errorf("weft.warnings:\n%s", got)
	}
	if got := text(console.Named("throttles").Table(t.Context(), src, viewer)); !strings.HasPrefix(got, "1|<insufficient privilege>|app|any|200/s|500||enforce|manual|<insufficient privilege>|<insufficient privilege>|") ||
		!strings.Contains(got, "\n2|user b||read|nothing|") || strings.Contains(got, "other") {
		t.Errorf("weft.throttles:\n%s", got)
	}
	if got := text(console.Named("settings").Table(t.Context(), src, console.Viewer{User: "b"})); strings.Contains(got, "6432") {
		t.Errorf("settings are shown to everybody:\n%s", got)
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "",
		"<img src=x onerror=y> é😀": "<img src=x onerror=y> é😀",
		"a\x00b\x1b]0;t\x07\r\n":   `a\u0000b\u001b]0;t\u0007\u000d\u000a`,
		"\u202egnp.exe\u200b":      `\u202egnp.exe\u200b`,
		"\xff\xc3(":                `\xff\xc3(`,
		"\ufffd":                   `\ufffd`,
		"\u00a0":                   `\u00a0`,
	} {
		if got := console.Printable(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestDo(t *testing.T) {
	src := &source{}
	for line, tag := range map[string]string{
		"PAUSE": "PAUSE", "resume;": "RESUME", "Drain Shard s1": "DRAIN", `RESUME SHARD "s1"`: "RESUME", "drain shard s1 everywhere": "DRAIN", "DRAIN SHARD s2 EVERYWHERE FOR 30s": "DRAIN", "RESUME SHARD s3 EVERYWHERE": "RESUME", "RELOAD": "RELOAD", "KILL 8": "KILL",
		"UNTHROTTLE 7": "UNTHROTTLE", "pause moves": "PAUSE", "RESUME MOVES;": "RESUME", "EJECT h1:1": "EJECT", "admit 'h1:1'": "ADMIT",
		"BEGIN": "BEGIN", "SET x = 1": "SET", "COMMIT": "COMMIT", "ROLLBACK": "ROLLBACK", "DISCARD ALL": "DISCARD ALL",
	} {
		got, err := console.Run(t.Context(), line, src)
		if err != nil || got.Tag != tag || got.Columns != nil {
			t.Errorf("%s: %+v %v", line, got, err)
		}
		if cols, err := console.Describe(line); err != nil || cols != nil {
			t.Errorf("%s is described as %v, %v", line, cols, err)
		}
	}
	did := strings.Join(src.did, ",")
	for _, want := range []string{"pause ", "pause s1", "resume ", "resume s1", "reload", "kill", "pause moves", "resume moves", "eject h1:1", "admit h1:1", "drain s1 ", "drain s2 30s", "resume s3 everywhere"} {
		if !strings.Contains(did+",", want+",") {
			t.Errorf("%q was not done: %s", want, did)
		}
	}
}

func TestThrottleShard(t *testing.T) {
	src := &source{}
	const line = `throttle shard "s1" rate 100 for 5m;`
	got, err := console.Run(t.Context(), line, src)
	if err != nil || got.Tag != "THROTTLE" || text(got) != "7\n" || strings.Join(src.did, ",") != "throttle s1 100 5m" {
		t.Errorf("%+v %v, %v", got, err, src.did)
	}
	if cols, err := console.Describe(line); err != nil || len(cols) != 1 {
		t.Errorf("described as %v, %v", cols, err)
	}
	for _, line := range []string{"THROTTLE s1", "UNTHROTTLE", "THROTTLE SHARD s1 RATE FOR 5m"} {
		if _, err := console.Run(t.Context(), line, src); err == nil || !strings.Contains(pgerr.From(err).Hint, "THROTTLE SHARD name RATE 100 FOR 5m") {
			t.Errorf("%s: %v", line, err)
		}
	}
	if _, err := console.Run(t.Context(), "UNTHROTTLE x", src); err == nil || pgerr.From(err).Code != pgerr.InvalidParameterValue {
		t.Error(err)
	}
}

func TestEmpty(t *testing.T) {
	for _, line := range []string{"", " ", ";", " ; "} {
		if got, err := console.Run(t.Context(), line, &source{}); err != nil || got.Tag != "" {
			t.Errorf("%q: %+v %v", line, got, err)
		}
	}
}

func TestUnknown(t *testing.T) {
	for _, line := range []string{"SELECT 1", "SHOW", "SHOW ALL", "SHOW POOLS CASCADE", "DROP TABLE x", "DRAIN", "DRAIN SHARD", "KILL", "PAUSE x", "EJECT", "ADMIT a b"} {
		_, err := console.Run(t.Context(), line, &source{})
		var e *pgerr.Error
		if !errors.As(err, &e) || e.Code != pgerr.SyntaxError || e.Hint == "" {
			t.Errorf("%q: %v", line, err)
		}
		if _, err := console.Describe(line); err == nil {
			t.Errorf("%q is described", line)
		}
	}
	for _, line := range []string{"KILL x", "KILL 99999999999", "KILL 7"} {
		if _, err := console.Run(t.Context(), line, &source{}); err == nil {
			t.Errorf("%q works", line)
		}
	}
}

// TestHelp: the list is of commands that work.
func TestHelp(t *testing.T) {
	help, err := console.Run(t.Context(), "SHOW HELP", &source{})
	if err != nil || len(help.Rows) < 15 {
		t.Fatalf("%+v %v", help, err)
	}
	for _, r := range help.Rows {
		line := strings.NewReplacer("name", "s1", "id", "8").Replace(r[0].(string))
		if _, err := console.Run(t.Context(), line, &source{}); err != nil || r[1] == "" {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// What one proxy writes of a view, another reads.
func TestRead(t *testing.T) {
	at := time.Date(2026, 11, 17, 1, 2, 3, 4000, time.UTC)
	view := &console.View{Columns: []console.Column{{"a", console.Text}, {"b", console.Bool}, {"c", console.Int}, {"d", console.Float}, {"e", console.Time}, {"f", console.Texts}, {"g", console.Text}}}
	rows := [][]any{{"<x>", true, int64(1) << 60, 0.1, at, []string{"p", "q"}, nil}, {nil, false, int64(-1), 2.0, nil, []string{}, "z"}}
	got, err := view.Read(console.Table{Columns: view.Columns, Rows: rows}.JSON())
	if err != nil || !reflect.DeepEqual(got, rows) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := view.Read([]byte(`[{"a":"x","new":7}]`)); err != nil || got[0][0] != "x" {
		t.Errorf("a column of a later version: %v, %v", got, err)
	}
	for _, bad := range []string{`{}`, `[{"a":7}]`, ``} {
		if _, err := view.Read([]byte(bad)); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
}
