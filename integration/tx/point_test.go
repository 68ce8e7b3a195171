package tx

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/config"
	"weft/integration/harness"
	"weft/twopc"
)

var (
	pointsFlag = flag.Bool("points", false, "let everything happen at every point of every kind of commit")
	onlyFlag   = flag.String("only", "", "try only what has this in its name, five times")
)

// points are where something happens to a commit.
var points = []twopc.Point{
	twopc.BeforeDecide, twopc.AfterDecide, twopc.BeforePrepare, twopc.DuringPrepare, twopc.AfterPrepare,
	twopc.AfterCommit, twopc.DuringFollow, twopc.AfterFollow,
}

// happenings are what happens there, to the connection of the client and the
// backends that work for it.
var happenings = map[string]func(p *pointWorld){
	"cancel": func(p *pointWorld) { _ = p.victim.PgConn().CancelRequest(context.Background()) },
	"gone": func(p *pointWorld) {
		tcp := p.victim.PgConn().Conn().(*net.TCPConn)
		_ = tcp.SetLinger(0)
		_ = tcp.Close()
	},
	"half":   func(p *pointWorld) { _ = p.victim.PgConn().Conn().(*net.TCPConn).CloseWrite() },
	"kill 0": func(p *pointWorld) { p.terminate(0) },
	"kill 1": func(p *pointWorld) { p.terminate(1) },
	"kill 2": func(p *pointWorld) { p.terminate(2) },
	"kill all": func(p *pointWorld) {
		for i := range shards {
			p.terminate(i)
		}
	},
}

// endings are ways to commit on several shards; each writes a row of journal on every
// shard.
var endings = map[string]func(p *pointWorld) error{
	"block": func(p *pointWorld) error {
		p.enterInBlock()
		return p.exec("commit")
	},
	"extended block": func(p *pointWorld) error {
		p.enterInBlock()
		_, err := p.victim.Exec(context.Background(), "commit", pgx.QueryExecModeExec)
		return err
	},
	"chain": func(p *pointWorld) error {
		p.enterInBlock()
		return p.exec("commit and chain")
	},
	"statement": func(p *pointWorld) error { return p.exec(p.rows()) },
	"extended statement": func(p *pointWorld) error {
		_, err := p.victim.Exec(context.Background(), p.rows(), pgx.QueryExecModeExec)
		return err
	},
	"text":           func(p *pointWorld) error { return p.exec(strings.Join(p.row(), "; ")) },
	"text that sets": func(p *pointWorld) error { return p.exec("set work_mem = '5MB'; " + strings.Join(p.row(), "; ")) },
	"pipeline": func(p *pointWorld) error {
		var b pgx.Batch
		for _, sql := range p.row() {
			b.Queue(sql)
		}
		return p.victim.SendBatch(context.Background(), &b).Close()
	},
	"copy": func(p *pointWorld) error {
		_, err := p.victim.CopyFrom(context.Background(), pgx.Identifier{"journal"}, []string{"id", "tx"}, pgx.CopyFromSlice(shards, func(i int) ([]any, error) {
			return []any{p.keys[i][p.tx], p.tx}, nil
		}))
		return err
	},
	"ddl": func(p *pointWorld) error {
		return p.exec(fmt.Sprintf("alter table wide add column c%d int; %s", p.tx, strings.Join(p.row(), "; ")))
	},
}

// pointWorld is a world whose commits are met by something.
type pointWorld struct {
	*world
	mu     sync.Mutex
	at     twopc.Point
	then   func(*pointWorld) // nil: nothing, or it has happened
	victim *pgx.Conn
	tx     int
	direct [shards]*pgx.Conn
}

func (p *pointWorld) meet(at twopc.Point) {
	p.mu.Lock()
	then := p.then
	if then == nil || at != p.at {
		p.mu.Unlock()
		return
	}
	p.then = nil
	p.mu.Unlock()
	then(p)
}

// terminate ends the client's backend on a shard and waits until it is gone.
func (p *pointWorld) terminate(shard int) {
	const who = "from pg_stat_activity where application_name = 'victim' and datname = current_database()"
	must(p.t, p.direct[shard], "select pg_terminate_backend(pid) "+who)
	within(p.t, "it is gone", func() bool { return value[int](p.t, p.direct[shard], "select count(*) "+who) == 0 })
}

func (p *pointWorld) exec(sql string) error {
	_, err := p.victim.PgConn().Exec(context.Background(), sql).ReadAll()
	return err
}

// row are statements that write a row on each shard, rows is one that does.
func (p *pointWorld) row() (list []string) {
	for i := range shards {
		list = append(list, fmt.Sprintf("insert into journal values (%d, %d)", p.keys[i][p.tx], p.tx))
	}
	return list
}

func (p *pointWorld) rows() string {
	return strings.Replace(strings.Join(p.row(), ", "), ", insert into journal values (", ", (", shards-1)
}

func (p *pointWorld) enterInBlock() {
	p.t.Helper()
	for _, sql := range append([]string{"begin"}, p.row()...) {
		if err := p.exec(sql); err != nil {
			p.t.Fatalf("%s: %v", sql, err)
		}
	}
}

// TestPoints: whatever happens at whichever point of a commit, the rows are on all
// shards or on none, as the client was told; and a client that was told can go on.
func TestPoints(t *testing.T) {
	p := &pointWorld{}
	stop := harness.StartWeftWith(t, func(cfg *config.Config) { cfg.Pool.MaxPerShard = 10 }, p.meet)
	p.world = &world{t: t, db: "points", proxies: []*harness.Target{stop}}
	p.fill()
	for i := range shards {
		p.direct[i] = p.world.direct(i)
	}
	p.closed()
	c := p.conn(0)
	must(t, c, "create table journal (id bigint primary key, tx bigint not null)")
	must(t, c, "create table wide (id bigint primary key)")
	must(t, c, "select weft.shard_table('journal', 'id')")
	must(t, c, "select weft.shard_table('wide', 'id')")
	p.manyKeys(c)
	type trial struct {
		ending, happening string
		at                twopc.Point
	}
	var trials []trial
	for ending := range endings {
		for happening := range happenings {
			for _, at := range points {
				trials = append(trials, trial{ending, happening, at})
			}
		}
	}
	slices.SortFunc(trials, func(a, b trial) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	if *onlyFlag != "" {
		trials = slices.DeleteFunc(trials, func(x trial) bool { return !strings.Contains(fmt.Sprint(x), *onlyFlag) })
		trials = slices.Repeat(trials, 5)
	} else if !*pointsFlag {
		// Some that have gone wrong, and others by chance.
		known := []trial{
			{"ddl", "kill 0", twopc.BeforeDecide},
			{"ddl", "kill 0", twopc.BeforePrepare},
			{"text that sets", "kill 0", twopc.AfterCommit},
			{"statement", "kill 1", twopc.AfterCommit},
		}
		rand.New(rand.NewPCG(*stressSeed, 3)).Shuffle(len(trials), func(i, j int) { trials[i], trials[j] = trials[j], trials[i] })
		trials = append(known, trials[:20]...)
	}
	for _, x := range trials {
		p.try(fmt.Sprintf("%s, %s, %s", x.ending, x.at, x.happening), endings[x.ending], x.at, happenings[x.happening])
	}
	p.quiet()
}

// closed makes a database that nobody can connect to, before all others: what is
// left of transactions is found all the same.
func (p *pointWorld) closed() {
	const name = "a_closed"
	p.proxies[0].CreateDatabase(p.t, name)
	c := p.proxies[0].Connect(p.t, "postgres", "dbname="+name)
	must(p.t, c, "create table t (id bigint primary key)")
	must(p.t, c, "select weft.shard_table('t', 'id')")
	_ = c.Close(context.Background())
	for i := range shards {
		must(p.t, p.direct[i], "alter database "+name+" allow_connections false")
		must(p.t, p.direct[i], "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", name)
	}
}

// manyKeys finds keys enough for all trials.
func (p *pointWorld) manyKeys(c *pgx.Conn) {
	const most = 9000
	must(p.t, c, fmt.Sprintf("insert into journal select i, 0 from generate_series(1, %d) i", most))
	for i := range shards {
		rows, err := p.direct[i].Query(context.Background(), "select id from journal order by id")
		if err != nil {
			p.t.Fatal(err)
		}
		if p.keys[i], err = pgx.CollectRows(rows, pgx.RowTo[int64]); err != nil {
			p.t.Fatal(err)
		}
	}
	must(p.t, c, "delete from journal")
}

func (p *pointWorld) try(what string, end func(*pointWorld) error, at twopc.Point, happen func(*pointWorld)) {
	t := p.t
	p.tx++
	if p.victim == nil || p.victim.IsClosed() {
		p.victim = p.conn(0, "application_name=victim")
	}
	p.mu.Lock()
	p.at, p.then = at, happen
	p.mu.Unlock()
	done := make(chan error, 1)
	go func() { done <- end(p) }()
	var err error
	select {
	case err = <-done:
	case <-time.After(patience):
		t.Fatalf("%s: does not end", what)
	}
	p.mu.Lock()
	met := p.then == nil
	p.then = nil
	p.mu.Unlock()
	f := judge(err)
	if !met {
		t.Logf("%s: is not met: %v", what, err)
	}
	switch got := code(err); got {
	case "", "?????", "57014", "08006", "08007", "57P01":
	default:
		t.Errorf("%s: %v", what, err)
	}
	if !p.victim.IsClosed() && f == unknown && code(err) == "?????" {
		_ = p.victim.Close(context.Background())
	}
	p.goOn(what)
	n := p.settled(what)
	p.nothingUsed()
	if n != 0 && n != shards || f == there && n == 0 || f == nowhere && n != 0 {
		t.Errorf("%s: %d rows, the client was told %d: %v", what, n, f, err)
	}
}

// goOn makes sure that the client's session answers, if it lives.
func (p *pointWorld) goOn(what string) {
	if p.victim.IsClosed() {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if p.victim.PgConn().TxStatus() != 'I' {
		if _, err := p.victim.PgConn().Exec(ctx, "rollback").ReadAll(); err != nil && !p.victim.IsClosed() {
			p.t.Errorf("%s: ROLLBACK: %v", what, err)
		}
	}
	var err error
	for range shards + 1 { // each shard may have a dead connection in its pool
		if _, err = p.victim.Exec(ctx, "select count(*) from acct where balance > $1", pgx.QueryExecModeExec, 0); code(err) != "08006" {
			break
		}
	}
	if err != nil && !p.victim.IsClosed() {
		p.t.Errorf("%s: what follows: %v", what, err)
	}
	if ctx.Err() != nil {
		p.t.Fatalf("%s: the session does not answer", what)
	}
}

// settled waits until nothing is open, and counts the rows of the transaction.
func (p *pointWorld) settled(what string) (n int) {
	for i := range shards {
		within(p.t, what+": settled", func() bool {
			return value[int](p.t, p.direct[i], "select (select count(*) from pg_prepared_xacts where database = current_database()) + "+
				"(select count(*) from pg_stat_activity where datname = current_database() and application_name = 'victim' and state <> 'idle')") == 0
		})
	}
	wide := 0
	for i := range shards {
		n += value[int](p.t, p.direct[i], "select count(*) from journal where tx = $1", p.tx)
		wide += value[int](p.t, p.direct[i], "select count(*) from pg_attribute where attrelid = 'wide'::regclass and attname = $1", fmt.Sprintf("c%d", p.tx))
	}
	if wide != 0 && wide != n {
		p.t.Errorf("%s: %d rows, %d columns", what, n, wide)
	}
	return n
}
