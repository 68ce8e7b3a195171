package lossy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/directory"
	"weft/primary"
)

// metrics returns those of a proxy.
func (w *world) metrics(proxy int) string {
	w.Helper()
	resp, err := http.Get("http://" + w.proxies[proxy].Server.HTTPAddr().String() + "/metrics")
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return string(b)
}

// TestDurability: a shard that is not as durable as declared is told of, and transactions of several shards are refused if that is enforced.
func TestDurability(t *testing.T) {
	w := newWorld(t)
	c := w.connect(0)
	transfer := func() error {
		w.must(c, "begin")
		for _, k := range w.keys {
			w.must(c, fmt.Sprintf("update t set v = v + 1 where k = %d", k))
		}
		_, err := c.Exec(w.within(), "commit")
		return err
	}
	declare := func(d primary.Durability, enforced bool) {
		t.Helper()
		if _, err := w.store.Update(w.within(), func(old *directory.Snapshot) (*directory.Snapshot, error) {
			next := old.Clone()
			next.Durability, next.DurabilityEnforced = d, enforced
			return next, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	// told waits until weft.shards says of the shards whether they are durable.
	told := func(want ...string) {
		t.Helper()
		got := ""
		w.await(fmt.Sprintf("weft.shards to say %q", want), func() bool {
			if err := c.QueryRow(w.within(), "select string_agg(coalesce(durable::text, 'null') || coalesce(' ' || durable_lacks, ''), '; ' order by name) from weft.shards").Scan(&got); err != nil {
				t.Fatal(err)
			}
			return got == strings.Join(want, "; ")
		})
	}
	told("null", "null")
	declare(primary.Atomic, true)
	lacks := "false synchronous_standby_names is empty"
	told(lacks, lacks)
	var e *pgconn.PgError
	if err := transfer(); !errors.As(err, &e) || e.Code != "55000" || !strings.Contains(e.Detail, "synchronous_standby_names is empty") || e.Hint == "" {
		t.Fatalf("COMMIT: %v, %+v", err, e)
	}
	w.must(c, "rollback")
	w.must(c, fmt.Sprintf("update t set v = v + 10 where k = %d", w.keys[1])) // one shard
	w.synchronous(0)
	told("true", lacks)
	if err := transfer(); !errors.As(err, &e) || !strings.Contains(e.Message, "shop-1") {
		t.Fatalf("COMMIT: %v", err)
	}
	w.must(c, "rollback")
	w.synchronous(1)
	told("true", "true")
	if err := transfer(); err != nil {
		t.Fatal(err)
	}
	if n := value[int](w, w.shards[1].a.Server, fmt.Sprintf("select v from t where k = %d", w.keys[1])); n != 11 {
		t.Errorf("the row is %d, want 11", n)
	}
	w.must(c, "alter role postgres set synchronous_commit = local") // on all shards
	declare(primary.Synchronous, false)
	told("false synchronous_commit is local for role postgres", "false synchronous_commit is local for role postgres")
	if m := w.metrics(0); !strings.Contains(m, `weft_shard_durable{shard="shop-1"} 0`) {
		t.Error("/metrics has no weft_shard_durable of shop-1")
	}
	if err := transfer(); err != nil {
		t.Errorf("COMMIT where durability is not enforced: %v", err)
	}
}
