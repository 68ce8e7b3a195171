package primary

import (
	"context"
	"testing"

	"weft/config"
	"weft/directory"
	"weft/handover"
	"weft/pgserver"
	"weft/primary"
	"weft/server"
)

// accept says that a server of shop-1 is right, as weft shard accept does.
func (w *world) accept(s *pgserver.Server) error {
	w.t.Helper()
	servers, err := server.NewServers(w.config)
	if err != nil {
		w.t.Fatal(err)
	}
	sh := handover.Shard{Directory: w.store, Name: "shop-1"}
	_, err = sh.Accept(w.within(), s.Addr(), func(ctx context.Context, sh *directory.Shard) (primary.Sighting, error) {
		return servers.Sight(ctx, sh, s.Addr())
	})
	return err
}

// TestAccept: of two primaries of one timeline the one that an operator accepts is used, by all proxies, and the other one gets nothing any more.
func TestAccept(t *testing.T) {
	w := newWorld(t, func(c *config.Config) { c.Failover.Wait = 0 })
	other := w.split()
	clients := [2]int{0, 1}
	for _, i := range clients {
		w.await("a refusal of the split", func() bool {
			_, err := w.connect(i).Exec(w.within(), write(w.there))
			return code(err) == "57P03"
		})
	}
	value := func(s *pgserver.Server) int { return w.ask(s, "select sum(v) from t") }
	right, wrong := other, w.b // b was used before the split
	for range 2 {
		before, kept := value(right), value(wrong)
		if err := w.accept(right); err != nil {
			t.Fatal(err)
		}
		for _, i := range clients {
			c := w.connect(i)
			w.await("a write", func() bool {
				_, err := c.Exec(w.within(), write(w.there))
				return err == nil
			})
			w.must(c, write(w.there))
			w.shown(c, "select state from weft.replicas where address = '"+wrong.Addr()+"'", "stale")
			w.shown(c, "select primary_address from weft.shards where name = 'shop-1'", right.Addr())
		}
		if n, m := value(right), value(wrong); n != before+4 || m != kept {
			t.Errorf("%d writes at the accepted server, %d at the other one", n-before, m-kept)
		}
		right, wrong = wrong, right // the operator changes the ruling
	}
	if err := w.accept(w.a.Server); err == nil {
		t.Error("a server that is down is accepted")
	}
	right, wrong = wrong, right // as accepted last
	kept := value(wrong)
	right.Kill()
	for _, i := range clients {
		if _, err := w.connect(i).Exec(w.within(), write(w.there)); err == nil {
			t.Error("a write succeeds without the accepted server")
		}
	}
	if value(wrong) != kept {
		t.Error("the server that was decided against was written to")
	}
}
