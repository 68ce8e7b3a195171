package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"weft/directory"
	"weft/directory/embedded"
	"weft/heat/throttle"
)

// declarer speaks for a proxy: it takes each statement, lets declare do what a
// proxy does with it, and answers with a notice.
type declarer struct {
	listener net.Listener
	declare  func(database, statement string) error

	mu   sync.Mutex
	seen []string
}

func startDeclarer(t *testing.T, declare func(database, statement string) error) *declarer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &declarer{listener: l, declare: declare}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer c.Close()
				_ = d.serve(c) // the client's side says what went wrong
			})
		}
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	return d
}

func (d *declarer) serve(c net.Conn) error {
	b := pgproto3.NewBackend(c, c)
	m, err := b.ReceiveStartupMessage()
	if err != nil {
		return err
	}
	start, ok := m.(*pgproto3.StartupMessage)
	if !ok {
		return fmt.Errorf("%T", m)
	}
	b.Send(&pgproto3.AuthenticationOk{})
	for {
		b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		if err := b.Flush(); err != nil {
			return err
		}
		m, err := b.Receive()
		if err != nil {
			return err
		}
		q, ok := m.(*pgproto3.Query)
		if !ok {
			return nil
		}
		d.mu.Lock()
		d.seen = append(d.seen, start.Parameters["database"]+": "+q.String)
		err = d.declare(start.Parameters["database"], q.String)
		d.mu.Unlock()
		if err != nil {
			b.Send(&pgproto3.ErrorResponse{Severity: "ERROR", Code: "42P16", Message: err.Error(), Hint: "Look again."})
			continue
		}
		b.Send(&pgproto3.NoticeResponse{Severity: "NOTICE", Code: "00000", Message: "7 rows will move"})
		b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
	}
}

func TestApplyTables(t *testing.T) {
	e := testEtcd(t, "127.0.0.1:0")
	store, err := e.Store("main")
	if err != nil {
		t.Fatal(err)
	}
	put := func(table directory.Table) error {
		_, err := store.Update(context.WithoutCancel(t.Context()), func(old *directory.Snapshot) (*directory.Snapshot, error) {
			next := old.Clone()
			next.PutTable(table)
			return next, nil
		})
		return err
	}
	column := func(n string) []directory.Column {
		return []directory.Column{{Name: n, Type: 20, TypeName: "bigint", Mod: -1}}
	}
	var fail error
	proxy := startDeclarer(t, func(database, statement string) error {
		switch {
		case strings.Contains(statement, "accounts"):
			return put(directory.Table{Database: database, Schema: "public", Name: "accounts", Kind: directory.Sharded, Columns: column("tenant"), Vindex: directory.Vindex{Kind: "lookup_unique", Name: "tenants"}})
		case strings.Contains(statement, "Products"):
			return put(directory.Table{Database: database, Schema: "shop", Name: "Products", Kind: directory.Reference})
		}
		return fail
	})

	const file = "bucket_count: 64\nshards: [{name: a, hosts: ['127.0.0.1:1']}, {name: b, hosts: ['127.0.0.1:2']}]\npins: [{buckets: 0-9, shard: b}]\n" +
		"tables:\n- {database: app, table: accounts, columns: [tenant], vindex: lookup_unique, name: tenants}\n" +
		"- {database: other, table: 'shop.\"Products\"', reference: true}\n"
	apply := func(text string, more ...string) (int, string, string) {
		t.Helper()
		args := []string{"apply", "-f", write(t, "cluster.yaml", text), "--etcd", e.Endpoint(), "--cluster", "main"}
		code, out, errs := weft(t, append(args, more...)...)
		out = regexp.MustCompile(`cluster [0-9a-f]{16}|version \d+`).ReplaceAllStringFunc(out, func(s string) string { return strings.Fields(s)[0] + " N" })
		return code, out, errs
	}
	expect := func(text, want string, more ...string) {
		t.Helper()
		if code, out, errs := apply(text, more...); code != 0 || unasked(errs) != "" || out != want {
			t.Errorf("exit code %d, stderr %q\n got %s\nwant %s", code, errs, out, want)
		}
	}
	const (
		created = "+ cluster N, 64 buckets, home a\n+ shard a 127.0.0.1:1\n+ shard b 127.0.0.1:2\n+ pin buckets 0-9 on b\n"
		first   = "SELECT weft.shard_table('accounts', 'tenant', vindex => 'lookup_unique', name => 'tenants')"
		second  = `SELECT weft.reference_table('shop."Products"')`
		list    = "  \\connect app\n  " + first + ";\n  \\connect other\n  " + second + ";\n"
	)
	expect(file, created+"not applied: this was a dry run; these tables would be declared, through a proxy:\n"+list, "--dry-run")
	expect(file, created+"applied: the cluster is at version N\nthese tables are not declared yet; pass --proxy, or run through a proxy, as their owner:\n"+list)
	at := "postgres://u@" + proxy.listener.Addr().String() + "?sslmode=disable"

	// A proxy of another cluster says yes, and nothing happens here.
	if code, _, errs := apply(file+"- {database: app, table: orders, columns: [id]}\n", "--proxy", at); code != 1 || !strings.Contains(errs, "orders in database app is still not declared here") {
		t.Errorf("a proxy that does nothing: %d %q", code, errs)
	}
	proxy.mu.Lock()
	if got, want := strings.Join(proxy.seen, "\n"), "app: "+first+"\nother: "+second+"\napp: SELECT weft.shard_table('orders', 'id')"; got != want {
		t.Errorf("the proxy saw\n%s\nwant\n%s", got, want)
	}
	fail = errors.New("no such column")
	proxy.mu.Unlock()
	code, out, errs := apply(file+"- {database: app, table: orders, columns: [it's], params: {a: [1, 'b\\\"']}}\n", "--proxy", at)
	if code != 1 || !strings.Contains(errs, "declare orders in database app: ERROR: no such column (SQLSTATE 42P16)\nHINT: Look again.") ||
		!strings.Contains(out, `app: SELECT weft.shard_table('orders', 'it''s', params => `) {
		t.Errorf("a refused one: %d %q %q", code, out, errs)
	}
	expect(file, "nothing to change\n")
	expect(file, "nothing to change\n", "--proxy", at)
	for change, want := range map[string]string{
		"name: tenants": "its vindex is lookup_unique tenants",
		"[tenant]":      "by tenant",
	} {
		text := strings.Replace(file, change, strings.Replace(change, "tenant", "other", 1), 1)
		if code, _, errs := apply(text, "--proxy", at); code != 1 || !strings.Contains(errs, "tables[0]: accounts in database app is declared otherwise: "+want) {
			t.Errorf("%s: %d %q", change, code, errs)
		}
	}
	// A pin says where buckets ought to be. Rows stay where they are until a job carries them.
	where := func() []uint16 {
		t.Helper()
		snap, err := store.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return snap.PlacementOf("app", snap.Table("app", "public", "accounts").Group)
	}
	before := where()
	for _, pins := range []string{"0-40", "0-9"} {
		if code, out, errs := apply(strings.Replace(file, "0-9", pins, 1)); code != 0 || !strings.Contains(out, "pin buckets "+pins+" on b") {
			t.Errorf("another pin: %d %q %q", code, out, errs)
		}
		if !slices.Equal(before, where()) {
			t.Errorf("pin %s: rows of a table are taken to be elsewhere, and nobody has carried them", pins)
		}
	}
	if code, _, errs := apply(file, "--proxy", "mysql:x=y z"); code == 0 || !strings.Contains(errs, "--proxy: cannot parse") {
		t.Errorf("no URL: %d %q", code, errs)
	}
	checkStatus(t, e, store)
}

func checkStatus(t *testing.T, e *embedded.Server, store interface {
	directory.Lookups
	directory.Registry
},
) {
	t.Helper()
	if _, err := store.PutEntries(t.Context(), "tenants", []directory.Entry{{Key: []byte("1")}, {Key: []byte("2")}}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.PinEntry(t.Context(), "tenants", []byte("3"), "b"); err != nil {
		t.Fatal(err)
	}
	out := succeed(t, "status", "--etcd", e.Endpoint(), "--cluster", "main")
	for _, want := range []string{
		`(?m)^SHARD +HOST +ROLE +STATE +TIMELINE +LAG +SYNC +WEIGHT +BUCKETS +SHARE +OPTIONS$`,
		`(?m)^a +127.0.0.1:1 +silent +1 +32 +50.0% *$`,
		`(?m)^b +127.0.0.1:2 +silent +1 +32 \+ 1 own +50.0% *$`,
		`(?m)^0-9 +b$`,
		`(?m)^app +public.accounts +sharded +tenant +lookup_unique tenants +active$`,
		`(?m)^other +shop.Products +reference +active$`,
		`(?m)^tenants +3$`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("status has no %s:\n%s", want, out)
		}
	}
}

// Throttles of a file are made, changed and ended by weft apply, which says so first; those of users stay.
func TestApplyThrottles(t *testing.T) {
	e := testEtcd(t, "127.0.0.1:0")
	store, err := e.Store("main")
	if err != nil {
		t.Fatal(err)
	}
	const cluster = "bucket_count: 64\nshards: [{name: a, hosts: ['127.0.0.1:1']}]\n"
	apply := func(text string, more ...string) (int, string, string) {
		t.Helper()
		return weft(t, append([]string{"apply", "-f", write(t, "cluster.yaml", cluster+text), "--etcd", e.Endpoint(), "--cluster", "main"}, more...)...)
	}
	says := func(text, want string, more ...string) {
		t.Helper()
		if code, out, errs := apply(text, more...); code != 0 || unasked(errs) != "" || !strings.HasSuffix(out, want) {
			t.Errorf("exit code %d, stderr %q\n got %s\nwant %s", code, errs, out, want)
		}
	}
	stored := func() (out []throttle.Rule) {
		t.Helper()
		out, err := store.Throttles(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	const user = "throttles: [{username: report, share: 0.1}]\n"
	says(user, "+ throttle of user report: 10 % of a shard\nnot applied: this was a dry run\n", "--dry-run")
	if list := stored(); len(list) != 0 {
		t.Errorf("a dry run: %+v", list)
	}
	if code, out, errs := apply(user); code != 0 || !strings.Contains(out, "+ throttle of user report: 10 % of a shard\n") {
		t.Errorf("%d, %s, %s", code, out, errs)
	}
	list := stored()
	if len(list) != 1 || list[0].Origin != throttle.Declared || list[0].Lasts != 0 || list[0].By != "weft apply" {
		t.Fatalf("%+v", list)
	}
	id := list[0].ID
	says(user, "nothing to change\n")
	says("", "nothing to change\n")
	manual, err := store.PutThrottle(t.Context(), func([]throttle.Rule) (throttle.Rule, error) {
		r := list[0]
		r.ID, r.Origin, r.Lasts = 0, throttle.Manual, time.Hour
		return r, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	says("throttles: [{username: report, share: 0.2}]\n", "~ throttle of user report: 20 % of a shard\n")
	if list := stored(); len(list) != 2 || list[0].ID != id || list[0].Limit.Share != 0.2 {
		t.Errorf("%+v", list)
	}
	// A key comes with its table, of several columns too.
	const keys = "throttles: [{database: app, table: orders, key: [7, 'a \"b\"'], rate: 5}]\n"
	says(keys, "- throttle of user report: 20 % of a shard\nthe throttle of a key of orders in database app comes when the table is sharded: apply the file again\n")
	table := directory.Table{
		Database: "app", Schema: "public", Name: "orders", Kind: directory.Sharded, Vindex: directory.Vindex{Kind: "composite", Params: map[string]any{"bits": "8"}},
		Columns: []directory.Column{{Name: "id", Type: 20, TypeName: "bigint", Mod: -1}, {Name: "day", Type: 25, TypeName: "text", Mod: -1}},
	}
	if _, err := store.Update(t.Context(), func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		next.PutTable(table)
		return next, nil
	}); err != nil {
		t.Fatal(err)
	}
	says(keys, `+ throttle of key (7,"a ""b""") of orders in database app: 5/s`+"\n")
	for text, want := range map[string]string{
		"key: [7]":          "throttles[0]: the shard key has 2 columns",
		"key: 7":            "throttles[0]: malformed row",
		"key: [seven, day]": "throttles[0]: invalid input syntax for type bigint",
	} {
		if code, _, errs := apply("throttles: [{database: app, table: orders, " + text + ", rate: 5}]\n"); code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%s: %d, %s", text, code, errs)
		}
	}
	// What is exported is what was applied.
	out := succeed(t, "status", "--etcd", e.Endpoint(), "--cluster", "main", "-o", "yaml")
	if code, out, errs := weft(t, "apply", "-f", write(t, "cluster.yaml", out), "--etcd", e.Endpoint(), "--cluster", "main"); code != 0 || out != "nothing to change\n" {
		t.Errorf("%d, %s, %s", code, out, errs)
	}
	says("throttles: []\n", `- throttle of key (7,"a ""b""") of orders in database app: 5/s`+"\n")
	if list := stored(); len(list) != 1 || list[0].ID != manual.ID {
		t.Errorf("%+v", list)
	}
}
