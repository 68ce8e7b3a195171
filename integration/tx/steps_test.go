package tx

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/integration/harness"
)

// Sessions that are stepped in turn, on weft and on one PostgreSQL: each file of
// testdata/steps has scripts, and a line of a script is
//
//	A select …    session A runs the statement
//	A& update …   session A begins to run it, and has to wait
//	A.            what A has begun comes to its end
//
// {a}, {b}, {c} are keys of acct on three shards, {a2}, {b2}, … others. A script
// begins with -- and its name, and finds the tables as steps.reset makes them.
// Every answer must be the same on both: rows, tag, SQLSTATE and message.

var (
	stepFiles = flag.String("steps", "testdata/steps/*.sql", "the scripts of TestSteps")
	allSteps  = flag.Bool("all-steps", false, "TestSteps: each script by simple queries and by extended ones, not in turn")
)

const (
	// stillWaiting is how long a statement that waits for a lock is looked at. It is more than
	// the servers' deadlock_timeout: then it is the last one of a deadlock that finds it.
	stillWaiting = 300 * time.Millisecond
	// lockPatience is how long a statement may take to come to its lock. A statement that waits for
	// something else than a lock of a server is looked at for that long.
	lockPatience = 2 * time.Second
)

// step is a line of a script.
type step struct {
	line    int
	session string
	kind    byte // ' ', '&', '.'
	sql     string
}

// stepper runs scripts on one target.
type stepper struct {
	target   *harness.Target
	db       string
	extended bool
	servers  []*pgx.Conn // the target's servers, to see who waits for a lock
	conns    map[string]*pgconn.PgConn
	begun    map[string]chan string
}

// waiters counts the backends that wait for a lock.
func (s *stepper) waiters() (n int, err error) {
	for _, c := range s.servers {
		var here int
		if err := c.QueryRow(context.Background(), "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'").Scan(&here); err != nil {
			return 0, err
		}
		n += here
	}
	return n, nil
}

// begin begins to run a statement that has to wait, and returns when it waits for a lock.
func (s *stepper) begin(c *pgconn.PgConn, st step) string {
	before, err := s.waiters()
	if err != nil {
		return err.Error()
	}
	done := make(chan string, 1)
	s.begun[st.session] = done
	go func() { done <- s.ask(c, st.sql) }()
	for began, look := time.Now(), 10*time.Millisecond; look < stillWaiting; {
		now, err := s.waiters()
		if err != nil {
			return err.Error()
		}
		if now > before || time.Since(began) > lockPatience {
			look = stillWaiting
		}
		select {
		case answer := <-done:
			done <- answer
			return "does not wait: " + answer
		case <-time.After(look):
		}
	}
	return "waits"
}

func (s *stepper) conn(name string) (*pgconn.PgConn, error) {
	if c := s.conns[name]; c != nil {
		return c, nil
	}
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	c, err := pgconn.Connect(ctx, s.target.ConnString("postgres", "dbname="+s.db))
	if err == nil {
		s.conns[name] = c
	}
	return c, err
}

// play runs a script and returns what each step has answered.
func (s *stepper) play(script []step) (answers []string) {
	defer s.close()
	for _, st := range script {
		answers = append(answers, s.run(st))
	}
	return answers
}

// close ends the sessions of a script.
func (s *stepper) close() {
	for _, c := range s.conns {
		_ = c.Close(context.Background())
	}
	for _, done := range s.begun {
		<-done
	}
	clear(s.conns)
	clear(s.begun)
}

// run runs one step and returns what it has answered.
func (s *stepper) run(st step) string {
	c, err := s.conn(st.session)
	if err != nil {
		return err.Error()
	}
	switch st.kind {
	case '.':
		done := s.begun[st.session]
		delete(s.begun, st.session)
		if done == nil {
			return "nothing has begun"
		}
		return <-done
	case '&':
		return s.begin(c, st)
	}
	return s.ask(c, st.sql)
}

// ask runs a text and writes down what came back.
func (s *stepper) ask(c *pgconn.PgConn, sql string) string {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	var results []*pgconn.Result
	var err error
	if strings.HasPrefix(strings.ToLower(sql), "copy ") {
		var b strings.Builder
		tag, err := c.CopyTo(ctx, &b, sql)
		if err != nil {
			return answered(err)
		}
		return b.String() + tag.String()
	}
	if s.extended && !strings.Contains(sql, "; ") {
		r := c.ExecParams(ctx, sql, nil, nil, nil, nil).Read()
		results, err = []*pgconn.Result{r}, r.Err
	} else {
		results, err = c.Exec(ctx, sql).ReadAll()
	}
	var b strings.Builder
	for _, r := range results {
		if r.Err != nil {
			break // rows before an error may have come or not
		}
		var rows []string
		for _, row := range r.Rows {
			var fields []string
			for _, v := range row {
				if v == nil {
					v = []byte("null")
				}
				fields = append(fields, string(v))
			}
			rows = append(rows, strings.Join(fields, "|"))
		}
		if low := strings.ToLower(sql); !strings.HasPrefix(low, "select") || !strings.Contains(low, "order by") {
			slices.Sort(rows)
		}
		for _, row := range rows {
			b.WriteString(row + "\n")
		}
		b.WriteString(r.CommandTag.String() + "\n")
	}
	if err != nil {
		b.WriteString(answered(err))
	}
	return strings.TrimSpace(b.String())
}

// processes are what an error says of process IDs and transactions.
var processes = regexp.MustCompile(`(?i)(process|transaction) [0-9]+`)

func answered(err error) string {
	e := (*pgconn.PgError)(nil)
	if !errors.As(err, &e) {
		return err.Error()
	}
	return e.Code + " " + processes.ReplaceAllString(e.Message, "$1 n")
}

// stepKey is a key of acct in a script.
var stepKey = regexp.MustCompile(`\{([a-c])([0-9]?)\}`)

// scripts reads a file.
func (w *world) scripts(file string) (names []string, scripts [][]step) {
	text, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case strings.HasPrefix(line, "-- "):
			names, scripts = append(names, line[3:]), append(scripts, nil)
			continue
		}
		name, sql, _ := strings.Cut(line, " ")
		st := step{line: i + 1, kind: ' '}
		if st.session = strings.TrimRight(name, "&."); len(st.session) < len(name) {
			st.kind = name[len(name)-1]
		}
		st.sql = stepKey.ReplaceAllStringFunc(strings.TrimSpace(sql), func(m string) string {
			n := 0
			if len(m) == 4 {
				n = int(m[2] - '1')
			}
			return fmt.Sprint(w.keys[m[1]-'a'][n])
		})
		last := len(scripts) - 1
		scripts[last] = append(scripts[last], st)
	}
	return names, scripts
}

// stepTables are what scripts find.
const stepTables = `create table acct (id bigint primary key, balance bigint not null default 1000, note text, at timestamptz default now());
	create table home (id bigint primary key, v int);
	create table ref (id bigint primary key, v int);
	create table par (id bigint primary key);
	create table kid (id bigint, n int, primary key (id, n), foreign key (id) references par deferrable initially immediate)`

// reset puts the rows back.
func (s *stepper) reset(t *testing.T, c *pgx.Conn) {
	must(t, c, "delete from kid")
	must(t, c, "delete from par")
	must(t, c, "delete from acct")
	must(t, c, fmt.Sprintf("insert into acct (id) select i from generate_series(1, %d) i", accounts))
	must(t, c, "delete from home")
	must(t, c, "insert into home select i, i from generate_series(1, 10) i")
	must(t, c, "delete from ref")
	must(t, c, "insert into ref select i, i from generate_series(1, 10) i")
}

// TestSteps: sessions that are stepped in turn see what they would on one
// PostgreSQL.
func TestSteps(t *testing.T) {
	w := newWorld(t, "steps", 1)
	must(t, w.conn(0), `create table par (id bigint primary key)`)
	must(t, w.conn(0), "select weft.shard_table('par', 'id')")
	must(t, w.conn(0), `create table kid (id bigint, n int, primary key (id, n), foreign key (id) references par deferrable initially immediate)`)
	must(t, w.conn(0), "select weft.shard_table('kid', 'id')")
	plain := harness.Postgres(t)
	plain.CreateDatabase(t, w.db)
	p := plain.Connect(t, "postgres", "dbname="+w.db)
	must(t, p, stepTables)
	files, err := filepath.Glob(*stepFiles)
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in %s, %v", *stepFiles, err)
	}
	both := [2]*stepper{}
	conns := [2]*pgx.Conn{w.conn(0), p}
	for i, target := range []*harness.Target{w.proxies[0], plain} {
		servers := []*pgx.Conn{p}
		if i == 0 {
			servers = []*pgx.Conn{w.direct(0), w.direct(1), w.direct(2)}
		}
		both[i] = &stepper{target: target, db: w.db, servers: servers, conns: map[string]*pgconn.PgConn{}, begun: map[string]chan string{}}
	}
	for _, file := range files {
		names, scripts := w.scripts(file)
		for i, script := range scripts {
			for _, extended := range []bool{false, true} {
				if extended != (i%2 == 1) && !*allSteps {
					continue
				}
				name := fmt.Sprintf("%s/%s/extended=%t", strings.TrimSuffix(filepath.Base(file), ".sql"), names[i], extended)
				t.Run(name, func(t *testing.T) {
					for j, s := range both {
						s.extended = extended
						s.reset(t, conns[j])
					}
					compareSteps(t, file, script, both)
				})
			}
		}
	}
	w.quiet()
	w.nothingUsed()
}

// compareSteps runs a script on both and complains of the first step that differs.
func compareSteps(t *testing.T, file string, script []step, both [2]*stepper) {
	t.Helper()
	var answers [2][]string
	var wg sync.WaitGroup
	for i, s := range both {
		wg.Go(func() { answers[i] = s.play(script) })
	}
	wg.Wait()
	for i, st := range script {
		got, want := answers[0][i], answers[1][i]
		if testing.Verbose() {
			t.Logf("%s%c %s\n%s", st.session, st.kind, st.sql, want)
		}
		if got != want || strings.HasPrefix(got, "does not wait") {
			t.Fatalf("%s:%d: %s%c %s\nweft:\n%s\nPostgreSQL:\n%s", file, st.line, st.session, st.kind, st.sql, got, want)
		}
	}
}
