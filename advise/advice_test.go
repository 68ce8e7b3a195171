package advise

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"weft/catalog"
	"weft/directory"
	"weft/recording"
)

// tx makes a transaction of statements with values.
func tx(list ...any) recording.Transaction {
	var t recording.Transaction
	for _, v := range list {
		switch v := v.(type) {
		case int:
			t = append(t, recording.Execution{ID: int64(v)})
		case []uint64:
			e := &t[len(t)-1]
			for _, n := range v {
				e.Values = append(e.Values, recording.Value{n})
			}
		}
	}
	return t
}

func check(c *Candidate, name string) Check {
	for _, k := range c.Checks {
		if k.Name == name {
			return k
		}
	}
	return Check{}
}

const bank = `CREATE TABLE accounts (id bigint PRIMARY KEY, branch_id int NOT NULL, balance bigint NOT NULL);
CREATE TABLE postings (account_id bigint NOT NULL REFERENCES accounts(id), id bigserial, amount bigint NOT NULL, PRIMARY KEY (account_id, id));`

// Transactions that write for two accounts would be torn by a key of accounts, and are listed, the
// most frequent first. Equal values stay on one shard.
func TestTornTransactions(t *testing.T) {
	a := &app{ddl: bank}
	a.add(1000, 0.1, "UPDATE accounts SET balance = balance + $1 WHERE id = $2")
	a.add(1000, 0.1, "INSERT INTO postings (account_id, amount) VALUES ($1, $2)")
	a.add(1000, 0.1, "SELECT balance FROM accounts WHERE id = $1")
	a.rows("accounts", 1e6, map[string]float64{"id": -1, "branch_id": 20})
	a.rows("postings", 1e7, map[string]float64{"account_id": 1e6, "id": -1})
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 1000 {
		one, two := r.Uint64(), r.Uint64()
		if i%10 == 0 { // a transfer
			a.recorded = append(a.recorded, tx(1, []uint64{5, one}, 1, []uint64{6, two}))
		} else {
			a.recorded = append(a.recorded, tx(1, []uint64{5, one}, 2, []uint64{one, 5}, 3, []uint64{two}))
		}
	}
	best := a.advise(t, 4).Candidates[0]
	if !best.shards("accounts.id", "postings.account_id") || best.OneShard != 1 || best.WritesOneShard != 1 {
		t.Fatalf("%+v", best)
	}
	// A tenth of all are transfers, and three quarters of them are between two of four shards.
	if len(best.Broken) != 1 || !slices.Equal(best.Broken[0].Statements, []int64{1}) || math.Abs(best.TwoPhase-0.075) > 0.03 || best.Broken[0].Share != best.TwoPhase && math.Abs(best.Broken[0].Share-best.TwoPhase) > 1e-9 {
		t.Errorf("2PC %v, %+v", best.TwoPhase, best.Broken)
	}
}

// Columns that have equal values in most transactions belong together, without any foreign key or join.
func TestRecordedDomains(t *testing.T) {
	a := &app{ddl: "CREATE TABLE owners (nr bigint PRIMARY KEY, name text); CREATE TABLE cars (holder bigint NOT NULL, plate text NOT NULL, seats bigint NOT NULL, PRIMARY KEY (holder, plate));"}
	a.add(1000, 0.1, "UPDATE owners SET name = $1 WHERE nr = $2")
	a.add(1000, 0.1, "INSERT INTO cars (holder, plate, seats) VALUES ($1, $2, $3)")
	a.rows("owners", 1e6, map[string]float64{"nr": -1})
	a.rows("cars", 1e6, map[string]float64{"holder": -1, "plate": -1, "seats": 8})
	if a.advise(t, 4).Candidates[0].shards("owners.nr", "cars.holder") {
		t.Error("nothing says that the columns belong together")
	}
	for i := range uint64(100) {
		a.recorded = append(a.recorded, tx(1, []uint64{1, i + 1000}, 2, []uint64{i + 1000, i, 4}))
	}
	if best := a.advise(t, 4).Candidates[0]; !best.shards("owners.nr", "cars.holder") || best.TwoPhase != 0 {
		t.Errorf("%+v", best)
	}
}

// The same parameter twice is one value, two parameters may be two.
func TestEqualParameters(t *testing.T) {
	a := &app{ddl: bank}
	a.add(1000, 0.1, "SELECT 1 FROM accounts a, postings p WHERE a.id = $1 AND p.account_id = $1")
	a.add(1000, 0.1, "SELECT balance FROM accounts WHERE id IN ($1, $2)")
	a.add(1000, 0.1, "SELECT balance FROM accounts WHERE id = ANY($1)")
	a.add(1000, 0.1, "SELECT balance FROM accounts WHERE id IN ($1 /*, ... */)")
	a.rows("accounts", 1e6, map[string]float64{"id": -1})
	best := a.advise(t, 4).Candidates[0]
	if len(best.Scattered) != 3 || best.Scattered[0].ID == 2 || best.Scattered[1].ID == 2 || best.Scattered[2].ID != 2 {
		t.Fatalf("%+v", best.Scattered)
	}
	if got := best.Scattered[2].Time * 4; math.Abs(got-0.75) > 0.15 {
		t.Errorf("%.2f of the pairs are on two of four shards", got)
	}
}

// A key that has few values, is NULL, changes, or has one heavy value fails its checks, and the heavy
// value gets a second column.
func TestChecksAndSalt(t *testing.T) {
	a := &app{ddl: `CREATE TABLE messages (channel_id bigint, id bigserial NOT NULL, body text NOT NULL, PRIMARY KEY (id)); CREATE TABLE channels (id bigint PRIMARY KEY, topic text);`}
	a.add(50_000, 0.1, "INSERT INTO messages (channel_id, id, body) VALUES ($1, $2, $3)")
	a.add(10_000, 0.5, "SELECT body FROM messages WHERE channel_id = $1 ORDER BY id DESC LIMIT $2")
	a.add(10_000, 0.1, "SELECT body FROM messages WHERE channel_id = $1 AND id = $2")
	a.add(100, 0.1, "UPDATE messages SET channel_id = $1 WHERE channel_id = $2 AND id = $3")
	name := catalog.Name{Schema: "public", Name: "messages"}
	a.tables = map[catalog.Name]TableStats{name: {Rows: 1e6, Bytes: 1e9, Columns: map[string]ColumnStats{
		"channel_id": {Distinct: 50, Common: []float64{0.4, 0.02}, Null: 0.01}, "id": {Distinct: -1, Correlation: 0.99}, "body": {Distinct: -0.5},
	}}}
	in := a.advise(t, 8)
	at := slices.IndexFunc(in.Candidates, func(c *Candidate) bool { return c.shards("messages.channel_id") && c.Second == nil })
	c := in.Candidates[at]
	for _, name := range []string{"values", "largest value", "never changes", "never NULL"} {
		if k := check(c, name); k.OK || k.Detail == "" {
			t.Errorf("%s: %+v", name, k)
		}
	}
	if k := check(c, "on every write"); !k.OK {
		t.Errorf("%+v", k)
	}
	// 40 % of the rows are 3.2 times a shard's share: 16 places have a fifth of it each.
	if s := c.Salt; s == nil || s.Second != "id" || s.Spread != 16 || s.SQL != "SELECT weft.shard_table('messages', 'channel_id, id', vindex => 'salted', spread => '16');" {
		t.Fatalf("%+v", s)
	} else if want := 1.0/6 + 5.0/6*16; math.Abs(s.Price-want) > 0.1 {
		t.Errorf("price %.2f, not %.2f", s.Price, want)
	}
	in.Candidates = []*Candidate{c}
	if out := text(in); !strings.Contains(out, "LOOK  never changes: an UPDATE sets messages.channel_id") || !strings.Contains(out, "To spread it over 16 places, by id:") {
		t.Error(out)
	}
	byID := slices.IndexFunc(a.advise(t, 8).Candidates, func(c *Candidate) bool { return c.shards("messages.id") })
	if byID < 0 || at < byID && c.score > 8 {
		t.Errorf("channel %d, id %d", at, byID)
	}
}

func TestSpreadFor(t *testing.T) {
	for _, tc := range []struct {
		share  float64
		shards int
		want   int
	}{{0.1, 4, 2}, {0.25, 4, 4}, {0.5, 4, 8}, {0.5, 8, 16}, {1, 64, 256}, {1, 4096, 256}} {
		if got := spreadFor(tc.share, tc.shards); got != tc.want {
			t.Errorf("%v of %d shards: %d, not %d", tc.share, tc.shards, got, tc.want)
		}
	}
}

// What is declared already is compared with what could be, and changes of declarations are SQL.
func TestDeclaredAlready(t *testing.T) {
	a := newDemo()
	schema, err := catalog.FromDump(a.ddl)
	if err != nil {
		t.Fatal(err)
	}
	sharded := func(table, column string) directory.Table {
		c := schema.Relation(catalog.Name{Schema: "public", Name: table}).Column(column)
		return directory.Table{
			Database: "app", Schema: "public", Name: table, Kind: directory.Sharded, Vindex: directory.Vindex{Kind: "hash"},
			Columns: []directory.Column{{Name: column, Type: c.Base, TypeName: c.TypeName, Mod: c.Mod}},
		}
	}
	in := &Input{Database: "app", Path: []string{"pg_catalog", "public"}, Schema: schema, Shards: 4, Statements: a.statements, Tables: a.tables}
	in.Declared = []directory.Table{sharded("customers", "id"), sharded("orders", "customer_id"), {Database: "app", Schema: "public", Name: "products", Kind: directory.Reference}, sharded("order_items", "order_id")}
	got, err := New(in)
	if err != nil {
		t.Fatal(err)
	}
	if best := got.Candidates[0]; !slices.Equal(best.SQL, []string{"SELECT weft.alter_shard_key('order_items', 'customer_id');"}) || got.Now == nil || got.Now.OneShard >= best.OneShard {
		t.Errorf("%+v, now %+v", best.SQL, got.Now)
	}
	if out := text(got); !strings.Contains(out, "as declared now") {
		t.Error(out)
	}
	in.Declared[3] = sharded("order_items", "customer_id")
	if got, err = New(in); err != nil || len(got.Candidates[0].SQL) > 0 || got.Now.OneShard != got.Candidates[0].OneShard {
		t.Errorf("%+v, %v", got.Candidates[0], err)
	}
	if !strings.Contains(text(got), "there is nothing to run") {
		t.Error(text(got))
	}
	b, err := json.Marshal(got)
	if err != nil || !strings.Contains(string(b), `"sharded":["customers.id",`) {
		t.Errorf("%s, %v", b, err)
	}
}

func TestNothingToAdvise(t *testing.T) {
	schema, err := catalog.FromDump("CREATE TABLE t (a bool, b jsonb)")
	if err != nil {
		t.Fatal(err)
	}
	in := &Input{Database: "app", Path: []string{"public"}, Schema: schema, Shards: 2}
	if _, err := New(in); !errors.Is(err, ErrNoStatements) {
		t.Error(err)
	}
	in.Statements = []Statement{{ID: 1, Text: "SELECT * FROM t WHERE a = $1", Calls: 1}, {ID: 2, Text: "not SQL", Calls: 1}}
	if _, err := New(in); !errors.Is(err, ErrNoCandidates) {
		t.Error(err)
	}
}

// A log tells statements, times, transactions and equal values, in both formats.
func TestReadLog(t *testing.T) {
	var key recording.Key
	jsonlog := `{"dbname":"app","session_id":"a","message":"duration: 1.5 ms  statement: SELECT * FROM t WHERE k = 7"}
{"dbname":"other","session_id":"x","message":"duration: 1 ms  statement: SELECT 1"}
{"dbname":"app","session_id":"b","message":"statement: BEGIN"}
{"dbname":"app","session_id":"b","message":"duration: 0.5 ms  execute s1: SELECT * FROM t WHERE k = $1","detail":"parameters: $1 = '7', $2 = NULL"}
{"dbname":"app","session_id":"a","message":"duration: 2.5 ms  statement: SELECT * FROM t WHERE k = 8"}
{"dbname":"app","session_id":"b","message":"duration: 0.5 ms  execute s1: SELECT * FROM t WHERE k = $1","detail":"Parameters: $1 = 'it''s'"}
{"dbname":"app","session_id":"b","message":"connection authorized"}
{"dbname":"app","session_id":"b","message":"statement: COMMIT"}
`
	got, err := ReadLog(strings.NewReader(jsonlog), "app", key)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Statements) != 1 || got.Statements[0].Calls != 4 || got.Statements[0].Time != 5 || got.Statements[0].Text != "SELECT * FROM t WHERE k = $1" {
		t.Errorf("%+v", got.Statements)
	}
	var values [][][]recording.Value
	for _, tx := range got.Transactions {
		var list [][]recording.Value
		for _, e := range tx {
			list = append(list, e.Values)
		}
		values = append(values, list)
	}
	seven, eight, its := key.Text([]byte("7")), key.Text([]byte("8")), key.Text([]byte("it's"))
	want := [][][]recording.Value{{{seven}}, {{eight}}, {{seven, nil}, {its}}}
	if !reflect.DeepEqual(values, want) {
		t.Errorf("%v, not %v", values, want)
	}
	for _, bad := range []string{"", "LOG:  statement: SELECT 1\n", "{\"message\": 1}", "{\"message"} {
		if _, err := ReadLog(strings.NewReader(bad), "", key); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// The statistics of shards are one picture: values of the shard key are on one shard each.
func TestMergeStats(t *testing.T) {
	part := func(rows string, common string) map[catalog.Name]TableStats {
		return ReadStats([][]string{{"public", "o", rows, "1000"}, {"public", "h", "-1", "500"}}, [][]string{
			{"public", "o", "k", "10", "0.1", "0.99", common}, {"public", "o", "id", "-1", "0", "0", ""}, {"public", "o", "s", "3", "0", "0", "0.5,0.3"}, {"public", "gone", "x", "1", "0", "0", ""},
		})
	}
	n := catalog.Name{Schema: "public", Name: "o"}
	got := MergeStats([]map[catalog.Name]TableStats{part("300", "0.4"), part("100", "0.8")}, []directory.Table{
		{Schema: "public", Name: "o", Kind: directory.Sharded, Columns: []directory.Column{{Name: "k"}}}, {Schema: "public", Name: "r", Kind: directory.Reference},
	})
	o := got[n]
	if o.Rows != 400 || o.Bytes != 2000 || got[catalog.Name{Schema: "public", Name: "h"}].Rows != 5 {
		t.Errorf("%+v", got)
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
	if k := o.Columns["k"]; k.Distinct != 20 || !near(k.Null, 0.1) || !near(k.Common[0], 0.3) || !near(k.Common[1], 0.2) || k.Correlation != 0.99 {
		t.Errorf("%+v", k)
	}
	if s, id := o.Columns["s"], o.Columns["id"]; s.Distinct != 3 || !near(s.Common[0], 0.5) || id.Distinct != 400 {
		t.Errorf("%+v, %+v", s, id)
	}
}

// Where one value of the best column is too heavy, and reads by that column alone are many, a key of two columns comes first. What knows the first column
// visits the shards of its run, what knows both visits one.
func TestComposite(t *testing.T) {
	a := &app{ddl: `CREATE TABLE visits (site_id bigint NOT NULL, visitor_id bigint NOT NULL, n bigint NOT NULL, PRIMARY KEY (site_id, visitor_id));`}
	a.add(80_000, 0.1, "INSERT INTO visits (site_id, visitor_id, n) VALUES ($1, $2, $3)")
	a.add(80_000, 0.1, "UPDATE visits SET n = n + $1 WHERE site_id = $2 AND visitor_id = $3")
	a.add(2_000, 2, "SELECT sum(n) FROM visits WHERE site_id = $1")
	name := catalog.Name{Schema: "public", Name: "visits"}
	a.tables = map[catalog.Name]TableStats{name: {Rows: 1e7, Bytes: 1e9, Columns: map[string]ColumnStats{
		"site_id": {Distinct: 500, Common: []float64{0.3, 0.02}}, "visitor_id": {Distinct: 1e6}, "n": {Distinct: 10},
	}}}
	in := a.advise(t, 8)
	best := in.Candidates[0]
	if best.Key != "visits.site_id, visits.visitor_id" || len(best.Second) != 1 || best.Second[0].String() != "visits.visitor_id" || best.Salt != nil {
		t.Fatalf("%s", text(in))
	}
	if want := "SELECT weft.shard_table('visits', 'site_id, visitor_id', bits => '1');"; !slices.Equal(best.SQL, []string{want}) || len(best.Obstacles) != 0 {
		t.Errorf("%v, %v", best.SQL, best.Obstacles)
	}
	if len(best.Scattered) != 1 || best.Scattered[0].Shards != 4 || best.WorstShard > 1.05 || best.WritesOneShard != 1 || !check(best, "largest value").OK {
		t.Errorf("%+v", best)
	}
	// With an even first column, one column is enough.
	c := a.tables[name].Columns
	c["site_id"] = ColumnStats{Distinct: 1e5}
	if best := a.advise(t, 8).Candidates[0]; best.Second != nil || best.Key != "visits.site_id" {
		t.Errorf("%+v", best)
	}
}
