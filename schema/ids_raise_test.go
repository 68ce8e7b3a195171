package schema

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
)

// A proxy that dies while it raises the limit of routed ids leaves no shard whose
// constraint vouches for less than the directory says, and any other finishes.
func TestRaiseIDsDies(t *testing.T) {
	c := newCluster(t)
	c.home("CREATE TABLE r (id bigserial PRIMARY KEY, k bigint NOT NULL); INSERT INTO r (k) SELECT generate_series(1, 30)")
	req := c.request("r", "k")
	req.IDs = "routed"
	name := catalog.Name{Schema: req.Table.Schema, Name: req.Table.Name}
	c.must(c.proxy("first").Shard(c.context(), req, c.notice))
	var steps []string
	dry := c.proxy("dry")
	dry.cfg.step = func(step string) error { steps = append(steps, step); return nil }
	if raised, err := dry.RaiseIDs(c.context(), req.Database, name); !raised || err != nil {
		t.Fatal(raised, err)
	}
	if len(steps) < 3 {
		t.Fatalf("steps %v", steps)
	}
	errDies := errors.New("dies")
	for _, at := range steps {
		c.must(c.proxy("first").Unshard(c.context(), c.request("r", ""), c.notice))
		c.must(c.proxy("first").Shard(c.context(), req, c.notice))
		before := c.table("r").IDs
		dying := c.proxy("dying")
		dying.cfg.step = func(step string) error {
			if step == at {
				return errDies
			}
			return nil
		}
		if _, err := dying.RaiseIDs(c.context(), req.Database, name); !errors.Is(err, errDies) {
			t.Fatalf("%s: %v", at, err)
		}
		now := c.table("r")
		if !now.IDs.Raised || now.IDs.From <= before.From {
			t.Errorf("%s: %+v after %+v", at, now.IDs, before)
		}
		for shard, def := range c.each("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = '" + directory.IDConstraint + "'") {
			if !strings.Contains(def, limitOf(before)) && !strings.Contains(def, limitOf(now.IDs)) {
				t.Errorf("%s: shard %s has %q", at, shard, def)
			}
		}
		c.must(c.proxy("other").SettleIDs(c.context(), *now))
		c.must(c.proxy("other").SettleIDs(c.context(), *now)) // there is nothing left to do
		now = c.table("r")
		if now.IDs.Raised {
			t.Errorf("%s: not settled", at)
		}
		for shard, def := range c.each("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = '" + directory.IDConstraint + "'") {
			if !strings.Contains(def, limitOf(now.IDs)) {
				t.Errorf("%s: shard %s is left with %q", at, shard, def)
			}
		}
	}
	// At last none is routed, and nothing is in the way of any id.
	for range 8 {
		if _, err := dry.RaiseIDs(c.context(), req.Database, name); err != nil && !errors.Is(err, errSuperseded) {
			t.Fatal(err)
		}
	}
	if ids := c.table("r").IDs; ids.From != directory.NoID || ids.Raised {
		t.Errorf("%+v", ids)
	}
	for shard, n := range c.each("SELECT count(*) FROM pg_constraint WHERE conname = '" + directory.IDConstraint + "'") {
		if n != "0" {
			t.Errorf("shard %s still has the constraint", shard)
		}
	}
}

// Whoever is in the way of the lock delays the constraint, not the limit.
func TestRaiseIDsWaits(t *testing.T) {
	c := newCluster(t)
	c.home("CREATE TABLE r (id bigserial PRIMARY KEY, k bigint NOT NULL)")
	req := c.request("r", "k")
	req.IDs = "routed"
	m := c.proxy("first")
	c.must(m.Shard(c.context(), req, c.notice))
	ctx, stop := context.WithCancel(c.context())
	defer stop()
	holder, err := open(ctx, m.cfg.Shards, "home", req.Database, req.User, "holder")
	c.must(err)
	c.must(holder.run("BEGIN", "LOCK TABLE public.r IN ROW EXCLUSIVE MODE"))
	raised, err := m.RaiseIDs(c.context(), req.Database, catalog.Name{Schema: "public", Name: "r"})
	if !raised || pgerr.From(err).Code != pgerr.LockNotAvailable {
		t.Errorf("%v %v", raised, err)
	}
	holder.close()
	c.must(m.SettleIDs(c.context(), *c.table("r")))
	if c.table("r").IDs.Raised {
		t.Error("not settled")
	}
}

func limitOf(ids directory.RoutedIDs) string { return strconv.FormatInt(ids.From, 10) }
