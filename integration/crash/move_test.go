package crash

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/config"
	"weft/directory"
	"weft/integration/harness"
	"weft/pgserver/pgtest"
	"weft/reshard/carrier"
)

var (
	moveTime = flag.Duration("moves", 0, "how long TestMoveDeaths, TestDeclareDeaths and TestShardDeaths go on: all cells in order, then random ones; 0: a sample")
	moveCell = flag.String("cell", "", "the only cell of one of these tests, such as 'drain move-prepared/P+A'")
	moveLong = flag.Duration("lasting", 0, "how long victims are away; 0: for various times")
	moveSkip = flag.Int("skip", 0, "how many cells are left out")
)

// movePoints are the points of a round of a move, in their order.
var movePoints = []string{
	"move-fenced", "move-opened", "move-writes-told", "move-writes-clear", "move-rows-carried", "move-prepared",
	"move-all-told", "move-all-clear", "move-committed", "move-followed", "move-published", "move-finishing",
}

// recoveryPoints are the points of what another proxy does when the one that carries rows has died.
var recoveryPoints = []string{"move-arbitrated", "move-lifted", "move-adopted"}

// moveVictims are who can die, be cut off or stand still when a move stands at a point: P carries the rows, Q
// is another proxy, A gives and B takes.
var moveVictims = []string{"P", "Q", "A", "B", "home", "etcd", "P+A", "P+B", "P+etcd", "cable P", "cable Q", "stop P", "stop Q", "nobody"}

// recoveryVictims are who can die when Q stands at a point of its recovery: P is dead already.
var recoveryVictims = []string{"Q", "A", "B", "home", "etcd", "cable Q", "stop Q", "nobody"}

// moveSample are the cells of the short form: each victim, and each point.
var moveSample = []string{
	"move-prepared/P", "move-writes-told/Q", "move-rows-carried/A", "move-all-clear/B", "move-opened/home", "move-all-told/etcd",
	"move-committed/P+A", "move-all-clear/cable P", "move-all-told/cable Q", "move-writes-clear/stop P", "move-followed/nobody", "move-published/nobody",
	"isolate move-prepared/P", "isolate move-all-clear/nobody", "drain move-committed/P", "drain move-rows-carried/nobody",
}

// TestMoveDeaths stops a job that moves rows at each of its points and kills something there, while clients read and
// write through two proxies. Every answer is exact, what was acknowledged is there, once and where it belongs; nobody
// waits for longer than a round may last, unless what he needs is dead; and nothing is left behind.
func TestMoveDeaths(t *testing.T) {
	m := newMoving(t, "c_moves")
	var cells []string
	for _, p := range movePoints {
		for _, v := range moveVictims {
			cells = append(cells, p+"/"+v)
		}
	}
	for _, p := range recoveryPoints {
		for _, v := range recoveryVictims {
			cells = append(cells, p+"/"+v)
		}
	}
	for _, kind := range []string{"isolate", "drain"} {
		cells = append(cells, diagonal(kind, movePoints, moveVictims)...)
		cells = append(cells, diagonal(kind, recoveryPoints, recoveryVictims)...)
	}
	m.all(moveSample, cells)
}

// diagonal lists the cells of a kind of job so that the first of them have all points and all victims.
func diagonal(kind string, points, victims []string) (cells []string) {
	for shift := range victims {
		for i, p := range points {
			cells = append(cells, kind+" "+p+"/"+victims[(i+shift)%len(victims)])
		}
	}
	return cells
}

// all goes through the cells that the flags ask for: one, a sample, or all in order and then random ones until the time
// is over.
func (m *moving) all(sample, cells []string) {
	d := *moveTime
	end := time.Now().Add(d)
	switch {
	case *moveCell != "":
		cells = []string{*moveCell}
	case d == 0 && *rounds == 1:
		cells = sample
	}
	for i := 0; time.Now().Before(end) || (d == 0 || *moveCell != "") && i < len(cells); i++ {
		if i < *moveSkip {
			continue
		}
		c := ""
		if i < len(cells) {
			c = cells[i]
		} else {
			c = cells[m.r.IntN(len(cells))]
		}
		if m.cell(c); m.bad > 20 {
			m.t.Fatalf("stopped after cell %d of this order", i)
		}
	}
	m.end()
}

// moving is a world in which rows move, with load.
type moving struct {
	*world
	etcd *harness.Etcd
	r    *rand.Rand
	load *moveLoad
	n    int // cells
	bad  int // complaints
	// seen are the events of all cells, by kind.
	seen      map[string]int
	reference bool // there is a reference table, which is written to
	// after looks at what a cell has left, if not nil.
	after func(*death)
	// slowest is the longest wait of a statement that counts, of all cells.
	slowest time.Duration
}

const (
	moveKeys  = 96
	moveFunds = 100 // of each account
)

func newMoving(t *testing.T, db string) *moving {
	t.Helper()
	e := harness.StartEtcdProcess(t)
	m := &moving{world: newWorldAt(t, e.Endpoint, db, nil, quietly), etcd: e, r: newRand(15), seen: map[string]int{}}
	m.proxy(quietly)
	c := m.conn(0)
	must(t, c, `create table pair (id bigint, side int, v int not null, primary key (id, side));
		create table bank (id bigint primary key, v int not null); create table line (id bigint, n bigint, primary key (id, n))`)
	must(t, c, fmt.Sprintf("insert into pair select i, s, %d from generate_series(1, %d) i, generate_series(0, 1) s", moveFunds, moveKeys))
	must(t, c, fmt.Sprintf("insert into bank select i, %d from generate_series(1, %d) i", moveFunds, moveKeys))
	for _, table := range []string{"pair", "bank", "line"} {
		declare(t, c, "select weft.shard_table('"+table+"', 'id')")
	}
	m.load = startMoveLoad(m.world)
	t.Cleanup(m.load.end)
	return m
}

func quietly(c *config.Config) { c.Log.Level = "info" }

// end stops the load, and looks whether decisions go, too.
func (m *moving) end() {
	m.t.Helper()
	m.load.end()
	within(m.t, 20*time.Second, "no decision is left", func() bool { return m.decisions() == 0 })
	m.t.Logf("%d cells, %s; the longest wait that counts: %s", m.n, counted(m.seen), m.slowest.Round(time.Millisecond))
}

// counted writes counts in order of their names.
func counted(counts map[string]int) string {
	var list []string
	for what, n := range counts {
		list = append(list, fmt.Sprintf("%s %d", what, n))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// death is what one cell does.
type death struct {
	kind          string // of the job; "": it moves buckets
	point, victim string
	job           string
	a, b          int   // shards that give and take
	buckets       []int // that move
	dead          []int // shards that die
	lasting       time.Duration
	began         time.Time
	pause         time.Duration // how long a statement may be held at most, without what a death adds
	online        bool          // tables are declared, or their declarations taken back
	ends          bool          // the job goes to its end, and is not cancelled
	asked         <-chan error  // tells what became of a call that waits for the job
}

func (d *death) has(who string) bool { return slices.Contains(strings.Split(d.victim, "+"), who) }

// newDeath reads the name of a cell: a kind of job, a point and a victim. On a machine that does much else a round may
// take longer than the default of max_pause, each time.
func newDeath(name string) *death {
	d := &death{began: time.Now(), pause: min(pgtest.Stretch(carrier.DefaultMaxPause), 5*time.Second)}
	d.point, d.victim, _ = strings.Cut(name, "/")
	if kind, point, given := strings.Cut(d.point, " "); given {
		d.kind, d.point = kind, point
	}
	return d
}

// maxPause is the value of the option max_pause.
func (d *death) maxPause() string { return fmt.Sprintf("%dms", d.pause.Milliseconds()) }

// cell is one job in which the victim of a cell dies at its point.
func (m *moving) cell(name string) {
	t := m.t
	t.Helper()
	m.n++
	before := m.bad
	d := newDeath(name)
	d.lasting = time.Duration(500+m.r.IntN(500)) * time.Millisecond
	victim := d.victim
	switch cut := strings.HasPrefix(victim, "cable") || strings.HasPrefix(victim, "stop") || d.has("etcd"); {
	case *moveLong > 0:
		d.lasting = *moveLong
	case *moveTime > 0 && m.n%5 == 0:
		d.lasting = 12 * time.Second // longer than a lease
	case cut:
		d.lasting = 3 * time.Second // longer than any hold
	case *moveTime > 0:
		d.lasting *= time.Duration(1 + m.r.IntN(4))
	case victim == "nobody":
		d.lasting = 0
	}
	if recovers := slices.Contains(recoveryPoints, d.point); recovers {
		m.recoveryCell(d)
	} else {
		m.roundCell(d)
	}
	m.settle(d)
	m.restore(d)
	if m.after != nil {
		m.after(d)
	}
	m.seen[victim]++
	if m.bad > before {
		t.Logf("cell %d, %s, repeat it with: go test ./integration/crash -run %s -v -args -cell '%s' -lasting %s -seed %d", m.n, name, t.Name(), name, d.lasting, *seed)
	}
	t.Logf("cell %d, %s for %s: %s, %s", m.n, name, d.lasting, time.Since(d.began).Round(time.Millisecond), m.load.report())
}

// complain fails the test, which goes on with other cells.
func (m *moving) complain(format string, args ...any) {
	m.t.Helper()
	m.bad++
	m.t.Errorf(format, args...)
}

// begin asks P for a job of the kind of the cell.
func (m *moving) begin(d *death) {
	m.t.Helper()
	d.buckets = nil
	switch d.kind {
	case "":
		m.move(d)
	case "isolate":
		m.isolate(d)
	case "drain":
		m.drain(d)
	case "declare", "undeclare":
		m.declare(d)
	case "join":
		m.join(d)
	case "retire":
		m.retire(d)
	case "remove":
		m.remove(d)
	default:
		m.t.Fatalf("there are no jobs of kind %q", d.kind)
	}
}

// move asks P for a job that carries some buckets from one shard to another.
func (m *moving) move(d *death) {
	t := m.t
	t.Helper()
	snap := m.snapshot()
	place := snap.PlacementOf(m.db, "")
	for len(d.buckets) == 0 {
		d.a = m.r.IntN(4)
		d.b = (d.a + 1 + m.r.IntN(3)) % 4
		if d.victim == "home" && (d.a == 0 || d.b == 0) {
			continue
		}
		for b, at := range place {
			if int(at) == d.a && len(d.buckets) < 6 && m.r.IntN(2) == 0 {
				d.buckets = append(d.buckets, b)
			}
		}
	}
	m.load.concerns(place, d.buckets, func(int) []int { return []int{d.a, d.b} })
	list := strings.Trim(strings.ReplaceAll(fmt.Sprint(d.buckets), " ", ","), "[]")
	m.with(0, func(c *pgx.Conn) {
		d.job = value[string](t, c, "select weft.move_buckets($1, $2, max_pause => $3)", list, snap.Shards[d.b].Name, d.maxPause())
	})
}

// beginAndStop asks P for a job, and returns when P stands at a point of it. A P that was away for longer
// than its lease may be taken for dead by Q until P has a new one: Q adopts the job and ends it. Then there is
// another job.
func (m *moving) beginAndStop(d *death, point string) {
	m.t.Helper()
	p := m.weft[0]
	m.begin(d)
	within(m.t, patience, fmt.Sprintf("%s: P comes there", point), func() bool {
		if p.Stopped() {
			return true
		}
		if d.asked == nil && m.snapshot().FindMove(d.job) == nil && !p.Stopped() {
			m.t.Logf("job %s was adopted by another proxy", d.job)
			m.begin(d)
		}
		return false
	})
}

// with lends a connection to a proxy.
func (m *moving) with(i int, f func(*pgx.Conn)) {
	m.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	c, err := pgx.Connect(ctx, m.weft[i].ConnString("postgres", "dbname="+m.db))
	if err != nil {
		m.t.Fatal(err)
	}
	defer c.Close(ctx)
	f(c)
}

// roundCell lets the victim die while P stands at a point of its round.
func (m *moving) roundCell(d *death) {
	m.t.Helper()
	p := m.weft[0]
	p.StopAt(m.t, d.point, false)
	m.beginAndStop(d, d.point)
	m.kill(d)
	p.GoOn()
	time.Sleep(d.lasting)
	m.revive(d)
}

// recoveryCell kills P in a round, and then the victim while Q stands at a point of its recovery.
func (m *moving) recoveryCell(d *death) {
	m.t.Helper()
	p, q := m.weft[0], m.weft[1]
	at := []string{"move-writes-clear", "move-prepared", "move-all-clear", "move-committed", "move-followed"}[m.r.IntN(5)]
	p.StopAt(m.t, at, false)
	q.StopAt(m.t, d.point, false)
	m.beginAndStop(d, at)
	m.load.lose(0)
	p.Signal(m.t, syscall.SIGKILL)
	p.WaitExit(m.t, patience)
	within(m.t, patience, fmt.Sprintf("%s: Q comes there after the death of P at %s", d.point, at), q.Stopped)
	m.kill(d)
	q.GoOn()
	time.Sleep(d.lasting)
	d.victim += "+P"
	m.revive(d)
}

// kill does to the victim what the cell says.
func (m *moving) kill(d *death) {
	t := m.t
	t.Helper()
	for _, who := range strings.Split(d.victim, "+") {
		switch who {
		case "P", "Q":
			i := strings.Index("PQ", who)
			m.load.lose(i)
			m.weft[i].Signal(t, syscall.SIGKILL)
			m.weft[i].WaitExit(t, patience)
		case "A", "B", "home":
			d.dead = append(d.dead, map[string]int{"A": d.a, "B": d.b, "home": 0}[who])
		case "etcd":
			m.etcd.Kill()
		case "cable P", "cable Q":
			if c := m.wire[strings.Index("PQ", who[6:])]; m.n%2 == 0 {
				c.freeze()
			} else {
				c.sever()
			}
		case "stop P", "stop Q":
			i := strings.Index("PQ", who[5:])
			m.load.lose(i)
			m.weft[i].Signal(t, syscall.SIGSTOP)
		}
	}
	for _, s := range d.dead {
		m.load.down(s)
		m.server(s).Kill()
	}
}

// revive undoes kill.
func (m *moving) revive(d *death) {
	t := m.t
	t.Helper()
	if d.has("etcd") {
		if err := m.etcd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range d.dead {
		if err := m.server(s).Restart(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	for i, who := range []string{"P", "Q"} {
		if d.has(who) {
			m.replace(i, quietly)
			m.load.use(i, m.weft[i])
		}
		if d.has("cable " + who) {
			m.wire[i].reconnect()
		}
		if d.has("stop " + who) {
			m.weft[i].Signal(t, syscall.SIGCONT)
			m.load.use(i, m.weft[i])
		}
	}
}

// settle waits until the job is over, and complains of what is left, missing or twice.
func (m *moving) settle(d *death) {
	t := m.t
	t.Helper()
	what := strings.TrimSpace(fmt.Sprintf("%s %s/%s, shards %d to %d", d.kind, d.point, d.victim, d.a, d.b))
	within(t, 3*time.Second, what+": the directory lists both proxies", m.listed)
	adopt := 15 * time.Second // a lease, and the job
	within(t, adopt, what+": the round is over", func() bool {
		return !slices.ContainsFunc(m.snapshot().Moves, func(j directory.Move) bool {
			return j.Round != nil && d.has("P")
		})
	})
	if !d.ends && (*moveTime == 0 && !d.has("nobody") && !d.has("B") || *moveTime > 0 && m.n%4 == 0) {
		m.with(1, func(c *pgx.Conn) {
			over := []string{"42704", "55000", "55006"} // the job is over, or its tables are just being made
			if got, err := exec(c, patience, "select weft.cancel_move($1)", d.job); err != nil && !slices.Contains(over, got) {
				m.complain("%s: the job cannot be cancelled: %v", what, err)
			}
		})
	}
	asked, told := time.Now(), false
	within(t, 2*adopt, what+": the job is over", func() bool {
		moves := m.snapshot().Moves
		if !told && time.Since(asked) > 4*adopt {
			told = true
			t.Logf("%s: the job is not over: %+v", what, moves)
		}
		return len(moves) == 0
	})
	if d.asked != nil {
		select {
		case err := <-d.asked:
			if err != nil && d.has("nobody") {
				m.complain("%s: P was told %v", what, err)
			}
		case <-time.After(patience):
			t.Fatalf("%s: P does not answer", what)
		}
	}
	if d.online {
		within(t, 2*adopt, what+": the tables are declared or not", m.ungrouped)
	}
	time.Sleep(200 * time.Millisecond) // the load goes on for a moment
	m.quiesce(func() {
		within(t, 10*time.Second, what+": nothing is prepared", func() bool { return m.prepared() == 0 })
		within(t, 10*time.Second, what+": no backend carries rows", func() bool {
			n := 0
			for shard := range m.snapshot().Shards {
				n += value[int](t, m.eye(shard), "select count(*)::int from pg_stat_activity where application_name like 'weft move%'")
			}
			return n == 0
		})
		m.exact(what)
	})
	for _, err := range m.load.takeWrong() {
		m.complain("%s: %v", what, err)
	}
	limit := d.pause + 2*time.Second
	for _, s := range m.load.take() {
		m.seen[s.told]++
		if s.counts {
			m.slowest = max(m.slowest, s.took)
			if pgtest.Late(t, s.took, limit) {
				m.complain("%s: %s was held for %s, and answered with %q", what, s.what, s.took.Round(time.Millisecond), s.told)
			}
		}
		if !m.mayFail(d, s) {
			m.complain("%s: %s was told %v", what, s.what, s.err)
		}
	}
}

// listed reports whether the directory lists both proxies. One that is not listed, because it stood still or was
// cut off for longer than its lease, is kept out by the shards as soon as rows move.
func (m *moving) listed() bool {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	list, err := m.store.Proxies(ctx)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, p := range m.weft[:2] {
		if !slices.ContainsFunc(list, func(l directory.Proxy) bool { return l.Address == p.Addr }) {
			return false
		}
	}
	return true
}

// exact compares all shards with what the clients were told. Nobody writes meanwhile.
func (m *moving) exact(what string) {
	t := m.t
	t.Helper()
	var pairs, funds, bank, accounts int
	lines := map[int64]int{}
	for shard := range m.snapshot().Shards {
		c := m.eye(shard)
		if shard > 0 && value[bool](t, c, "select to_regclass('pair') is null and to_regclass('bank') is null and to_regclass('line') is null") {
			continue // they are not declared
		}
		pairs += value[int](t, c, "select count(*)::int from pair")
		funds += value[int](t, c, "select coalesce(sum(v), 0)::int from pair")
		accounts += value[int](t, c, "select count(*)::int from bank")
		bank += value[int](t, c, "select coalesce(sum(v), 0)::int from bank")
		rows, err := c.Query(context.Background(), "select n from line")
		if err != nil {
			t.Fatal(err)
		}
		var n int64
		if _, err := pgx.ForEachRow(rows, []any{&n}, func() error { lines[n]++; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if pairs != 2*moveKeys || funds != 2*moveKeys*moveFunds || accounts != moveKeys || bank != moveKeys*moveFunds {
		m.complain("%s: %d pairs with %d, %d accounts with %d", what, pairs, funds, accounts, bank)
	}
	m.load.compare(lines, func(format string, args ...any) { m.complain("%s: %s", what, fmt.Sprintf(format, args...)) })
	for i := range 2 {
		m.with(i, func(c *pgx.Conn) {
			within(t, 15*time.Second, fmt.Sprintf("%s: proxy %d serves again", what, i), func() bool { // it may have lost its lease
				got, _ := exec(c, patience, "select count(*) from line")
				return got == ""
			})
			m.alike(what, c)
			rows, _ := c.Query(context.Background(), "select * from weft.verify_placement()")
			found, err := pgx.CollectRows(rows, pgx.RowToMap)
			if err != nil {
				m.complain("%s: %v", what, err)
			}
			for _, f := range found {
				if f["misplaced"] != "0" {
					m.complain("%s: %v", what, f)
				}
			}
			if n := value[int](t, c, "select count(*)::int from line"); n != len(lines) {
				m.complain("%s: proxy %d counts %d lines of %d", what, i, n, len(lines))
			}
		})
	}
}

// mayFail reports whether a cell excuses what a statement was told.
func (m *moving) mayFail(d *death, s moveStatement) bool {
	switch {
	case s.told == "" || s.lost:
		return true
	case len(d.dead) > 0:
		return true // a shard's death is noticed by all
	case s.told == "40001" && d.online && strings.Contains(s.err.Error(), "a table was declared, or its declaration taken back"):
		return true // it was planned by the declarations of the moment before
	case s.told == "40001" && strings.HasPrefix(s.what, "audit") && (strings.ContainsAny(d.victim, "PQ") || d.pause > time.Second):
		return true // transfers that a proxy has left in doubt close the gate, and so do rounds, for as long as they may last
	case s.told == "57P03":
		return d.has("etcd") || d.has("stop P") && s.proxy == 0 || d.has("stop Q") && s.proxy == 1 || d.has("cable P") && s.proxy == 0 || d.has("cable Q") && s.proxy == 1
	case s.told == "57P01" || s.told == "08006" || s.told == "08007" || s.told == "40001":
		// Others end the transactions of a proxy that stood still, and the backends of one without a lease.
		who := "PQ"[s.proxy : s.proxy+1]
		return d.has("stop "+who) || d.lasting > 5*time.Second && (d.has("cable "+who) || d.has("etcd"))
	}
	return false
}
