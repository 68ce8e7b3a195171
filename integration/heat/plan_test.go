package heat

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/config"
	"weft/integration/harness"
)

// keysOn are the accounts whose rows are on a shard.
func (w *world) keysOn(shard int) []int64 {
	w.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	c, err := pgx.Connect(ctx, w.proxies[0].Shards()[shard].ConnString("postgres")+" dbname="+w.db)
	if err != nil {
		w.Fatal(err)
	}
	defer c.Close(ctx)
	rows, _ := c.Query(ctx, "select id from acct order by id")
	list, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil || len(list) == 0 {
		w.Fatalf("shard %d has %d accounts: %v", shard, len(list), err)
	}
	return list
}

// press keeps clients busy with accounts of one shard until the test ends: more clients than the shard has connections.
func (w *world) press(clients int, ids []int64) {
	w.Helper()
	for i := range clients {
		r := rand.New(rand.NewPCG(9, uint64(i)))
		w.each(i, func(ctx context.Context, c *pgx.Conn) error {
			_, err := c.Exec(ctx, "select n, pg_sleep(0.02) from acct where id = $1", ids[r.IntN(len(ids))])
			return stoodStill(c, err, nil)
		})
	}
}

// each runs a client until the test ends.
func (w *world) each(i int, next func(ctx context.Context, c *pgx.Conn) error) {
	w.Helper()
	c := w.conn(i%len(w.proxies), "postgres", "default_query_exec_mode=simple_protocol")
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := next(context.Background(), c); err != nil {
				w.Errorf("client %d: %v", i, err)
				return
			}
		}
	}()
	w.Cleanup(func() { stop(); <-done })
}

// patient is narrow, and lets clients wait: they are to press on the shard.
func patient(plan string) func(*config.Config) {
	return func(c *config.Config) {
		narrow(c)
		c.Pool.OverloadWait, c.Heat.Plan = 0, plan
	}
}

// What weft.plan_heat prints for a shard that many keys saturate can be run as it is, and relieves the shard. The
// warning about the shard has the same SQL.
func TestPlanHeat(t *testing.T) {
	w := worldOf(t, "planheat", harness.StartWatchful(t, time.Second, patient(config.PlanAdvise)))
	c := w.conn(0, "postgres")
	if rows := w.answer(c, "select * from weft.plan_heat()"); len(rows) != 0 {
		t.Errorf("nothing is hot: %v", rows)
	}
	if _, err := w.conn(0, "alice").Exec(t.Context(), "select * from weft.plan_heat()"); err == nil || !strings.Contains(err.Error(), "42501") {
		t.Errorf("alice: %v", err)
	}
	w.press(12, w.keysOn(1))
	w.await("the SQL in the warning", func() (any, bool) {
		rows := w.rows(c, "select * from weft.warnings where object = 'shard shard-1'")
		return rows, len(rows) == 1 && strings.HasPrefix(fmt.Sprint(rows[0]["sql"]), "SELECT weft.move_buckets(") && strings.Contains(rows[0]["advice"].(string), "weft.plan_heat()")
	})
	before, sql := w.places(), ""
	w.await("a plan", func() (any, bool) {
		rows, err := w.ask(c, "select * from weft.plan_heat()")
		if err != nil {
			return err, false
		}
		for _, r := range rows {
			if r["action"] == "move" && r["from_shard"] == "shard-1" && r["to_shard"] == "shard-0" && strings.Contains(r["reason"].(string), "has more work than it can do") && r["from_before"].(string) > r["from_after"].(string) {
				sql = r["sql"].(string)
			}
		}
		return rows, sql != ""
	})
	t.Log(sql)
	w.wait(c, w.answer(c, sql))
	moved := 0
	for b, at := range w.places() {
		if at != before[b] {
			moved++
			if before[b] != "shard-1" || at != "shard-0" {
				t.Errorf("bucket %d has gone from %s to %s", b, before[b], at)
			}
		}
	}
	if moved == 0 {
		t.Error("nothing has moved")
	}
	if rows := w.rows(c, "select state, reason, username from weft.moves"); len(rows) != 1 || rows[0]["state"] != "done" {
		t.Errorf("weft has moved something by itself: %v", rows)
	}
	if sum := w.rows(c, "select count(*) as n from acct")[0]; sum["n"] != int64(keys) {
		t.Errorf("%v", sum)
	}
}

// With heat.plan auto, weft moves buckets off a shard that many keys saturate, and says so in weft.moves. A bucket that is hot
// because of one key stays.
func TestPlanAuto(t *testing.T) {
	var proxies []*harness.Target
	for range 2 {
		proxies = append(proxies, harness.StartWatchful(t, time.Second, patient(config.PlanAuto)))
	}
	w := worldOf(t, "planauto", proxies...)
	c := w.conn(1, "postgres")
	ids := w.keysOn(1)
	hot := ids[0]
	before := w.places()
	w.press(20, ids)
	for i := range 5 { // a fifth of the work
		w.each(i, func(ctx context.Context, c *pgx.Conn) error {
			_, err := c.Exec(ctx, "select n, pg_sleep(0.02) from acct where id = $1", hot)
			return stoodStill(c, err, nil)
		})
	}
	place := w.bucketOf(c, int(hot))
	var job map[string]any
	w.await("a job of weft's own", func() (any, bool) {
		rows := w.rows(c, "select * from weft.moves order by started limit 1")
		if len(rows) == 1 {
			job = rows[0]
		}
		return rows, len(rows) == 1 && job["state"] == "done"
	})
	if job["username"] != "weft (heat.plan)" || job["kind"] != "rebalance" || !strings.Contains(fmt.Sprint(job["reason"]), "shard-1 has more work than it can do") {
		t.Errorf("%v", job)
	}
	moved := 0
	for b, at := range w.places() {
		if at == before[b] {
			continue
		}
		moved++
		if before[b] != "shard-1" || b == place {
			t.Errorf("bucket %d has gone from %s to %s; the hot key is in bucket %d", b, before[b], at, place)
		}
	}
	if moved == 0 {
		t.Error("nothing has moved")
	}
	if sum := w.rows(c, "select count(*) as n from acct")[0]; sum["n"] != int64(keys) {
		t.Errorf("%v", sum)
	}
}
