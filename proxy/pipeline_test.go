package proxy_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/pool"
	"weft/wire"
)

var (
	pipelines        = flag.Int("pipelines", 60, "how many random dialogues TestPipelines plays")
	pipelineFailures = flag.Int("pipeline-failures", 1, "after how many failures TestPipelines gives up")
	pipelineFrom     = flag.Uint64("pipeline-from", 1, "the seed of the first; another number plays others")
	pipeline         = flag.Uint64("pipeline", 0, "the seed of the one dialogue to play, as a failure names it")
)

// TestPipelines plays random dialogues of the extended and simple protocol,
// with errors, and demands that weft answers message by message what
// PostgreSQL does. Beside it another client of weft uses the same backends.
func TestPipelines(t *testing.T) {
	p := newPlayer(t)
	seeds := make([]uint64, *pipelines)
	for i := range seeds {
		seeds[i] = *pipelineFrom + uint64(i)
	}
	if *pipeline != 0 {
		seeds = []uint64{*pipeline}
	}
	failed := 0
	for _, seed := range seeds {
		from := texts
		if seed%2 == 1 { // as TestPipelinesTogether has them
			from = sessionTexts
		}
		s := newScript(seed, from)
		diff := p.play(s)
		if diff == "" {
			continue
		}
		s, diff = p.shrink(s, diff)
		t.Errorf("seed %d: -pipeline=%d plays it again\n%s\n%s", seed, seed, s, diff)
		if failed++; failed == *pipelineFailures {
			return // the next ones fail for the same reason more often than not
		}
	}
}

// TestPipelinesTogether plays dialogues that change nothing but their session,
// many at a time over few backends.
func TestPipelinesTogether(t *testing.T) {
	p := newPlayer(t)
	if err := p.reset(); err != nil {
		t.Fatal(err)
	}
	w := startWeft(t, pool.Config{MaxPerShard: 3, MaxPrepared: 4, QueueTimeout: time.Minute})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range max(1, *pipelines/16) {
				s := newScript((*pipelineFrom+uint64(8*j+i))*2+1, sessionTexts)
				want, _, err := p.run(s, postgres.Addr(), p.db[0], nil)
				if err != nil {
					t.Errorf("PostgreSQL itself: %v\n%s", err, s)
					return
				}
				got, _, err := p.run(s, w.addr, p.db[1], nil)
				if err != nil {
					got = append(got, "!! "+err.Error())
				}
				if diff := difference(want, got); diff != "" {
					t.Errorf("seed %d\n%s\n%s", s.seed, s, diff)
					return
				}
			}
		})
	}
	wg.Wait()
}

// script is a dialogue.
type script struct {
	seed  uint64
	pool  pool.Config
	items []item
}

// item is one message of the client, or a moment to wait until everything is
// answered.
type item struct {
	label string
	data  []byte
	ready int    // how many ReadyForQuery it leads to
	wait  bool   // wait for them
	noise string // what the other client does meanwhile
	cut   int    // write so many bytes first, the rest a little later
}

func (s script) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d connections, %d statements each:\n", s.pool.MaxPerShard, s.pool.MaxPrepared)
	for _, it := range s.items {
		switch {
		case it.wait && it.noise != "":
			fmt.Fprintf(&b, "  -- wait; the other client: %s\n", it.noise)
		case it.wait:
			b.WriteString("  -- wait\n")
		default:
			fmt.Fprintf(&b, "  %s\n", it.label)
		}
	}
	return b.String()
}

// texts are what dialogues are made of. $1 may be given or not.
var texts = []string{
	"SELECT $1::int + 1", "SELECT 1 AS x, 'abc'::text AS y", "SELECT $1::text, $2::int4", "SELECT generate_series(1, 5)",
	"SELECT generate_series(1, $1::int)", "INSERT INTO t(v) VALUES ($1) RETURNING id", "UPDATE t SET v = v || 'x' WHERE id <= 3",
	"DELETE FROM t WHERE id = 4", "SELECT count(*), sum(length(v)) FROM t", "SELECT id, v FROM t ORDER BY id",
	"BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT s", "ROLLBACK TO s", "RELEASE s", "BEGIN", "COMMIT",
	"SET work_mem = '5MB'", "SHOW work_mem", "SET LOCAL work_mem = '7MB'", "RESET work_mem", "SET work_mem TO DEFAULT",
	"SELECT set_config('my.v', 'one', false)", "SELECT current_setting('my.v', true)", "SET my.v = 'two'", "SET LOCAL my.v = 'three'",
	"SELECT f_set('four')", "SET timezone = 'Asia/Tokyo'", "SHOW timezone", "RESET ALL", "SET search_path = s2, public", "SELECT * FROM w",
	"", ";", "bad syntax here", "SELECT 1/0", "SELECT nosuch FROM t", "SELECT repeat('x', 20000)", "SELECT repeat('y', 9000) FROM generate_series(1, 30)",
	"LISTEN ch", "UNLISTEN ch", "NOTIFY ch, 'hello'", "SELECT pg_listening_channels()", "SELECT pg_notify('ch', 'there')",
	"DECLARE c CURSOR FOR SELECT generate_series(1, 5)", "FETCH 2 FROM c", "CLOSE c", "DECLARE h CURSOR WITH HOLD FOR SELECT 1", "FETCH 1 FROM h", "CLOSE h",
	"PREPARE a AS SELECT $1::int * 2", "EXECUTE a(4)", "DEALLOCATE a", "PREPARE b AS SELECT 'prepared b'", "EXECUTE b", "DEALLOCATE b", "DEALLOCATE ALL", "DISCARD ALL",
	"CREATE TEMP TABLE tt(x int)", "INSERT INTO tt VALUES (1)", "SELECT * FROM tt", "DROP TABLE tt", "CREATE TABLE u(x int)", "SELECT * FROM u", "DROP TABLE u",
	"ALTER TABLE t2 ADD COLUMN c int", "ALTER TABLE t2 DROP COLUMN c", "SELECT * FROM t2", "COPY t2 TO STDOUT", "COPY (SELECT 1, 2) TO STDOUT",
	"DO $$ BEGIN RAISE NOTICE 'hi'; END $$", "DO $$ BEGIN PERFORM set_config('work_mem', '9MB', false); END $$",
	"SELECT pg_advisory_lock(1)", "SELECT pg_advisory_unlock(1)", "SELECT name FROM pg_prepared_statements ORDER BY 1",
	"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
}

// sessionTexts are those whose effects nobody but the session sees.
var sessionTexts = slices.DeleteFunc(slices.Clone(texts), func(sql string) bool { return public.MatchString(sql) })

var public = regexp.MustCompile("INSERT INTO t|UPDATE|DELETE|TABLE u|FROM u|t2|NOTIFY|pg_notify|advisory")

var namesStatement = regexp.MustCompile("^(PREPARE|EXECUTE|DEALLOCATE) ")

var (
	statementNames = []string{"", "", "", "a", "b", "c"}
	portalNames    = []string{"", "", "", "p", "q"}
)

func newScript(seed uint64, texts []string) script {
	r := rand.New(rand.NewPCG(seed, 7))
	g := generator{r: r, texts: texts}
	for range 3 + r.IntN(10) {
		g.group()
	}
	for i := deadly(g.items); i >= 0; i = deadly(g.items) {
		g.items = slices.Delete(g.items, i, i+1)
	}
	return script{seed: seed, items: g.items, pool: pool.Config{
		MaxPerShard: 2 + r.IntN(3), MaxPrepared: 1 + r.IntN(5), QueueTimeout: 300 * time.Millisecond,
	}}
}

// deadly returns the index of a message that may crash PostgreSQL without weft
// (see TestExecuteOfFailedQuery), or -1: an Execute of the unnamed portal that
// a simple query before it may have left behind, because no Bind stands between
// them. A Bind of an earlier group does not count, as it may have failed.
func deadly(items []item) int {
	queried, bound := false, false
	for i, it := range items {
		if it.wait {
			continue
		}
		unnamed := len(it.data) > wire.HeaderLen && it.data[wire.HeaderLen] == 0
		switch it.data[0] {
		case wire.Query:
			queried, bound = true, false
		case wire.Sync:
			bound = false
		case wire.Bind:
			bound = bound || unnamed
		case wire.Execute:
			if queried && !bound && unnamed {
				return i
			}
		}
	}
	return -1
}

type generator struct {
	r     *rand.Rand
	texts []string
	items []item
}

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

func (g *generator) add(label string, data []byte, ready int) {
	it := item{label: label, data: data, ready: ready}
	if g.r.IntN(8) == 0 {
		it.cut = 1 + g.r.IntN(len(data))
	}
	g.items = append(g.items, it)
}

// group adds messages up to a ReadyForQuery.
func (g *generator) group() {
	switch n := g.r.IntN(20); {
	case n < 4:
		g.simple()
	case n < 5 && len(g.texts) == len(texts):
		g.copyIn()
	case n < 6:
		g.function()
	default:
		for range 1 + g.r.IntN(8) {
			g.extended()
		}
		g.add("Sync", synced(), 1)
	}
	if g.r.IntN(3) > 0 {
		it := item{wait: true}
		if g.r.IntN(2) == 0 {
			it.noise = pick(g.r, noises)
		}
		g.items = append(g.items, it)
	}
}

func (g *generator) simple() {
	var parts []string
	for range 1 + g.r.IntN(3) {
		parts = append(parts, pick(g.r, g.texts))
	}
	sql := strings.Join(parts, "; ")
	g.add("Query "+sql, query(sql), 1)
}

func (g *generator) extended() {
	stmt, portal := pick(g.r, statementNames), pick(g.r, portalNames)
	switch g.r.IntN(17) {
	case 16:
		g.malformed(stmt)
	case 0, 1, 2:
		g.parse(stmt)
	case 3, 4:
		g.bind(portal, stmt)
	case 5:
		g.add(fmt.Sprintf("Describe S %q", stmt), describe('S', stmt), 0)
	case 6:
		g.add(fmt.Sprintf("Describe P %q", portal), describe('P', portal), 0)
	case 7, 8:
		n := pick(g.r, []uint32{0, 0, 1, 2})
		g.add(fmt.Sprintf("Execute %q %d", portal, n), execute(portal, n), 0)
	case 9:
		g.add(fmt.Sprintf("Close S %q", stmt), closing('S', stmt), 0)
	case 10:
		g.add(fmt.Sprintf("Close P %q", portal), closing('P', portal), 0)
	case 11:
		g.add("Flush", flush(), 0)
	default: // what drivers do
		g.parse(stmt)
		g.bind(portal, stmt)
		if g.r.IntN(2) == 0 {
			g.add(fmt.Sprintf("Describe P %q", portal), describe('P', portal), 0)
		}
		g.add(fmt.Sprintf("Execute %q 0", portal), execute(portal, 0), 0)
	}
}

// malformed adds a message that is not what its type says, with a length that
// is right: the server can go on with the next.
func (g *generator) malformed(stmt string) {
	body := slices.Concat([]byte(stmt), []byte{0}, []byte("SELECT 1"), []byte{0, 0, 0})
	b := pick(g.r, [][]byte{
		wire.AppendFrame(nil, wire.Parse, body[:len(body)-1]),
		wire.AppendFrame(nil, wire.Parse, append(body, 0)),
		wire.AppendFrame(nil, wire.Parse, []byte("x")),
		wire.AppendFrame(nil, wire.Parse, nil),
		wire.AppendFrame(nil, wire.Parse, []byte("\xff\x00SELECT 1\x00\x00\x00")),
		wire.AppendFrame(nil, wire.Parse, []byte("a\x00SELECT '\xff'\x00\x00\x00")),
		wire.AppendFrame(nil, wire.Bind, nil),
		wire.AppendFrame(nil, wire.Bind, []byte("p\x00a")),
		wire.AppendFrame(nil, wire.Bind, []byte("p\x00a\x00\x00\x07")),
		wire.AppendFrame(nil, wire.Bind, []byte("\x00\x00\x00\x00\x00\x01\x00\x00\x00\x09x\x00\x00")),
		wire.AppendFrame(nil, wire.Bind, []byte("\x00\x00\x00\x00\x00\x01\xff\xff\xff\xfe\x00\x00")),
		wire.AppendFrame(nil, wire.Bind, []byte("\x00\x00\x00\x00\x00\x00\x00\x01\x00\x07")),
		wire.AppendFrame(nil, wire.Describe, nil),
		wire.AppendFrame(nil, wire.Describe, []byte("X\x00")),
		wire.AppendFrame(nil, wire.Describe, []byte("S")),
		wire.AppendFrame(nil, wire.Describe, []byte("Sa\x00b")),
		wire.AppendFrame(nil, wire.Execute, nil),
		wire.AppendFrame(nil, wire.Execute, []byte("\x00\x00")),
		wire.AppendFrame(nil, wire.Execute, []byte("\x00\x00\x00\x00\x00\x00")),
		wire.AppendFrame(nil, wire.Close, nil),
		wire.AppendFrame(nil, wire.Close, []byte("X\x00")),
		wire.AppendFrame(nil, wire.Close, []byte("Sa")),
		wire.AppendFrame(nil, wire.Flush, []byte("x")),
		copyData("stray"), copyDone(), copyFail("stray"),
		wire.AppendFrame(nil, wire.Execute, []byte("\x00\xff\xff\xff\xff")),
	})
	g.add(fmt.Sprintf("malformed %q", b), b, 0)
}

func (g *generator) parse(stmt string) {
	sql := pick(g.r, g.texts)
	if namesStatement.MatchString(sql) {
		stmt = "" // or it could execute or deallocate itself
	}
	if g.r.IntN(25) == 0 {
		sql += " /* " + strings.Repeat("long ", 4000) + "*/"
	}
	g.add(fmt.Sprintf("Parse %q %.60s", stmt, sql), parse(stmt, sql), 0)
}

func (g *generator) bind(portal, stmt string) {
	var args []string
	for range pick(g.r, []int{0, 0, 1, 1, 1, 2}) {
		args = append(args, pick(g.r, []string{"1", "3", "abc", "7", "\x00", "é\xff"}))
	}
	if len(args) > 0 && g.r.IntN(20) == 0 {
		args[0] = strings.Repeat("large", 20000)
	}
	label := fmt.Sprintf("Bind %q %q %.40q", portal, stmt, args)
	g.add(label, bind(portal, stmt, args...), 0)
}

func (g *generator) copyIn() {
	ready := 0
	if g.r.IntN(2) == 0 {
		g.add("Query COPY t2 FROM STDIN", query("COPY t2(a, b) FROM STDIN"), 1)
	} else {
		ready = 1
		name := fmt.Sprintf("copy%d", len(g.items))
		g.add("Parse COPY t2 FROM STDIN", parse(name, "COPY t2(a, b) FROM STDIN"), 0)
		g.add("Bind "+name, bind(name, name), 0)
		g.add("Execute "+name, execute(name, 0), 0)
		if g.r.IntN(2) == 0 {
			g.add("Flush", flush(), 0)
		}
	}
	for range g.r.IntN(4) {
		line := pick(g.r, []string{"1\tone\n", "2\ttwo\n", "3\t" + strings.Repeat("x", 30000) + "\n", "bad\tline\n"})
		g.add(fmt.Sprintf("CopyData %.20q", line), copyData(line), 0)
	}
	if g.r.IntN(4) == 0 {
		g.add("CopyFail", copyFail("no more"), 0)
	} else {
		g.add("CopyDone", copyDone(), 0)
	}
	if ready > 0 {
		g.add("Sync", synced(), 1)
	}
}

// function calls length(text), by its OID.
func (g *generator) function() {
	b, at := wire.Begin(nil, wire.FunctionCall)
	b = append(b, 0, 0, 0x05, 0x25, 0, 0, 0, 1, 0, 0, 0, 3, 'a', 'b', 'c', 0, byte(g.r.IntN(2)))
	g.add("FunctionCall length", wire.End(b, at), 1)
}

// noises are what the other client does. Each starts and ends outside a
// transaction, but for hold and free.
var noises = []string{"look", "unnamed", "named", "set", "custom", "prepare", "stray", "hold", "hold", "listen", "temp"}

// player plays scripts against PostgreSQL and weft.
type player struct {
	t        *testing.T
	db       [2]string // what PostgreSQL and weft play in
	admin    [2]*pgx.Conn
	patience time.Duration
	// shrinking scripts may wait for what PostgreSQL does not say either.
	shrinking bool
}

func newPlayer(t *testing.T) *player {
	p := &player{t: t, patience: patience}
	for i := range p.db {
		p.db[i] = database(t, `CREATE TABLE t(id serial PRIMARY KEY, v text); CREATE SCHEMA s2; CREATE TABLE public.w AS SELECT 'public' AS w; CREATE TABLE s2.w AS SELECT 2 AS w;
			CREATE FUNCTION f_set(v text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('my.v', v, false); RETURN v; END $$`)
	}
	p.connect()
	t.Cleanup(func() {
		for _, c := range p.admin {
			c.Close(context.Background())
		}
	})
	return p
}

// connect opens the connections of reset, if need be after a recovery.
func (p *player) connect() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	for i := range p.db {
		for p.admin[i] == nil || p.admin[i].IsClosed() {
			c, err := pgx.Connect(ctx, postgres.ConnString(p.db[i]))
			if err == nil {
				p.admin[i] = c
			} else if ctx.Err() != nil {
				p.t.Fatal(err)
			}
		}
	}
}

// crashed reports whether the server has died of a script. It takes a moment to
// tell everybody.
func (p *player) crashed(s script, transcript []string) bool {
	missing := 1
	for _, it := range s.items {
		missing += it.ready
	}
	for _, l := range transcript {
		if strings.HasPrefix(l, "Z ") {
			missing--
		}
	}
	for range 50 {
		if _, err := p.admin[0].Exec(context.Background(), "SELECT 1"); err != nil {
			p.admin[1].Close(context.Background())
			return true
		}
		if missing <= 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

func (p *player) reset() error {
	for _, c := range p.admin {
		_, err := c.PgConn().Exec(context.Background(), `SET client_min_messages = error;
			TRUNCATE t RESTART IDENTITY; INSERT INTO t(v) SELECT 'row ' || i FROM generate_series(1, 5) i;
			DROP TABLE IF EXISTS t2, u; CREATE TABLE t2(a int, b text); INSERT INTO t2 VALUES (1, 'uno')`).ReadAll()
		if err != nil {
			return err
		}
	}
	return nil
}

// play returns how weft's answers differ, or "".
func (p *player) play(s script) string {
	if err := p.reset(); err != nil {
		p.connect()
		if err := p.reset(); err != nil {
			p.t.Fatalf("reset: %v", err)
		}
	}
	want, waits, err := p.run(s, postgres.Addr(), p.db[0], nil)
	if err != nil {
		if p.shrinking {
			return ""
		}
		p.t.Fatalf("PostgreSQL itself: %v\n%s\n%s", err, s, strings.Join(want, "\n"))
	}
	if p.crashed(s, want) {
		if !p.shrinking {
			p.t.Errorf("seed %d crashes PostgreSQL itself\n%s", s.seed, s)
		}
		p.connect()
		return ""
	}
	w, err := newWeft(postgres.Addr(), s.pool)
	if err != nil {
		return err.Error()
	}
	defer w.close(p.t)
	n := &noise{addr: w.addr, db: p.db[1], statuses: waits}
	defer n.close()
	got, _, err := p.run(s, w.addr, p.db[1], n)
	if err != nil {
		got = append(got, "!! "+err.Error())
	}
	if n.err != nil {
		return "the other client: " + n.err.Error()
	}
	return difference(want, got)
}

// run plays a script on one server and returns the transcript, and the
// transaction status at each wait.
func (p *player) run(s script, addr, db string, n *noise) (out []string, statuses []byte, err error) {
	c, err := tryDial(addr, db)
	if err != nil {
		return nil, nil, err
	}
	defer c.nc.Close()
	type event struct {
		m   message
		err error
	}
	events := make(chan event, 16)
	go func() {
		defer close(events)
		for {
			m, err := c.read()
			events <- event{m, err}
			if err != nil {
				return
			}
		}
	}()
	defer func() {
		c.nc.Close()
		for range events {
		}
	}()
	ready, ended := 0, false
	var status byte = 'I'
	collect := func(until int) error {
		timeout := time.After(p.patience)
		for !ended && ready < until {
			select {
			case e := <-events:
				if e.err != nil {
					ended = true
					var t interface{ Timeout() bool }
					if errors.As(e.err, &t) && t.Timeout() || errors.Is(e.err, io.ErrUnexpectedEOF) {
						return e.err
					}
					out = append(out, "EOF")
					return nil
				}
				out = append(out, e.m.String())
				if e.m.typ == wire.ReadyForQuery {
					ready++
					status = e.m.body[0]
				}
			case <-timeout:
				return fmt.Errorf("no answer within %v, %d of %d ReadyForQuery", p.patience, ready, until)
			}
		}
		return nil
	}
	expected := 0
	var batch []byte
	write := func(b []byte) error {
		// A server that has closed is no error: the transcript says so.
		for done := make(chan bool, 1); ; {
			go func() { c.nc.Write(b); done <- true }()
			for {
				select {
				case <-done:
					return nil
				case e, ok := <-events: // it may have to be read to read on
					if !ok {
						<-done
						return nil
					}
					if e.err != nil {
						if !ended {
							out = append(out, "EOF")
						}
						ended = true
						c.nc.Close()
						<-done
						return nil
					}
					out = append(out, e.m.String())
					if e.m.typ == wire.ReadyForQuery {
						ready++
						status = e.m.body[0]
					}
				case <-time.After(p.patience):
					return fmt.Errorf("not read within %v", p.patience)
				}
			}
		}
	}
	for _, it := range s.items {
		expected += it.ready
		if !it.wait {
			batch = append(batch, it.data...)
			if it.cut > 0 {
				if err := write(batch[:len(batch)-len(it.data)+it.cut]); err != nil {
					return out, statuses, err
				}
				time.Sleep(time.Duration(it.cut%3) * time.Millisecond)
				batch = slices.Clone(it.data[it.cut:])
			}
			continue
		}
		if err := write(batch); err != nil {
			return out, statuses, err
		}
		batch = nil
		if err := collect(expected); err != nil {
			return out, statuses, err
		}
		statuses = append(statuses, status)
		n.act(it.noise, status)
	}
	if err := write(append(append(batch, synced()...), terminate()...)); err != nil {
		return out, statuses, err
	}
	return out, statuses, collect(1 << 30)
}

func difference(want, got []string) string {
	i := 0
	for i < len(want) && i < len(got) && want[i] == got[i] {
		i++
	}
	if i == len(want) && i == len(got) || tolerated(want[:i], got[i:]) {
		return ""
	}
	from := max(0, i-6)
	var b strings.Builder
	for _, l := range want[from:i] {
		fmt.Fprintf(&b, "    %.300s\n", l)
	}
	for _, l := range want[i:min(len(want), i+6)] {
		fmt.Fprintf(&b, "  - %.300s\n", l)
	}
	for _, l := range got[i:min(len(got), i+6)] {
		fmt.Fprintf(&b, "  + %.300s\n", l)
	}
	return b.String()
}

// tolerated is the one difference there is: in a failed transaction a statement
// that the backend does not know cannot be made there, so that a Bind or a
// Describe fails because the transaction has failed, where PostgreSQL would say
// what else is wrong, or describe what needs no transaction.
func tolerated(before, got []string) bool {
	for i := len(before) - 1; i >= 0 && len(got) > 0; i-- {
		if strings.HasPrefix(before[i], "Z ") {
			return before[i] == `Z "E"` && strings.Contains(got[0], "C=25P02")
		}
	}
	return false
}

// shrink takes items away as long as the script still fails.
func (p *player) shrink(s script, diff string) (script, string) {
	p.patience, p.shrinking = 3*time.Second, true
	defer func() { p.patience, p.shrinking = patience, false }()
	deadline := time.Now().Add(2 * time.Minute)
	for size := len(s.items) / 2; size > 0; {
		shrunk := false
		for at := 0; at+size <= len(s.items) && time.Now().Before(deadline); {
			t := s
			t.items = slices.Delete(slices.Clone(s.items), at, at+size)
			if !playable(t) {
				at += size
			} else if d := p.play(t); d != "" {
				s, diff, shrunk = t, d, true
			} else {
				at += size
			}
		}
		if !shrunk || size > len(s.items)/2 {
			size /= 2
		}
	}
	return s, diff
}

// playable reports whether a script still ends its COPYs and lets the server
// live.
func playable(s script) bool {
	open := false
	for _, it := range s.items {
		switch {
		case strings.Contains(it.label, "COPY t2 FROM STDIN"):
			open = true
		case it.label == "CopyDone" || it.label == "CopyFail":
			open = false
		case open && (it.wait || it.label == "Sync" || strings.HasPrefix(it.label, "Query")):
			return false
		}
	}
	return !open && deadly(s.items) < 0
}

// noise is the other client.
type noise struct {
	addr, db string
	statuses []byte
	c        *client
	holds    bool
	err      error
}

// act does something while the first client waits with this status.
func (n *noise) act(what string, status byte) {
	if n == nil || what == "" && !n.holds || n.err != nil {
		return
	}
	if n.c == nil {
		if n.c, n.err = tryDial(n.addr, n.db); n.err != nil {
			return
		}
	}
	if n.holds {
		n.holds = false
		n.expect("COMMIT", "")
		return
	}
	switch what {
	case "look":
		n.expect("SELECT current_setting('my.v', true)", "∅")
		n.expect("SHOW work_mem", "4MB")
		n.expect("SELECT name FROM pg_prepared_statements", "")
		n.expect("SELECT pg_my_temp_schema()::regnamespace::text, count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema() GROUP BY 1", "")
		n.expect("SELECT pg_listening_channels()", "")
	case "unnamed":
		n.run("SELECT 'noise'", parse("", "SELECT 'noise'"), bind("", ""), execute("", 0))
	case "named":
		n.run("SELECT 'noise a'", parse("a", "SELECT 'noise a'"), bind("", "a"), execute("", 0), closing('S', "a"))
	case "set":
		n.expect("SET work_mem = '99MB'", "")
		n.expect("SHOW work_mem", "99MB")
		n.expect("RESET work_mem", "")
	case "custom":
		n.expect("SET my.n = 'noise'", "")
		n.expect("SELECT current_setting('my.n')", "noise")
	case "prepare":
		n.expect("PREPARE a AS SELECT 'noise'", "")
		n.expect("EXECUTE a", "noise")
		n.expect("DEALLOCATE a", "")
	case "stray":
		n.expect("SELECT 1", "1") // drops its unnamed statement
		n.run("error 26000", bind("", "nosuch"), parse("", "SELECT 'stray noise'"))
		n.run("error 26000", bind("", ""), execute("", 0))
	case "hold":
		n.expect("BEGIN", "")
		n.holds = n.err == nil && n.c.status == 'T'
	case "listen":
		n.expect("LISTEN other", "")
		n.expect("SELECT pg_listening_channels()", "other")
		n.expect("UNLISTEN *", "")
	case "temp":
		n.expect("CREATE TEMP TABLE tt(noise text); INSERT INTO tt VALUES ('noise')", "")
		n.expect("SELECT * FROM tt", "noise")
		n.expect("DISCARD ALL", "")
	}
}

// expect runs a simple query. That there is no free backend is no error: the
// first client may need all there are.
func (n *noise) expect(sql, want string) {
	if n.err == nil {
		n.roundTrip(query(sql), sql, want)
	}
}

func (n *noise) run(label string, frames ...[]byte) {
	if n.err == nil {
		n.roundTrip(append(slices.Concat(frames...), synced()...), label, strings.TrimSuffix(strings.TrimPrefix(label, "SELECT '"), "'"))
	}
}

func (n *noise) roundTrip(b []byte, label, want string) {
	if _, n.err = n.c.nc.Write(b); n.err != nil {
		return
	}
	var ms []message
	for {
		m, err := n.c.read()
		if err != nil {
			n.err = fmt.Errorf("%s: %w", label, err)
			return
		}
		ms = append(ms, m)
		if m.typ == wire.ReadyForQuery {
			break
		}
	}
	got := values(ms)
	if strings.HasPrefix(got, "error 53300") || strings.HasPrefix(got, want) && want != "" {
		return
	}
	if got != want {
		n.err = fmt.Errorf("%s: %q, not %q", label, got, want)
	}
}

func (n *noise) close() {
	if n.c != nil {
		n.c.nc.Close()
	}
}
