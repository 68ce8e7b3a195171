package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/auth"
	"weft/config"
	"weft/integration/harness"
	"weft/pgserver/pgtest"
)

// teller is a client that moves money between accounts of all shards.
type teller struct {
	mu     sync.Mutex
	id     int64 // its session
	killed bool  // by an operator
	moved  int
	own    [2]int  // accounts that are on two shards
	errs   []error // those that nobody promised
}

const (
	tellers  = 6
	accounts = 24
)

// run moves money until told to stop. Whoever is killed comes back.
func (k *teller) run(ctx context.Context, dsn string, seed uint64, stop <-chan struct{}) {
	r := rand.New(rand.NewPCG(seed, 1))
	var c *pgx.Conn
	defer func() {
		if c != nil {
			_ = c.Close(context.Background())
		}
	}()
	for {
		select {
		case <-stop:
			return
		default:
		}
		if c == nil {
			fresh, err := pgx.Connect(ctx, dsn)
			if err != nil {
				k.note(fmt.Errorf("connect: %w", err))
				return
			}
			c = fresh
			k.mu.Lock()
			k.id, k.killed = int64(c.PgConn().PID()), false
			k.mu.Unlock()
		}
		err := k.transfer(ctx, c, r)
		k.mu.Lock()
		killed := k.killed
		k.mu.Unlock()
		switch {
		case err == nil:
			k.moved++
		case killed:
			_ = c.Close(context.Background())
			c = nil
		default:
			k.note(err)
			return
		}
	}
}

func (k *teller) note(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.errs = append(k.errs, err)
}

// transfer goes from the lower to the higher account, so that nobody waits in a
// circle, or from an account that nobody else uses to another.
func (k *teller) transfer(ctx context.Context, c *pgx.Conn, r *rand.Rand) error {
	from := 1 + r.IntN(accounts-1)
	to := from + 1 + r.IntN(accounts-from)
	if k.own[0] != 0 {
		from, to = k.own[0], k.own[1]
	}
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "UPDATE bank SET v = v - 1 WHERE id = $1", from); err != nil {
			return err
		}
		if r.IntN(4) == 0 {
			if _, err := tx.Exec(ctx, "SELECT sum(v) FROM bank"); err != nil {
				return err
			}
		}
		if k.own[0] != 0 {
			time.Sleep(15 * time.Millisecond) // on one shard, and not yet on the other
		}
		_, err := tx.Exec(ctx, "UPDATE bank SET v = v + 1 WHERE id = $1", to)
		return err
	})
}

// TestOperateUnderLoad pauses, drains, reloads and kills while clients move money.
// Nobody but who was killed sees an error, no money is lost, nothing is left
// behind.
func TestOperateUnderLoad(t *testing.T) {
	cert, key := certificate(t)
	p := harness.StartProgram(t, func(c *config.Config) {
		c.TLS = config.TLS{Cert: cert, Key: key, Mode: config.TLSAllow, MinVersion: "1.2"}
	})
	ctx := within(t, 2*time.Minute)
	admin := p.Connect(t, "postgres", "dbname=weft")
	const db = "under_load" // what is declared in it is nobody else's business
	p.CreateDatabase(t, db)
	setUp := p.Connect(t, "postgres", "dbname="+db)
	for _, sql := range []string{
		"CREATE TABLE bank(id int PRIMARY KEY, v int NOT NULL)", "SELECT weft.shard_table('bank', 'id')",
		fmt.Sprintf("INSERT INTO bank SELECT g, 100 FROM generate_series(1, %d) g", 2*accounts),
	} {
		if _, err := setUp.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		if _, err := setUp.Exec(context.Background(), "DROP TABLE bank"); err != nil {
			t.Error(err)
		}
	}()
	before := goroutines(t, p)
	stop := make(chan struct{})
	var all [tellers]teller
	first, second := ownAccounts(t, p, 0), ownAccounts(t, p, 1)
	all[0].own, all[1].own = [2]int{first[0], second[0]}, [2]int{second[1], first[1]}
	all[2].own, all[3].own = [2]int{first[2], second[2]}, [2]int{second[3], first[3]}
	var wg sync.WaitGroup
	for i := range all {
		dsn := p.ConnString("postgres", "dbname="+db)
		if i%2 == 0 {
			dsn = strings.Replace(dsn, "sslmode=disable", "sslmode=require", 1)
		}
		wg.Go(func() { all[i].run(ctx, dsn, uint64(i), stop) })
	}
	o := operator{t, ctx, p, admin}
	for round := range 2 {
		o.run("PAUSE")
		o.unused("")
		o.run("RESUME")
		for i := range harness.ShardCount {
			name := fmt.Sprintf("shard-%d", i)
			o.run("DRAIN SHARD " + name)
			o.unused(name)
			o.run("RESUME SHARD " + name)
		}
		o.reload(round, certificate)
		o.kill(&all[round%tellers])
	}
	close(stop)
	wg.Wait()
	moved := 0
	for i := range all {
		if moved += all[i].moved; len(all[i].errs) > 0 {
			t.Errorf("teller %d: %v", i, errors.Join(all[i].errs...))
		}
	}
	if moved < 2*tellers {
		t.Errorf("only %d transfers: there was no load", moved)
	}
	t.Logf("%d transfers", moved)
	var sum int
	if err := setUp.QueryRow(ctx, "SELECT sum(v) FROM bank").Scan(&sum); err != nil || sum != 2*100*accounts {
		t.Errorf("the bank has %d, %v", sum, err)
	}
	o.nothingLeft(before)
}

// ownAccounts returns accounts on a shard that are nobody's yet.
func ownAccounts(t *testing.T, p *harness.Program, shard int) []int {
	t.Helper()
	c, err := pgx.Connect(t.Context(), p.Shards()[shard].ConnString("under_load"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	rows, _ := c.Query(t.Context(), "SELECT id FROM bank WHERE id > $1 ORDER BY id LIMIT 4", accounts)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil || len(ids) < 4 {
		t.Fatalf("accounts of shard %d: %v, %v", shard, ids, err)
	}
	return ids
}

type operator struct {
	t     *testing.T
	ctx   context.Context
	p     *harness.Program
	admin *pgx.Conn
}

// run runs commands one after the other, with time for the load between.
func (o operator) run(commands ...string) {
	o.t.Helper()
	for _, c := range commands {
		ctx, stop := context.WithTimeout(o.ctx, pgtest.Patience)
		if _, err := o.admin.Exec(ctx, c); err != nil {
			o.t.Errorf("%s: %v", c, err)
		}
		stop()
		time.Sleep(50 * time.Millisecond) // what is tested is what others do meanwhile
	}
}

// unused looks that nobody has, or gets, a connection to a shard, or to any: the
// operator may be about to stop the server.
func (o operator) unused(shard string) {
	o.t.Helper()
	rows, _ := o.admin.Query(o.ctx, "SHOW SERVERS")
	got, err := pgx.CollectRows(rows, pgx.RowToMap)
	if err != nil {
		o.t.Fatal(err)
	}
	for _, m := range got {
		if shard == "" || m["shard"] == shard {
			o.t.Errorf("a connection to paused %v: %v", shard, m)
		}
	}
}

// reload changes limits, users, rules and certificates, by SIGHUP and by RELOAD, and
// puts up with a file that is wrong.
func (o operator) reload(round int, certificate func(*testing.T) (string, string)) {
	o.t.Helper()
	reloaded := func() int { return count(o.t, o.p.LogFile(), "configuration reloaded") }
	was := reloaded()
	cert, key := certificate(o.t)
	o.p.Configure(o.t, func(c *config.Config) {
		c.Pool.MaxPerShard, c.Limits.MaxClients, c.TLS.Cert, c.TLS.Key = 20+round, 1000+round, cert, key
		c.Auth.Users = append(c.Auth.Users, auth.User{Name: fmt.Sprintf("late%d", round), Password: "secret"})
		c.Auth.Rules = append([]auth.Rule{{Type: "host", Users: []string{fmt.Sprintf("late%d", round)}, Method: auth.MethodScramSHA256}}, c.Auth.Rules...)
	})
	o.p.Signal(o.t, syscall.SIGHUP)
	waitFor(o.t, func() bool { return reloaded() > was })
	o.p.Configure(o.t, func(c *config.Config) { c.Pool.Mode = "nonsense" })
	if _, err := o.admin.Exec(o.ctx, "RELOAD"); code(err) == "" {
		o.t.Error("a bad file was loaded")
	}
	o.p.Configure(o.t, func(c *config.Config) { c.Pool.Mode = "transaction" })
	o.run("RELOAD")
	// The new user is asked for the password: the role is not on the shards.
	if _, err := pgx.Connect(o.ctx, o.p.ConnString(fmt.Sprintf("late%d", round), "password=wrong")); code(err) != "28P01" {
		o.t.Errorf("a new user with a wrong password: %v", err)
	}
}

func (o operator) kill(k *teller) {
	o.t.Helper()
	k.mu.Lock()
	id := k.id
	k.killed = true
	k.mu.Unlock()
	o.run("KILL " + strconv.FormatInt(id, 10))
	waitFor(o.t, func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.id != id || len(k.errs) > 0
	})
}

// nothingLeft looks for backends in use, transactions in doubt and goroutines.
func (o operator) nothingLeft(goroutinesBefore int) {
	o.t.Helper()
	for what, gone := range map[string]func() bool{
		"backends in use": func() bool {
			rows, _ := o.admin.Query(o.ctx, "SHOW SHARDS")
			got, err := pgx.CollectRows(rows, pgx.RowToMap)
			for _, m := range got {
				if m["used"] != int64(0) || m["waiting"] != int64(0) || m["paused"] != false {
					return false
				}
			}
			return err == nil
		},
		"transactions in doubt": func() bool {
			rows, _ := o.admin.Query(o.ctx, "SHOW TRANSACTIONS")
			got, err := pgx.CollectRows(rows, pgx.RowToMap)
			return err == nil && !slices.ContainsFunc(got, func(m map[string]any) bool { return m["database"] == "under_load" })
		},
		"goroutines": func() bool { return goroutines(o.t, o.p) <= goroutinesBefore+5 },
	} {
		end := time.Now().Add(pgtest.Patience)
		for !gone() {
			if time.Now().After(end) {
				o.t.Errorf("%s are left; %d goroutines, before there were %d", what, goroutines(o.t, o.p), goroutinesBefore)
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

var goroutineLine = regexp.MustCompile(`(?m)^go_goroutines (\d+)`)

func goroutines(t *testing.T, p *harness.Program) int {
	t.Helper()
	resp, err := http.Get("http://" + p.HTTP() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(string(goroutineLine.FindSubmatch(text)[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func count(t *testing.T, file, what string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), what)
}
