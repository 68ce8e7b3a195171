package schema

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"weft/directory"
	"weft/pgserver"
	"weft/pgserver/pgtest"
	"weft/pool"
)

// Three real servers for the whole package: home and two more.
var (
	names   = []string{"home", "east", "west"}
	servers = map[string]*pgserver.Temp{}
	shared  *pool.Pool
	spares  *pool.Spares
)

func TestMain(m *testing.M) {
	code := 1
	defer func() { os.Exit(code) }()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	for _, n := range names {
		starting, done := context.WithTimeout(ctx, pgtest.Patience)
		s, err := pgserver.StartTemp(starting, pgserver.Config{})
		done()
		if err != nil {
			fmt.Fprintln(os.Stderr, "start PostgreSQL:", err)
			return
		}
		defer func() { _ = s.Close() }()
		servers[n] = s
	}
	var err error
	if shared, err = pool.New(pool.Config{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	spares = pool.NewSpares(shared)
	go func() { _ = shared.Run(ctx) }()
	code = m.Run()
}

// dialer is Shards over the test's servers.
type dialer struct{}

func (dialer) Dial(ctx context.Context, shard, database, user string) (Conn, error) {
	s := servers[shard]
	if s == nil {
		return nil, fmt.Errorf("no shard %q", shard)
	}
	c, err := spares.Dial(ctx, spec(shard), database, user)
	if err != nil {
		return nil, err
	}
	c.Session()
	return c, nil
}

func spec(name string) *directory.Shard {
	return &directory.Shard{Name: name, Hosts: []string{servers[name].Addr()}, Options: map[string]string{"sslmode": "disable"}, Weight: 1}
}

// database makes a database of the test's own on every server.
func database(t *testing.T) string {
	t.Helper()
	name := "t" + regexp.MustCompile(`\W+`).ReplaceAllString(strings.ToLower(t.Name()), "_")
	for _, s := range names {
		on(t, s, "postgres").run(t, servers[s].CreateDatabase(name))
	}
	t.Cleanup(func() {
		spares.Leave(name)
		for _, s := range names {
			place{s, name}.leave()
			on(t, s, "postgres").run(t, "DROP DATABASE "+name+" WITH (FORCE)")
		}
	})
	return name
}

// place is a database on a server, for setting up and looking.
type place struct{ server, database string }

func on(t *testing.T, server, database string) place {
	t.Helper()
	return place{server, database}
}

// looking are the connections that tests set up and look with, one for each
// place: dialling for every question would take most of the time.
var (
	lookingMu sync.Mutex
	looking   = map[place]Conn{}
)

func (p place) exec(t *testing.T, sql string) ([][]string, error) {
	t.Helper()
	lookingMu.Lock()
	defer lookingMu.Unlock()
	c := looking[p]
	if c == nil {
		ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
		defer stop()
		var err error
		l := shared.Shard(spec(p.server)).OpenLane(pool.NewKey(p.database, "postgres", nil))
		defer l.CloseLane()
		if c, err = l.Dedicated(ctx); err != nil {
			t.Fatalf("dial %s: %v", p.server, err)
		}
		looking[p] = c
	}
	return c.Exec(sql)
}

// leave closes the connection to a place, if there is one.
func (p place) leave() {
	lookingMu.Lock()
	defer lookingMu.Unlock()
	if c := looking[p]; c != nil {
		c.Terminate()
		delete(looking, p)
	}
}

func (p place) run(t *testing.T, sql string) {
	t.Helper()
	if _, err := p.exec(t, sql); err != nil {
		t.Fatalf("%s: %.200s: %v", p.server, sql, err)
	}
}

// get returns a query's rows, columns joined by |.
func (p place) get(t *testing.T, sql string) string {
	t.Helper()
	rows, err := p.exec(t, sql)
	if err != nil {
		t.Fatalf("%s: %.200s: %v", p.server, sql, err)
	}
	var lines []string
	for _, r := range rows {
		lines = append(lines, strings.Join(r, "|"))
	}
	return strings.Join(lines, "\n")
}

// dump returns the database's schema as pg_dump writes it.
func (p place) dump(t *testing.T) string {
	t.Helper()
	s := servers[p.server]
	bin, err := pgserver.Find("")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(bin.Bin, "pg_dump"), "--schema-only", "-d", s.ConnString(p.database))
	out, err := cmd.Output()
	if err != nil {
		var e *exec.ExitError
		if errors.As(err, &e) {
			t.Fatalf("pg_dump: %s", e.Stderr)
		}
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^\\(un)?restrict .*$`).ReplaceAllString(string(out), "")
}
