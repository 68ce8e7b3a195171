package routing

import (
	"context"
	"errors"
	"flag"
	"hash/crc32"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/integration/harness"
	"weft/integration/pair"
	"weft/pgserver"
)

var undeclared = flag.Bool("undeclared", false, "declare no table: every statement goes home, so that the scripts themselves are tested")

func TestMain(m *testing.M) {
	harness.ShardCount = 4
	os.Exit(harness.Main(m))
}

// TestScripts plays every script of testdata, each in a database of its own: several at a time,
// as most of it is waiting for declarations. Roles are everybody's, so a script that makes some is
// played alone.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".sql")
		t.Run(name, func(t *testing.T) {
			script := pair.ReadScript(t, name)
			if !makesRoles(script) {
				t.Parallel()
			}
			play(t, name, script)
		})
	}
}

// makesRoles reports whether a script changes what is not in its database alone.
func makesRoles(script []pair.Section) bool {
	return slices.ContainsFunc(script, func(s pair.Section) bool {
		return slices.ContainsFunc(s.Statements, func(st pair.Statement) bool { return roleCommand.MatchString(st.SQL) })
	})
}

var roleCommand = regexp.MustCompile(`(?i)\b(create|alter|drop)\s+(role|user|group|tablespace|system)\b`)

// database makes a database on both sides that nobody has used before. It goes
// with the servers: dropping it would take longer than most scripts.
func database(t testing.TB, name string) string {
	t.Helper()
	name = "r_" + name
	plain := harness.Postgres(t).Home // started, if this is the first test
	servers := append(slices.Clone(harness.Weft(t).Shards()), plain)
	ctx, stop := context.WithTimeout(context.Background(), pair.Patience)
	defer stop()
	errs := make([]error, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() {
			create, err := s.CreateDatabase(name), error(nil)
			if s != plain {
				create, err = harness.CreatePrepared(ctx, s, name)
			}
			if err == nil {
				err = runOn(ctx, s, create)
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

// runOn runs a statement on a server.
func runOn(ctx context.Context, s *pgserver.Temp, sql string) error {
	conn, err := pgx.Connect(ctx, s.ConnString("postgres"))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}

// newPair connects to a database on both sides.
func newPair(t testing.TB, database string) *pair.Pair {
	t.Helper()
	return pair.New(t, harness.Postgres(t), harness.Weft(t), database)
}

func play(t *testing.T, name string, script []pair.Section) {
	db := database(t, name)
	first := newPair(t, db)
	var data []pair.Statement
	for _, s := range script {
		for _, st := range s.Statements {
			switch s.Kind {
			case "setup":
				first.Both(t, st.Pos, st.SQL)
			case "weft":
				declare(t, first, st)
			case "plain":
				first.Plain.Must(t, st.SQL)
			case "data":
				data = append(data, st)
			}
		}
	}
	for _, m := range modes(name) {
		t.Run(string(m), func(t *testing.T) {
			for _, st := range data {
				first.Both(t, st.Pos, st.SQL)
			}
			player := &player{mode: m, database: db, conns: map[string]*pair.Pair{}, counts: &pair.Counts{}, mask: map[string]bool{}}
			for _, s := range script {
				player.section(t, s)
			}
			t.Logf("%d statements, %d refused", player.counts.Asked, player.counts.Refused)
		})
	}
}

var allModes = flag.Bool("modes", false, "play every script in every mode")

// modes are those that a script is played in: in short one, another for each script.
func modes(name string) []pair.Mode {
	if *allModes {
		return pair.Modes
	}
	return []pair.Mode{pair.Modes[crc32.ChecksumIEEE([]byte(name))%uint32(len(pair.Modes))]}
}

// declare runs a statement that only weft knows.
func declare(t testing.TB, p *pair.Pair, st pair.Statement) {
	t.Helper()
	if *undeclared {
		return
	}
	if a := p.Weft.Ask(pair.Simple, st.SQL, nil, nil); a.Code != "" {
		t.Fatalf("%s: %s: %s %s", st.Pos, st.SQL, a.Code, a.Message)
	}
}

// player plays a script in one mode.
type player struct {
	mode     pair.Mode
	database string
	conns    map[string]*pair.Pair
	current  string
	mask     map[string]bool
	counts   *pair.Counts
}

func (p *player) pair(t testing.TB) *pair.Pair {
	c := p.conns[p.current]
	if c == nil {
		c = newPair(t, p.database)
		c.Mask, c.Counts = p.mask, p.counts
		p.conns[p.current] = c
	}
	return c
}

func (p *player) section(t *testing.T, s pair.Section) {
	expect := s.Kind
	switch s.Kind {
	case "setup", "weft", "plain", "data":
		return
	case "conn":
		p.current = s.Arg
	case "mask":
		clear(p.mask)
		for _, c := range strings.Fields(s.Arg) {
			p.mask[c] = true
		}
	case "tables":
		if !*undeclared {
			pair.SameTables(t, p.database, p.mask)
		}
	case "simple":
		if p.mode != pair.Simple {
			return
		}
		if expect = s.Arg; expect == "" {
			expect = "simple"
		}
	}
	for _, st := range s.Statements {
		sets := st.Sets
		if len(sets) == 0 {
			sets = [][]pair.Param{nil}
		}
		for _, set := range sets {
			p.statement(t, expect, st, set)
		}
	}
}

func (p *player) statement(t *testing.T, expect string, st pair.Statement, set []pair.Param) {
	t.Helper()
	wrong, want, got := p.pair(t).Run(p.mode, st.SQL, set)
	asked := pair.Inline(st.SQL, set)
	switch {
	case wrong != "":
		t.Errorf("%s: %s\n  %s", st.Pos, asked, wrong)
	case got.Refused() && expect != "maybe":
		t.Errorf("%s: %s\n  refused: %s", st.Pos, asked, got.Message)
	case got.Refused():
	case expect == "route" && want.Code != "" && want.Message != pair.Replan:
		t.Errorf("%s: %s\n  fails on both: %s %s", st.Pos, asked, want.Code, want.Message)
	case expect == "error" && want.Code == "":
		t.Errorf("%s: %s\n  is meant to fail and does not", st.Pos, asked)
	}
	if got.Code == "?????" {
		t.Fatalf("%s: %s: the connection is lost: %s", st.Pos, asked, got.Message)
	}
}
