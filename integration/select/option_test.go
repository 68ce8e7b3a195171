package selects

import (
	"strings"
	"testing"

	"weft/integration/pair"
)

// TestOptions: what a session says about reads over several shards is heeded.
func TestOptions(t *testing.T) {
	w := open(t, settings[0])
	ask := func(sql string) pair.Answer { return w.Weft.Ask(pair.Simple, sql, nil, nil) }
	rows := func(a pair.Answer) int {
		if len(a.Results) == 0 {
			return -1
		}
		return len(a.Results[len(a.Results)-1].Rows)
	}
	if a := ask("select current_setting('weft.scatter'), count(*) from a"); a.Code != "" || a.Results[0].Cells[0][0] != "on" {
		t.Errorf("an option beside rows: %s %s %v", a.Code, a.Message, a.Results)
	}
	const all, one = "select id from a", "select id from a where k = 1"
	want := rows(ask(all))
	if want < 10 {
		t.Fatalf("%d rows", want)
	}
	for _, step := range []struct {
		set  string // statements, one by one
		code string // of what reads all shards
	}{
		{"set weft.scatter = off", "0A000"},
		{"reset weft.scatter", ""},
		{"begin; set local weft.scatter = off", "0A000"},
		{"rollback", ""},
		{"begin; set weft.scatter = off; savepoint s; set local weft.scatter = on", ""},
		{"rollback to s", "0A000"},
		{"rollback", ""},
		{"set weft.max_gather_bytes = '100B'", "53400"},
		{"set weft.max_gather_bytes = '1MB'", ""},
		{"set weft.max_parallel_shards = 1", ""},
		{"set weft.max_parallel_shards = 2", ""},
		{"reset all", ""},
	} {
		for sql := range strings.SplitSeq(step.set, "; ") {
			if a := ask(sql); a.Code != "" {
				t.Fatalf("%s: %s %s", sql, a.Code, a.Message)
			}
		}
		// One shard is always allowed.
		if a := ask(one); a.Code != "" {
			t.Errorf("%s: %s: %s %s", step.set, one, a.Code, a.Message)
		}
		for _, sql := range []string{all, "select id, n from a order by id", "select distinct id from a"} {
			point := w.Weft.Conn.TxStatus() == 'T'
			if point {
				ask("savepoint try")
			}
			a := ask(sql)
			streams := step.code == "53400" && sql != "select distinct id from a" // what is passed on is not held
			if a.Code != step.code && !(streams && a.Code == "") || a.Code == "" && rows(a) != want {
				t.Errorf("%s: %s: %d rows, %s %s", step.set, sql, rows(a), a.Code, a.Message)
			}
			if point {
				ask("rollback to try")
			}
		}
	}
}
