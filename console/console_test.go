package console_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"weft/console"
	"weft/pgerr"
)

type source struct{}

func (source) Clients() []console.Client {
	since := time.Date(2024, 2, 3, 4, 5, 6, 0, time.FixedZone("", 3600))
	return []console.Client{
		{ID: 9, User: "b", Database: "app", Address: "127.0.0.1:2", State: "idle", Since: since},
		{ID: 8, User: "a", Database: "app", Address: "127.0.0.1:1", State: "active", Pinned: "temporary objects", Shard: "home", BackendPID: 77, Application: "psql", Since: since},
	}
}

func (source) Pools() []console.Pool {
	return []console.Pool{{Shard: "home", Database: "app", User: "a", Mode: "transaction", Open: 5, Idle: 2, Waiting: 1}}
}

func (source) Shards() []console.Shard {
	return []console.Shard{{Name: "home", Hosts: []string{"h1:1", "h2:2"}, Home: true, Weight: 1}, {Name: "s1", Hosts: []string{"h3:3"}}}
}

func (source) Version() string { return "1.2.3" }

func TestRun(t *testing.T) {
	for _, tc := range []struct{ text, columns, rows string }{
		{"SHOW VERSION", "version", "1.2.3"},
		{
			" show\n clients ;; ", "id user database address state pinned shard backend_pid application connected",
			"8|a|app|127.0.0.1:1|active|temporary objects|home|77|psql|2024-02-03 03:05:06\n9|b|app|127.0.0.1:2|idle|||||2024-02-03 03:05:06",
		},
		{"Show Pools", "shard database user mode open idle used waiting", "home|app|a|transaction|5|2|3|1"},
		{"SHOW SHARDS;", "name hosts home weight", "home|h1:1,h2:2|true|1\ns1|h3:3|false|0"},
	} {
		got, err := console.Run(tc.text, source{})
		if err != nil || got.Tag != "SHOW" || strings.Join(got.Columns, " ") != tc.columns {
			t.Errorf("%s: %+v %v", tc.text, got, err)
		}
		var rows []string
		for _, r := range got.Rows {
			if len(r) != len(got.Columns) {
				t.Errorf("%s: a row of %d columns, not %d", tc.text, len(r), len(got.Columns))
			}
			rows = append(rows, strings.Join(r, "|"))
		}
		if g := strings.Join(rows, "\n"); g != tc.rows {
			t.Errorf("%s:\n%s", tc.text, g)
		}
	}
}

func TestEmpty(t *testing.T) {
	for _, text := range []string{"", " ", ";", " ; "} {
		if got, err := console.Run(text, source{}); err != nil || got.Tag != "" {
			t.Errorf("%q: %+v %v", text, got, err)
		}
	}
}

func TestUnknown(t *testing.T) {
	for _, text := range []string{"SELECT 1", "SHOW", "SHOW ALL", "SHOW POOLS CASCADE", "DROP TABLE x"} {
		_, err := console.Run(text, source{})
		var e *pgerr.Error
		if !errors.As(err, &e) || e.Code != pgerr.SyntaxError || e.Hint == "" {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestHelp: the list is of commands that work.
func TestHelp(t *testing.T) {
	help, err := console.Run("SHOW HELP", source{})
	if err != nil || len(help.Rows) < 5 {
		t.Fatalf("%+v %v", help, err)
	}
	for _, r := range help.Rows {
		if _, err := console.Run(r[0], source{}); err != nil || r[1] == "" {
			t.Errorf("%s: %v", r[0], err)
		}
	}
}
