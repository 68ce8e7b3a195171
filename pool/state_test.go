package pool

import (
	"slices"
	"testing"

	"weft/wire"
)

// fresh returns a Conn as dial makes it, without a server.
func fresh() *Conn {
	c := &Conn{Stream: &wire.Stream{}, status: wire.TxIdle, params: map[string]string{}, lane: &Lane{shard: &Shard{pool: &Pool{}}}}
	c.prepared.reset()
	return c
}

// TestTransactionState: the state is what ReadyForQuery says, but for a transaction that is on its
// way, and a ReadyForQuery answers the BEGIN.
func TestTransactionState(t *testing.T) {
	c := fresh()
	for _, step := range []struct {
		event   string
		do      func()
		status  byte
		opening bool
	}{
		{"dialled", func() {}, wire.TxIdle, false},
		{"BEGIN without a ReadyForQuery", c.Began, wire.TxActive, false},
		{"ready", func() { c.Ready(wire.TxActive) }, wire.TxActive, false},
		{"failed", func() { c.Ready(wire.TxFailed) }, wire.TxFailed, false},
		{"rolled back", func() { c.Ready(wire.TxIdle) }, wire.TxIdle, false},
		{"BEGIN as a query", c.BeginSent, wire.TxIdle, true},
		{"BEGIN answered", func() { c.Ready(wire.TxActive) }, wire.TxActive, false},
		{"COMMIT", func() { c.Ready(wire.TxIdle) }, wire.TxIdle, false},
		{"BEGIN as a query, again", c.BeginSent, wire.TxIdle, true},
		{"not sent", c.BeginWithdrawn, wire.TxIdle, false},
	} {
		step.do()
		if c.Status() != step.status || c.Opening() != step.opening {
			t.Errorf("%s: %c, opening %v", step.event, c.Status(), c.Opening())
		}
	}
}

// TestUnnamedStatement: a message that the backend skips gives back the statement before it.
func TestUnnamedStatement(t *testing.T) {
	c := fresh()
	c.ParsedUnnamed(7)
	before := c.UnnamedBy()
	if c.ParsedUnnamed(8); c.UnnamedBy() != 8 || before != 7 {
		t.Errorf("%d, before %d", c.UnnamedBy(), before)
	}
	if c.UnnamedBack(before); c.UnnamedBy() != 7 {
		t.Errorf("skipped: %d", c.UnnamedBy())
	}
	if c.UnnamedGone(); c.UnnamedBy() != 0 {
		t.Errorf("gone: %d", c.UnnamedBy())
	}
}

// TestStalePortal: the portal is stale only between a query that has failed and a Bind that has
// not been skipped, and only in the transaction that failed.
func TestStalePortal(t *testing.T) {
	c := fresh()
	for _, failed := range []bool{false, true} {
		for _, bound := range []string{"", "bound", "skipped"} {
			for _, status := range []byte{wire.TxIdle, wire.TxActive, wire.TxFailed} {
				c.stalePortal = false
				if failed {
					c.QueryFailed()
				}
				c.Ready(status)
				if bound != "" {
					if was := c.BoundUnnamed(); was != failed {
						t.Errorf("failed %v: Bind finds %v", failed, was)
					} else if was && bound == "skipped" {
						c.UnboundStale()
					}
				}
				if want := failed && bound != "bound" && status == wire.TxFailed; c.StalePortal() != want {
					t.Errorf("failed %v, %q, %c: %v", failed, bound, status, c.StalePortal())
				}
			}
		}
	}
}

// TestSoleSession: a backend's sequence values belong to one session until another uses it.
func TestSoleSession(t *testing.T) {
	for _, tc := range []struct {
		users []int32 // 0 for DISCARD SEQUENCES
		want  int32
	}{
		{nil, 0},
		{[]int32{4}, 4},
		{[]int32{4, 4}, 4},
		{[]int32{4, 5}, -1},
		{[]int32{4, 5, 4}, -1},
		{[]int32{4, 5, 0}, 0},
		{[]int32{4, 5, 0, 4}, 4},
	} {
		c := fresh()
		for _, u := range tc.users {
			if u == 0 {
				c.SequencesDiscarded()
			} else {
				c.UsedBy(u)
			}
		}
		if c.SoleSession() != tc.want {
			t.Errorf("%v: %d", tc.users, c.SoleSession())
		}
	}
}

// TestUntold: a parameter is due once, with its last value, and not if the client was told.
func TestUntold(t *testing.T) {
	c := fresh()
	report := func(name, value string) {
		c.NoteParameter(wire.AppendParameterStatus(nil, name, value)[wire.HeaderLen:])
	}
	c.Told("TimeZone", "UTC")
	if v, ok := c.Param("TimeZone"); v != "UTC" || !ok || c.Untold() {
		t.Errorf("told: %q %v, untold %v", v, ok, c.Untold())
	}
	report("a", "1")
	report("b", "2")
	report("a", "3")
	c.NoteParameter([]byte("malformed"))
	if names := c.TakeUntold(); !slices.Equal(names, []string{"a", "b"}) || c.Untold() {
		t.Errorf("%q, then %v", names, c.Untold())
	}
	if v, _ := c.Param("a"); v != "3" {
		t.Errorf("a is %q", v)
	}
	if _, ok := c.Param("malformed"); ok {
		t.Error("a malformed report counts")
	}
	if report("b", "4"); !slices.Equal(c.TakeUntold(), []string{"b"}) {
		t.Error("b is not due again")
	}
}

// TestFlags: the events that mark a backend, and those that unmark it.
func TestFlags(t *testing.T) {
	c := fresh()
	for name, f := range map[string]struct {
		is       func() bool
		set, end func()
	}{
		"touched":   {c.Touched, c.Touch, c.Checked},
		"shown":     {c.Shown, c.Show, c.Hidden},
		"listening": {c.Listening, c.Listened, c.Unlistened},
	} {
		before := f.is()
		f.set()
		f.set()
		during := f.is()
		f.end()
		if before || !during || f.is() {
			t.Errorf("%s: %v, %v, %v", name, before, during, f.is())
		}
	}
}

// TestDiscardedAll: DISCARD ALL leaves what PostgreSQL leaves: custom parameters stay known.
func TestDiscardedAll(t *testing.T) {
	c := fresh()
	st := &Statement{Name: "s"}
	c.MarkPrepared(st)
	c.NoteSettings((*Settings)(nil).With("timezone", "UTC"))
	c.NotePlaceholder("my.x")
	c.NoteOrigin(Origin{Server: "1/2"})
	c.Listened()
	c.UsedBy(3)
	c.DiscardedAll()
	if c.Prepared(st) || !c.Settings().Equal(nil) || c.Listening() || c.SoleSession() != 0 {
		t.Errorf("prepared %v, settings %v, listening %v, session %d", c.Prepared(st), c.Settings().All(), c.Listening(), c.SoleSession())
	}
	if c.compatible(nil) || !c.compatible(map[string]bool{"my.x": true, "my.y": true}) || c.Origin().Server != "1/2" {
		t.Errorf("the custom parameter or the server %q is forgotten", c.Origin().Server)
	}
}

// TestLent: a backend knows the drains before it was lent.
func TestLent(t *testing.T) {
	c := fresh()
	c.lane.shard.pool.drains.Add(3)
	c.Lent()
	if c.lane.shard.pool.drains.Add(1); c.LentAt() != 3 {
		t.Errorf("lent at drain %d", c.LentAt())
	}
}
