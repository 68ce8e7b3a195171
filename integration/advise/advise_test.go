package advise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/config"
	"weft/integration/harness"
)

const (
	patience  = 3 * time.Minute
	customers = 2000
)

func TestMain(m *testing.M) {
	harness.ShardCount = 3
	os.Exit(harness.Main(m))
}

// shop is an application, with a connection through each proxy: one sends values as parameters, the
// other as literals.
type shop struct {
	*testing.T
	db      string
	proxies []*harness.Target
	conns   []*pgx.Conn
	// once runs one transaction for a random customer or user.
	once func(c *pgx.Conn, r *rand.Rand, someone func() int64)
}

// connect opens the connections.
func (s *shop) connect() {
	s.Helper()
	for i, mode := range []string{"cache_statement", "simple_protocol"} {
		s.conns = append(s.conns, s.proxies[i].Connect(s.T, "postgres", "dbname="+s.db, "default_query_exec_mode="+mode))
	}
}

const tables = `
create table customers (id bigint primary key, name text not null, credit bigint not null default 0);
create table products (id int primary key, price int not null);
create table orders (id bigserial, customer_id bigint not null references customers(id), status text not null default 'open', primary key (customer_id, id));
create table items (customer_id bigint not null, order_id bigint not null, product_id int not null references products(id), n int not null,
  primary key (customer_id, order_id, product_id), foreign key (customer_id, order_id) references orders(customer_id, id));
create table jobs (id bigserial primary key, what text not null, done bool not null default false);
insert into customers (id, name) select i, 'customer ' || i from generate_series(1, 2000) i;
insert into products select i, i * 10 from generate_series(1, 100) i;
insert into jobs (what) select 'job' from generate_series(1, 200000);
analyze;`

func newShop(t *testing.T, db, tables string) *shop {
	t.Helper()
	s := &shop{T: t, db: db}
	s.once = s.buy
	for range 2 {
		s.proxies = append(s.proxies, harness.StartWeft(t, func(*config.Config) {}))
	}
	s.proxies[0].CreateDatabase(t, db)
	s.connect()
	s.must(s.conns[1], tables)
	return s
}

func (s *shop) must(c *pgx.Conn, sql string, args ...any) {
	s.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if _, err := c.Exec(ctx, sql, args...); err != nil {
		s.Fatalf("%s: %v", sql, err)
	}
}

// work runs n transactions, the same ones for the same seed.
func (s *shop) work(seed uint64, n int) {
	s.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	zipf := rand.NewZipf(r, 1.2, 30, customers-1)
	someone := func() int64 { return int64(zipf.Uint64())*37%customers + 1 }
	for i := range n {
		s.once(s.conns[i%len(s.conns)], r, someone)
	}
}

// buy is one transaction of the shop.
func (s *shop) buy(c *pgx.Conn, r *rand.Rand, someone func() int64) {
	s.Helper()
	customer, product := someone(), 1+r.IntN(100)
	switch p := r.IntN(100); {
	case p < 35:
		s.must(c, "select name, credit from customers where id = $1", customer)
	case p < 55:
		s.must(c, "select o.id, sum(i.n * p.price) from orders o join items i on i.customer_id = o.customer_id and i.order_id = o.id join products p on p.id = i.product_id where o.customer_id = $1 group by o.id", customer)
	case p < 65:
		s.must(c, "select price from products where id = $1", product)
	case p < 82:
		s.order(c, customer, product)
	case p < 88:
		s.must(c, "begin")
		s.must(c, "update customers set credit = credit - $1 where id = $2", 1, customer)
		s.must(c, "update customers set credit = credit + $1 where id = $2", 1, someone())
		s.must(c, "commit")
	case p < 92:
		s.must(c, "select name from customers where id in ($1, $2)", customer, someone())
	case p < 95:
		s.must(c, "select status, count(*) from orders group by status")
	default:
		s.must(c, "update jobs set done = true where id = $1", 1+r.IntN(200000))
	}
}

// order places an order with two items.
func (s *shop) order(c *pgx.Conn, customer int64, product int) {
	s.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	s.must(c, "begin")
	var id int64
	if err := c.QueryRow(ctx, "insert into orders (customer_id) values ($1) returning id", customer).Scan(&id); err != nil {
		s.Fatal(err)
	}
	s.must(c, "insert into items (customer_id, order_id, product_id, n) values ($1, $2, $3, $4)", customer, id, product, 1)
	s.must(c, "insert into items (customer_id, order_id, product_id, n) values ($1, $2, $3, $4)", customer, id, product%100+1, 2)
	s.must(c, "update customers set credit = credit + $1 where id = $2", 1, customer)
	s.must(c, "commit")
}

// kinds counts the statements of both proxies by how they were carried out.
func (s *shop) kinds() map[string]float64 {
	s.Helper()
	rows, _ := s.conns[1].Query(context.Background(), "select kind, sum(statements)::float8 from weft.stats group by kind")
	out := map[string]float64{}
	var kind string
	var n float64
	if _, err := pgx.ForEachRow(rows, []any{&kind, &n}, func() error { out[kind] = n; return nil }); err != nil {
		s.Fatal(err)
	}
	return out
}

// candidate is what the test reads of an advice.
type candidate struct {
	Key           string   `json:"key"`
	Sharded       []string `json:"sharded"`
	Reference     []string `json:"reference"`
	Home          []string `json:"home"`
	OneShardCalls float64  `json:"one_shard_calls"`
	TwoPhase      float64  `json:"two_phase"`
	WorstShard    float64  `json:"worst_shard"`
	SQL           []string `json:"sql"`
	Obstacles     []string `json:"obstacles"`
	Refused       []any    `json:"refused"`
	Broken        []struct {
		Texts []string `json:"texts"`
		Share float64  `json:"share"`
	} `json:"broken"`
}

type advice struct {
	Recorded   int         `json:"recorded"`
	Now        *candidate  `json:"now"`
	Candidates []candidate `json:"candidates"`
}

func (s *shop) advise(more ...string) string {
	s.Helper()
	args := append([]string{"advise", "--etcd", harness.Endpoint(s.T), "--cluster", "test", "--database", s.db, "-U", "postgres"}, more...)
	out, err := harness.Command(s.T, args...)
	if err != nil {
		s.Fatalf("weft %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// What weft says of a key before it is declared is what happens after: the share of statements on
// several shards, and the share of transactions that are committed in two phases.
func TestAdviceHolds(t *testing.T) {
	s := newShop(t, "advised", tables)
	if code := s.code(s.conns[1], "select weft.record('soon')"); code != "22023" {
		t.Errorf("a recording for no time: %s", code)
	}
	s.must(s.conns[1], "select weft.statements_reset()")
	s.must(s.conns[0], "select weft.record(duration => '10min', share => '1')")
	const n = 1500
	s.work(7, n)
	s.must(s.conns[1], "select weft.record_stop()")
	s.recorded(n)
	var a advice
	if err := json.Unmarshal([]byte(s.advise("--json")), &a); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + s.advise())
	best := a.Candidates[0]
	if got := strings.Join(best.Sharded, " "); got != "customers.id items.customer_id orders.customer_id" || strings.Join(best.Reference, " ") != "products" || strings.Join(best.Home, " ") != "jobs" {
		t.Fatalf("sharded %s, reference %v, home %v", got, best.Reference, best.Home)
	}
	if len(best.Obstacles) > 0 || len(best.Refused) > 0 || a.Now != nil || a.Recorded < n {
		t.Errorf("%+v", a)
	}
	if len(best.Broken) != 1 || len(best.Broken[0].Texts) != 2 && len(best.Broken[0].Texts) != 1 || !strings.Contains(strings.Join(best.Broken[0].Texts, " "), "update customers set credit") {
		t.Errorf("transactions that would be torn: %+v", best.Broken)
	}
	s.follow(best, 7, n)
	s.asDeclared(best)
}

// follow declares what a candidate advises, lets the application work, and compares.
func (s *shop) follow(best candidate, seed uint64, n int) {
	s.Helper()
	for _, sql := range best.SQL {
		s.must(s.conns[1], strings.TrimSuffix(sql, ";"))
	}
	before := s.kinds()
	s.work(seed, n)
	after := s.kinds()
	did := func(kinds ...string) (sum float64) {
		for _, k := range kinds {
			sum += after[k] - before[k]
		}
		return sum
	}
	compare := func(what string, said, is float64) {
		s.Helper()
		s.Logf("%s on several shards: %.4f was said, it is %.4f", what, said, is)
		if math.Abs(said-is) > 0.02 {
			s.Errorf("%s on several shards: %.4f was said, it is %.4f: %v, %v", what, said, is, before, after)
		}
	}
	compare("statements", 1-best.OneShardCalls, did("gather", "write")/did("shard", "gather", "write"))
	compare("transactions", best.TwoPhase, did("two_phase", "write")/float64(n))
}

const graph = `
create table users (id bigint primary key, handle text not null);
create table follows (follower_id bigint not null, followee_id bigint not null, primary key (follower_id, followee_id));
create table posts (author_id bigint not null, id bigserial, body text not null, primary key (author_id, id));
insert into users select i, 'user ' || i from generate_series(1, 2000) i;
insert into follows select i, (i * 7 + j) % 2000 + 1 from generate_series(1, 2000) i, generate_series(1, 5) j;
insert into posts (author_id, body) select i % 2000 + 1, 'text' from generate_series(1, 20000) i;
analyze;`

// A social graph without foreign keys, whose statements have arrays.
func TestAdviceForGraph(t *testing.T) {
	s := newShop(t, "social", graph)
	s.once = func(c *pgx.Conn, r *rand.Rand, someone func() int64) {
		user := someone()
		switch p := r.IntN(100); {
		case p < 40:
			s.must(c, "select id, body from posts where author_id = $1 order by id desc limit 10", user)
		case p < 60:
			s.must(c, "select followee_id from follows where follower_id = $1", user)
		case p < 70:
			s.must(c, "select author_id, body from posts where author_id = any($1) order by id desc limit 10", []int64{user, someone(), someone()})
		case p < 75:
			s.must(c, "select handle from users where id = any($1)", []int64{user})
		case p < 80:
			s.must(c, "select count(*) from follows where followee_id = $1", user)
		case p < 95:
			s.must(c, "insert into posts (author_id, body) values ($1, $2)", user, "text")
		default:
			s.must(c, "update users set handle = $1 where id = any($2)", "new", []int64{user, someone()})
		}
	}
	s.must(s.conns[1], "select weft.statements_reset()")
	s.must(s.conns[0], "select weft.record('1h', '1')")
	const n = 1200
	s.work(3, n)
	s.must(s.conns[0], "select weft.record_stop()")
	var a advice
	if err := json.Unmarshal([]byte(s.advise("--json")), &a); err != nil {
		t.Fatal(err)
	}
	best := a.Candidates[0]
	if got := strings.Join(best.Sharded, " "); !strings.Contains(got, "posts.author_id") || len(best.Refused) > 0 || len(best.Obstacles) > 0 {
		t.Fatalf("sharded %s, refused %v, in the way %v", got, best.Refused, best.Obstacles)
	}
	t.Log("\n" + s.advise())
	s.follow(best, 3, n)
}

// recorded checks what is said of the recording, and that no value is in it.
func (s *shop) recorded(n int) {
	s.Helper()
	var kept int
	var states string
	err := s.conns[1].QueryRow(context.Background(), "select sum(kept), string_agg(distinct state, ' ') from weft.recording where database = current_database()").Scan(&kept, &states)
	// The creation of tables and the like is recorded, too, if it names tables.
	if err != nil || kept < n || kept > n+20 || states != "over" {
		s.Errorf("%d transactions are recorded, state %q: %v", kept, states, err)
	}
	rows, _ := s.conns[1].Query(context.Background(), "select * from weft.recorded()")
	list, err := pgx.CollectRows(rows, pgx.RowToMap)
	if err != nil || len(list) != kept {
		s.Errorf("%d transactions: %v", len(list), err)
	}
	for _, r := range list {
		if strings.Contains(fmt.Sprint(r["transaction"]), "customer") {
			s.Fatalf("a value was recorded: %v", r)
		}
	}
}

func (s *shop) code(c *pgx.Conn, sql string) string {
	_, err := c.Exec(context.Background(), sql)
	var e interface{ SQLState() string }
	if err == nil || !asError(err, &e) {
		return fmt.Sprint(err)
	}
	return e.SQLState()
}

// asDeclared asks again, now that the tables are declared: nothing is left to run.
func (s *shop) asDeclared(was candidate) {
	s.Helper()
	s.must(s.conns[0], "select weft.statements_reset()")
	s.must(s.conns[1], "select weft.record('1h', '1')")
	s.work(9, 400)
	s.must(s.conns[1], "select weft.record_stop()")
	var a advice
	if err := json.Unmarshal([]byte(s.advise("--json")), &a); err != nil {
		s.Fatal(err)
	}
	best := a.Candidates[0]
	if a.Now == nil || len(best.SQL) != 0 || best.Key != was.Key || math.Abs(a.Now.OneShardCalls-best.OneShardCalls) > 0.01 || math.Abs(best.OneShardCalls-was.OneShardCalls) > 0.03 {
		s.Errorf("after declaring: %+v, now %+v", best, a.Now)
	}
	alice := s.proxies[1].Connect(s.T, "alice", "dbname="+s.db, "default_query_exec_mode=simple_protocol")
	for _, sql := range []string{"select weft.record()", "select weft.record_stop()", "select * from weft.recorded()"} {
		if code := s.code(alice, sql); code != "42501" {
			s.Errorf("%s as alice: %s", sql, code)
		}
	}
}

func asError(err error, target *interface{ SQLState() string }) bool {
	return errors.As(err, target)
}
