package routing

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/integration/harness"
)

var undeclared = flag.Bool("undeclared", false, "declare no table: every statement goes home, so that the scripts themselves are tested")

func TestMain(m *testing.M) {
	harness.ShardCount = 4
	os.Exit(harness.Main(m))
}

// TestScripts plays every script of testdata in every mode.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".sql")
		t.Run(name, func(t *testing.T) {
			play(t, name, readScript(t, name))
		})
	}
}

// database makes a database on both sides that nobody has used before. It goes
// with the servers: dropping it would take longer than most scripts.
func database(t testing.TB, name string) string {
	t.Helper()
	name = "r_" + name
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	servers := append(slices.Clone(harness.Weft(t).Shards()), harness.Postgres(t).Home)
	errs := make([]error, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() {
			conn, err := pgx.Connect(ctx, s.ConnString("postgres"))
			if err == nil {
				_, err = conn.Exec(ctx, "create database "+name)
				_ = conn.Close(ctx)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return name
}

func play(t *testing.T, name string, script []section) {
	db := database(t, name)
	first := newPair(t, db)
	var data []statement
	for _, s := range script {
		for _, st := range s.statements {
			switch s.kind {
			case "setup":
				first.both(t, st.pos, st.sql)
			case "weft":
				declare(t, first, st)
			case "data":
				data = append(data, st)
			}
		}
	}
	for _, m := range modes {
		t.Run(string(m), func(t *testing.T) {
			for _, st := range data {
				first.both(t, st.pos, st.sql)
			}
			player := &player{mode: m, database: db, conns: map[string]*pair{}, counts: &counts{}, mask: map[string]bool{}}
			for _, s := range script {
				player.section(t, s)
			}
			t.Logf("%d statements, %d refused", player.counts.asked, player.counts.refused)
		})
	}
}

// declare runs a statement that only weft knows.
func declare(t testing.TB, p *pair, st statement) {
	t.Helper()
	if *undeclared {
		return
	}
	if a := p.weft.ask(simple, st.sql, nil, nil); a.code != "" {
		t.Fatalf("%s: %s: %s %s", st.pos, st.sql, a.code, a.message)
	}
}

// player plays a script in one mode.
type player struct {
	mode     mode
	database string
	conns    map[string]*pair
	current  string
	mask     map[string]bool
	counts   *counts
}

func (p *player) pair(t testing.TB) *pair {
	c := p.conns[p.current]
	if c == nil {
		c = newPair(t, p.database)
		c.mask, c.counts = p.mask, p.counts
		p.conns[p.current] = c
	}
	return c
}

func (p *player) section(t *testing.T, s section) {
	expect := s.kind
	switch s.kind {
	case "setup", "weft", "data":
		return
	case "conn":
		p.current = s.arg
	case "mask":
		clear(p.mask)
		for _, c := range strings.Fields(s.arg) {
			p.mask[c] = true
		}
	case "tables":
		if !*undeclared {
			sameTables(t, p.database, p.mask)
		}
	case "simple":
		if p.mode != simple {
			return
		}
		if expect = s.arg; expect == "" {
			expect = "simple"
		}
	}
	for _, st := range s.statements {
		sets := st.sets
		if len(sets) == 0 {
			sets = [][]param{nil}
		}
		for _, set := range sets {
			p.statement(t, expect, st, set)
		}
	}
}

func (p *player) statement(t *testing.T, expect string, st statement, set []param) {
	t.Helper()
	wrong, want, got := p.pair(t).run(p.mode, st.sql, set)
	asked := inline(st.sql, set)
	switch {
	case wrong != "":
		t.Errorf("%s: %s\n  %s", st.pos, asked, wrong)
	case got.refused() && expect != "maybe":
		t.Errorf("%s: %s\n  refused: %s", st.pos, asked, got.message)
	case got.refused():
	case expect == "route" && want.code != "" && want.message != replan:
		t.Errorf("%s: %s\n  fails on both: %s %s", st.pos, asked, want.code, want.message)
	case expect == "error" && want.code == "":
		t.Errorf("%s: %s\n  is meant to fail and does not", st.pos, asked)
	}
	if got.code == "?????" {
		t.Fatalf("%s: %s: the connection is lost: %s", st.pos, asked, got.message)
	}
}
