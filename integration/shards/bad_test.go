package shards

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/integration/harness"
)

// TestBadShards: servers that cannot join, and shards that cannot leave, are refused with a reason,
// and nothing is left behind.
func TestBadShards(t *testing.T) {
	w := newWorld(t, "bad", 1)
	c := w.conn(0)
	home := harness.Snapshot(t).Shards[0].Hosts[0]

	w.refused(c, "22023", "host:port", "select weft.add_shard('shard-9', 'nowhere')")
	w.refused(c, "22023", "lower-case", "select weft.add_shard('Shard 9', '127.0.0.1:1')")
	w.refused(c, "22023", "already belongs", "select weft.add_shard('shard-9', $1)", home)
	w.refused(c, "55000", `it is the server of shard "shard-0"`, "select weft.add_shard('shard-9', $1)", strings.Replace(home, "127.0.0.1", "localhost", 1))
	w.refused(c, "42710", "already exists", "select weft.add_shard('shard-1', '127.0.0.1:1')")
	w.refused(c, "22023", "weight", "select weft.add_shard('shard-9', '127.0.0.1:1', weight => 'heavy')")
	if _, err := c.Exec(context.Background(), "select weft.add_shard('shard-9', '127.0.0.1:1')"); err == nil {
		t.Error("a server that does not answer has joined")
	}

	full := harness.EmptyServer(t, nil)
	d, err := pgx.Connect(context.Background(), full.ConnString("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close(context.Background())
	w.must(d, "create table mine (id int)")
	w.refused(c, "55000", "1 relations, public.mine among them", "select weft.add_shard('shard-9', $1)", full.Addr())
	w.must(d, "drop table mine")
	w.must(d, "create database bad encoding 'SQL_ASCII' lc_collate 'C' lc_ctype 'C' template template0")
	w.refused(c, "55000", "encoding SQL_ASCII", "select weft.add_shard('shard-9', $1)", full.Addr())
	w.refused(c, "55000", "prepared transactions are disabled", "select weft.add_shard('shard-9', $1)",
		harness.EmptyServer(t, map[string]string{"max_prepared_transactions": "0"}).Addr())

	w.refused(c, "42704", "does not exist", "select weft.drain_shard('shard-9')")
	w.refused(c, "42704", "does not exist", "select weft.remove_shard('shard-9')")
	w.refused(c, "42704", "does not exist", "select weft.set_shard_state('shard-9', 'active')")
	w.refused(c, "22023", "no state", "select weft.set_shard_state('shard-1', 'lazy')")
	w.refused(c, "55000", "home shard", "select weft.remove_shard('shard-0')")
	w.refused(c, "0A000", "home shard", "select weft.set_shard_state('shard-0', 'read_only')")
	w.refused(c, "55000", "32 buckets", "select weft.remove_shard('shard-1')")
	if len(harness.Snapshot(t).Shards) != 2 {
		t.Error("shards have changed")
	}
	w.settled(c)
}

// TestShardStates: a shard that is read only refuses writes of its rows, and one that is drained
// takes no buckets.
func TestShardStates(t *testing.T) {
	w := newWorld(t, "states", 2)
	c, other := w.conn(0), w.conn(1)
	snap := harness.Snapshot(t)
	here, there := 0, 0 // accounts on shard-0 and on shard-1
	for i := 1; i <= accounts && (here == 0 || there == 0); i++ {
		d, err := pgx.Connect(context.Background(), "postgres://postgres@"+snap.Shards[1].Hosts[0]+"/states?sslmode=disable")
		if err != nil {
			t.Fatal(err)
		}
		if value[bool](w, d, "select exists (select from acct where id = $1)", i) {
			there = i
		} else {
			here = i
		}
		_ = d.Close(context.Background())
	}
	state := func(want string) {
		t.Helper()
		if got := value[string](w, c, "select state from weft.shards where name = 'shard-1'"); got != want {
			t.Errorf("weft.shards says that the shard is %s, want %s", got, want)
		}
	}
	state("active")
	w.must(c, "select weft.set_shard_state('shard-1', 'read_only')")
	state("read_only")
	for _, c := range []*pgx.Conn{c, other} {
		w.must(c, "update acct set note = 'x' where id = $1", here)
		w.refused(c, "25006", "read only", "update acct set note = 'x' where id = $1", there)
		w.refused(c, "25006", "read only", "update acct set note = 'x'")
		w.refused(c, "25006", "read only", "insert into rate values ('new', 1)")
		if n := value[int](w, c, "select count(*) from acct where id = any(array[$1, $2]::bigint[])", here, there); n != 2 {
			t.Errorf("%d of 2 accounts", n)
		}
		if id := value[int](w, c, "select id from acct where id = $1", there); id != there {
			t.Errorf("account %d is %d", there, id)
		}
	}
	w.refused(c, "55000", "takes no buckets", "select weft.move_buckets('0', 'shard-1')")
	w.must(c, "select weft.set_shard_state('shard-1', 'draining')")
	state("draining")
	w.must(c, "update acct set note = 'y' where id = $1", there)
	w.refused(c, "55000", "takes no buckets", "select weft.move_buckets('0', 'shard-1')")
	for _, r := range values(w, c, "select * from weft.drain_shard('shard-1')") {
		w.must(c, "select weft.wait_move($1)", r["job"])
	}
	if got := w.spread(); got["shard-0"] != 64 {
		t.Errorf("buckets: %v", got)
	}
	if n := value[int](w, c, "select buckets from weft.shards where name = 'shard-1'"); n != 0 {
		t.Errorf("weft.shards says that %d buckets are left", n)
	}
	state("empty")
	w.must(c, "select weft.set_shard_state('shard-1', 'active')")
	w.must(c, "select weft.wait_move($1)", value[string](w, c, "select weft.rebalance('buckets', 0.01)"))
	if got := w.spread(); got["shard-1"] < 30 {
		t.Errorf("buckets: %v", got)
	}
	w.settled(c)
}
