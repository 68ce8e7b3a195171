package tx

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/config"
	"weft/integration/harness"
)

// hall is a database with triggers and functions that notify, on weft and on one
// PostgreSQL, with those who listen.
type hall struct {
	*world
	plain   *stage
	sharded *stage
	far     *pgx.Conn // listens through another proxy than the speaker's
	// unordered: what is heard between two marks is compared in any order.
	unordered bool
}

// stage is one of the two servers: a speaker, who listens too, and others who listen.
type stage struct {
	speaker *pgx.Conn
	others  []*pgx.Conn
}

// voices is what makes notifications, on both.
const voices = `
	create function cry() returns trigger language plpgsql as $$
	begin
		perform pg_notify('news', tg_op || ' ' || new.id || coalesce(' ' || new.note, ''));
		return new;
	end $$;
	create trigger cry after insert or update of note on acct for each row execute function cry();
	create function cry_command() returns trigger language plpgsql as $$
	begin
		if tg_op = 'DELETE' then
			NOTIFY news, 'a row is gone';
		end if;
		return null;
	end $$;
	create trigger cry_command after delete on acct for each row execute function cry_command();
	create function told(id bigint, word text) returns bigint language sql as $$ select pg_catalog.pg_notify('news', word); select id $$;
	create function told_once(word text) returns text language plpgsql as $$ begin perform pg_notify('news', word); return word; end $$;
	create function upset(id bigint, word text) returns bigint language plpgsql as $$
	begin
		perform pg_notify('news', 'before ' || word);
		begin
			perform pg_notify('news', 'undone ' || word);
			raise exception 'no';
		exception when others then
			perform pg_notify('news', 'after ' || word);
		end;
		return id;
	end $$;
	create table slow (id bigint primary key, note text);
	create function cry_late() returns trigger language plpgsql as $$ begin perform pg_notify('news', 'late ' || new.id); return null; end $$;
	create constraint trigger cry_late after insert on slow deferrable initially deferred for each row execute function cry_late()`

func newHall(t *testing.T, db string) *hall {
	w := newWorld(t, db, 2)
	h := &hall{world: w}
	plain := harness.Postgres(t)
	plain.CreateDatabase(t, db)
	bare := plain.Connect(t, "postgres", "dbname="+db)
	must(t, bare, `create table acct (id bigint primary key, balance bigint not null default 1000, note text, at timestamptz default now());
		create table home (id bigint primary key, v int)`)
	must(t, bare, fmt.Sprintf("insert into acct (id) select i from generate_series(1, %d) i", accounts))
	must(t, bare, "insert into home select i, i from generate_series(1, 10) i")
	first := w.conn(0)
	for _, c := range []*pgx.Conn{bare, first} {
		must(t, c, voices)
	}
	must(t, first, "select weft.shard_table('slow', 'id')")
	h.plain = &stage{speaker: bare, others: []*pgx.Conn{plain.Connect(t, "postgres", "dbname="+db)}}
	h.far = w.conn(1)
	h.sharded = &stage{speaker: first, others: []*pgx.Conn{w.conn(0), h.far}}
	for _, s := range []*stage{h.plain, h.sharded} {
		for _, c := range append(slices.Clone(s.others), s.speaker) {
			must(t, c, "listen news")
			must(t, c, `listen "Other News"`)
		}
	}
	return h
}

// heard is what a listener has heard up to a mark. It hears at least so many.
func heard(t *testing.T, c *pgx.Conn, mark string, least int) (out []string) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	for marked := false; !marked || len(out) < least; {
		n, err := c.WaitForNotification(ctx)
		if err != nil {
			t.Fatalf("heard %q, then %v", out, err)
		}
		if n.Payload == mark {
			marked = true
			continue
		}
		payload := n.Payload
		if len(payload) > 100 {
			payload = fmt.Sprintf("%s… of %d bytes", payload[:20], len(payload))
		}
		out = append(out, n.Channel+": "+payload)
	}
	return out
}

// try runs texts on both and compares what is heard.
func (h *hall) try(t *testing.T, texts ...string) {
	t.Helper()
	h.say(t, func(c *pgx.Conn) (codes []string) {
		for _, sql := range texts {
			codes = append(codes, code(exec(c, sql)))
		}
		return codes
	})
}

var marks int

func (h *hall) say(t *testing.T, speak func(c *pgx.Conn) []string) {
	t.Helper()
	marks++
	mark := fmt.Sprintf("mark %d", marks)
	want := speak(h.plain.speaker)
	got := speak(h.sharded.speaker)
	if !slices.Equal(want, got) {
		t.Errorf("codes %q, want %q", got, want)
		_, _ = h.plain.speaker.Exec(context.Background(), "rollback")
		_, _ = h.sharded.speaker.Exec(context.Background(), "rollback")
	}
	must(t, h.plain.speaker, "select pg_notify('news', $1)", mark)
	must(t, h.sharded.speaker, "select pg_notify('news', $1)", mark)
	heard := func(t *testing.T, c *pgx.Conn, least int) []string {
		t.Helper()
		out := heard(t, c, mark, least)
		if h.unordered {
			slices.Sort(out)
		}
		return out
	}
	expected := heard(t, h.plain.speaker, 0)
	for _, c := range h.plain.others {
		if also := heard(t, c, 0); !slices.Equal(also, expected) {
			t.Fatalf("PostgreSQL tells %q and %q", expected, also)
		}
	}
	for i, c := range append(slices.Clone(h.sharded.others), h.sharded.speaker) {
		least := 0
		if c == h.far {
			least = len(expected)
		}
		got, want := heard(t, c, least), expected
		if c == h.far {
			// Transactions on different shards have no order there, and the mark is one: see
			// docs/differences.md.
			got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
		}
		if !slices.Equal(got, want) {
			t.Errorf("listener %d heard %q, want %q", i, got, want)
		}
	}
}

// TestHeard: whatever notifies, on whichever shard, is heard as on one server.
func TestHeard(t *testing.T) {
	h := newHall(t, "heard")
	for i := range shards {
		k := h.keys[i][0]
		t.Run(fmt.Sprintf("shard %d", i), func(t *testing.T) {
			h.try(t, fmt.Sprintf("select pg_notify('news', 'C' || id) from acct where id = %d", k))
			h.try(t, fmt.Sprintf("update acct set balance = balance where id = %d returning pg_notify('news', 'D' || id)", k))
			h.try(t, fmt.Sprintf("update acct set note = 'x' where id = %d", k))
			h.try(t, fmt.Sprintf("insert into acct (id) values (%d)", 1000+k))
			h.try(t, fmt.Sprintf("insert into acct (id) values (%d) returning pg_notify('news', 'E' || id), pg_notify('Other News', 'E')", 2000+k))
			h.try(t, fmt.Sprintf("delete from acct where id = %d", 1000+k))
			h.try(t, fmt.Sprintf("insert into slow values (%d)", k))
		})
	}
}

// TestHeardOfSeveral: a transaction of several shards notifies once, in order, if it is
// committed.
func TestHeardOfSeveral(t *testing.T) {
	h := newHall(t, "heardall")
	a, b, c := h.keys[0][0], h.keys[1][0], h.keys[2][0]
	for _, k := range [][]int64{{a, b}, {b, c}, {c, b}, {a, b, c}, {b}, {a}} {
		var begin []string
		for i, key := range k {
			begin = append(begin, fmt.Sprintf("update acct set note = 'n%d' where id = %d", i, key))
		}
		block := func(texts ...string) []string { return slices.Concat([]string{"begin"}, begin, texts) }
		h.try(t, block("commit")...)
		h.try(t, block("rollback")...)
		h.try(t, block("notify news, 'by the way'", "commit")...)
		h.try(t, block("savepoint s", fmt.Sprintf("update acct set note = 'undone' where id = %d", b), "rollback to s", fmt.Sprintf("update acct set note = 'kept' where id = %d", c), "commit")...)
		h.try(t, block("select no such thing", "commit")...)
		h.try(t, block(append(slices.Clone(begin), "commit")...)...)
		h.try(t, block("update home set v = v", "commit")...)
		h.try(t, block("commit and chain", fmt.Sprintf("update acct set note = 'chained' where id = %d", c), "commit")...)
	}
	h.try(t, fmt.Sprintf("insert into slow values (%d)", a))
	h.sorted(t, fmt.Sprintf("insert into slow values (%d), (%d), (%d)", 1000+a, 1000+b, 1000+c))
	h.sorted(t, "begin", fmt.Sprintf("insert into slow values (%d)", 2000+b), fmt.Sprintf("insert into slow values (%d)", 2000+c), "commit")
	h.sorted(t, "update acct set note = 'all'")
	h.sorted(t, fmt.Sprintf("insert into acct (id) values (%d), (%d), (%d)", 1000+a, 1000+b, 1000+c))
	h.sorted(t, "insert into acct (id, note) select i, repeat('x', 7900) from generate_series(3000, 3020) i")
	h.sorted(t, "delete from acct where id > 1000")
	h.try(t, "begin", fmt.Sprintf("insert into acct (id, note) values (%d, repeat('x', 8000))", 4000+b), "rollback")
	h.sorted(t, "insert into acct (id, note) select i, repeat('x', 8000) from generate_series(3000, 3020) i")
	rows, err := h.sharded.speaker.Query(t.Context(), "select * from weft.schema_diff()")
	if err != nil {
		t.Fatal(err)
	}
	if list, err := pgx.CollectRows(rows, pgx.RowToMap); err != nil || len(list) > 0 {
		t.Errorf("differences %v, %v", list, err)
	}
	h.nothingUsed()
	h.quiet()
}

// sorted runs texts on both and compares what is heard, in whatever order.
func (h *hall) sorted(t *testing.T, texts ...string) {
	t.Helper()
	h.unordered = true
	h.try(t, texts...)
	h.unordered = false
}

// TestListenWithoutShard: a shard that is down ends those who listen, keeps nobody from
// listening again, who is told, and whoever may have missed something is sent away when the
// shard is back.
func TestListenWithoutShard(t *testing.T) {
	w := newWorld(t, "deaf", 1)
	down := w.proxies[0].Shards()[1]
	first := w.conn(0)
	must(t, first, "listen news")
	gone := func(c *pgx.Conn) error {
		ctx, stop := context.WithTimeout(context.Background(), patience)
		defer stop()
		_, err := c.WaitForNotification(ctx)
		return err
	}
	down.Kill()
	fails(t, gone(first), "08006")

	var notices []string
	cfg, err := pgx.ParseConfig(w.proxies[0].ConnString("postgres", "dbname="+w.db))
	if err != nil {
		t.Fatal(err)
	}
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { notices = append(notices, n.Severity+" "+n.Message) }
	second, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Close(context.Background()) }()
	must(t, second, "listen news")
	if len(notices) != 1 || notices[0] != "WARNING notifications of shard "+harness.Snapshot(t).Shards[1].Name+" are not heard" {
		t.Errorf("told %q", notices)
	}
	must(t, w.conn(0), "notify news, 'still there'")
	if n, err := second.WaitForNotification(t.Context()); err != nil || n.Payload != "still there" {
		t.Errorf("heard %v, %v", n, err)
	}
	if err := down.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	fails(t, gone(second), "08006")
	third := w.conn(0)
	must(t, third, "listen news")
	within(t, "the shard can be written to", func() bool { return exec(w.conn(0), take, w.keys[1][0]) == nil })
	must(t, w.conn(0), "select pg_notify('news', 'back') from acct where id = $1", w.keys[1][0])
	if n, err := third.WaitForNotification(t.Context()); err != nil || n.Payload != "back" {
		t.Errorf("heard %v, %v", n, err)
	}
}

// TestListenBeforeDeclaration: who listens since before a first table is declared hears what is notified
// on the shards that it gets.
func TestListenBeforeDeclaration(t *testing.T) {
	target := harness.StartWeft(t, func(*config.Config) {})
	target.CreateDatabase(t, "early")
	listener, c := target.Connect(t, "postgres", "dbname=early"), target.Connect(t, "postgres", "dbname=early")
	must(t, listener, "listen news")
	must(t, c, "create table t (id int primary key)")
	must(t, c, "insert into t select generate_series(1, 20)")
	must(t, c, "select weft.shard_table('t', 'id')")
	for i := range 20 {
		must(t, c, "select pg_notify('news', id::text) from t where id = $1", i+1)
		if err := func() error {
			ctx, stop := context.WithTimeout(context.Background(), patience)
			defer stop()
			n, err := listener.WaitForNotification(ctx)
			if err == nil && n.Payload != fmt.Sprint(i+1) {
				err = fmt.Errorf("heard %q", n.Payload)
			}
			return err
		}(); err != nil {
			t.Fatal(err)
		}
	}
}
