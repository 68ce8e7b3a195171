package hub

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/pgserver/pgtest"
	"weft/wire"
)

// cluster is a few shards that take LISTEN and NOTIFY, without PostgreSQL.
type cluster struct {
	mu     sync.Mutex
	snap   *directory.Snapshot
	down   map[string]bool
	ears   map[string]*shard // the ears that are connected
	dialed []string          // shard and user of all that were
}

// shard is the other end of an ear.
type shard struct {
	conn net.Conn
	mu   sync.Mutex
	said []string
	mute bool
}

type backend struct {
	*wire.Stream
}

func (b backend) Terminate()           { _ = b.Close() }
func (b backend) Discard()             { _ = b.Close() }
func (b backend) Lost(err error) error { return pgerr.New(pgerr.ConnectionFailure, "lost: %v", err) }

func newCluster(t *testing.T, tables bool, shards ...string) (*cluster, *Hubs) {
	t.Helper()
	c := &cluster{snap: &directory.Snapshot{Home: shards[0]}, down: map[string]bool{}, ears: map[string]*shard{}}
	for _, name := range shards {
		c.snap.Shards = append(c.snap.Shards, directory.Shard{Name: name})
	}
	if tables {
		c.snap.Tables = []directory.Table{{Database: "app", Schema: "public", Name: "t"}}
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	h := New(Config{
		Context: ctx, Log: slog.New(slog.DiscardHandler), ServiceUser: "service",
		Snapshot: func() *directory.Snapshot { c.mu.Lock(); defer c.mu.Unlock(); return c.snap },
		Dial:     c.dial,
		Sender:   func(_ string, pid int32) int32 { return pid + 1000 },
		Spawn:    func(f func()) { wg.Go(f) },
		Guarded:  func(f func()) func() { return f },
	})
	t.Cleanup(func() {
		h.Close()
		stop()
		wg.Wait()
	})
	return c, h
}

func (c *cluster) dial(_ context.Context, name, _, user string) (Backend, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down[name] {
		return nil, errors.New("connection refused")
	}
	here, there := net.Pipe()
	s := &shard{conn: there}
	c.ears[name] = s
	c.dialed = append(c.dialed, name+" as "+user)
	go s.serve()
	return backend{wire.NewStream(here)}, nil
}

// serve answers queries until the ear hangs up.
func (s *shard) serve() {
	stream := wire.NewStream(s.conn)
	for {
		_, body, err := stream.Next(1 << 20)
		if err != nil {
			_ = s.conn.Close()
			return
		}
		text, _, _ := wire.CString(body)
		s.mu.Lock()
		if len(text) > 0 {
			s.said = append(s.said, string(text))
		}
		mute := s.mute
		s.mu.Unlock()
		stream.Consume(wire.HeaderLen + len(body))
		if !mute {
			_, _ = s.conn.Write(wire.AppendReadyForQuery(nil, wire.TxIdle))
		}
	}
}

func (c *cluster) ear(name string) *shard {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ears[name]
}

func (c *cluster) commands(name string) string {
	s := c.ear(name)
	if s == nil {
		return "none"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.said, " ")
}

func (c *cluster) notify(name, channel, payload string) {
	_, _ = c.ear(name).conn.Write(wire.AppendNotification(nil, 7, channel, payload))
}

// client is a session.
type client struct {
	mu     sync.Mutex
	heard  []string
	full   bool
	killed chan *pgerr.Error
	woken  chan struct{}
}

func newClient() *client {
	return &client{killed: make(chan *pgerr.Error, 4), woken: make(chan struct{}, 100)}
}

func (c *client) Put(frame []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.full {
		return false
	}
	pid, channel, payload, _ := wire.DecodeNotification(frame[wire.HeaderLen:])
	if pid != 1007 {
		channel += " of the wrong session"
	}
	c.heard = append(c.heard, channel+"="+payload)
	return true
}
func (c *client) Wake()               { c.woken <- struct{}{} }
func (c *client) Kill(e *pgerr.Error) { c.killed <- e }

func (c *client) all() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.heard, " ")
}

func listen(t *testing.T, h *Hub, c *client, channels ...string) {
	t.Helper()
	set := map[string]bool{}
	for _, ch := range channels {
		set[ch] = true
	}
	unheard, err := h.Set(c, "ann", set)
	if err != nil || len(unheard) > 0 {
		t.Fatalf("%v, %v", unheard, err)
	}
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(pgtest.Patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if f() {
			return
		}
	}
	t.Fatal(what)
}

// TestDelivers: what any shard says reaches those who listen to the channel, and no one
// else.
func TestDelivers(t *testing.T) {
	c, hubs := newCluster(t, true, "a", "b")
	h, one, two := hubs.Of("app"), newClient(), newClient()
	if hubs.Of("app") != h {
		t.Error("a database has two hubs")
	}
	listen(t, h, one, "news", `odd"name`)
	listen(t, h, two, "news")
	c.notify("a", "news", "1")
	c.notify("b", "news", "2")
	c.notify("b", "other", "3")
	c.notify("a", `odd"name`, "4")
	h.Sync()
	eventually(t, "not all heard", func() bool { return len(strings.Fields(one.all())) == 3 && len(strings.Fields(two.all())) == 2 })
	c.mu.Lock()
	slices.Sort(c.dialed)
	if got := strings.Join(c.dialed, ", "); got != "a as ann, b as service" {
		t.Errorf("dialed %s", got)
	}
	c.mu.Unlock()
	if got := c.commands("b"); !strings.Contains(got, `LISTEN "news";`) || !strings.Contains(got, `LISTEN "odd""name";`) {
		t.Errorf("b was told %s", got)
	}
}

// TestOneShard: while no table is declared, the home shard is enough.
func TestOneShard(t *testing.T) {
	c, hubs := newCluster(t, false, "a", "b")
	listen(t, hubs.Of("app"), newClient(), "news")
	if c.ear("b") != nil {
		t.Error("there is an ear on b")
	}
}

// TestStops: a channel that no session wants any more is given up, and the ears go with
// the last session.
func TestStops(t *testing.T) {
	c, hubs := newCluster(t, false, "a")
	h, one, two := hubs.Of("app"), newClient(), newClient()
	listen(t, h, one, "x", "y")
	listen(t, h, two, "x")
	listen(t, h, one, "x")
	if got := c.commands("a"); !strings.HasSuffix(got, `UNLISTEN "y";`) {
		t.Error(got)
	}
	h.Forget(one)
	if got := c.commands("a"); strings.Contains(got, `UNLISTEN "x"`) {
		t.Error(got)
	}
	h.Forget(two)
	eventually(t, "the ear stays", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.ears) == 0
	})
	listen(t, h, one, "x")
	c.notify("a", "x", "again")
	eventually(t, "nothing is heard by a new ear", func() bool { return one.all() == "x=again" })
}

// TestLostEar: a session whose ear is lost is ended and told so.
func TestLostEar(t *testing.T) {
	c, hubs := newCluster(t, true, "a", "b")
	h, one := hubs.Of("app"), newClient()
	listen(t, h, one, "x")
	_ = c.ear("b").conn.Close()
	if e := <-one.killed; e.Code != pgerr.ConnectionFailure || !strings.Contains(e.Detail, "shard b") {
		t.Error(e)
	}
}

// TestMuteEar: an ear that does not answer a command in time is lost.
func TestMuteEar(t *testing.T) {
	before := earAnswer
	earAnswer = 50 * time.Millisecond
	defer func() { earAnswer = before }()
	c, hubs := newCluster(t, false, "a")
	h, one := hubs.Of("app"), newClient()
	listen(t, h, one, "x")
	c.ear("a").mu.Lock()
	c.ear("a").mute = true
	c.ear("a").mu.Unlock()
	if _, err := h.Set(one, "ann", map[string]bool{"x": true, "y": true}); err == nil {
		t.Error("the command was answered")
	}
	<-one.killed
}

// TestUnreachable: a session is told which shards it does not hear, and is ended when
// they can be heard, as it may have missed something. Without the home shard there is no
// LISTEN.
func TestUnreachable(t *testing.T) {
	c, hubs := newCluster(t, true, "a", "b")
	h, one := hubs.Of("app"), newClient()
	c.down["b"] = true
	unheard, err := h.Set(one, "ann", map[string]bool{"x": true})
	if err != nil || !slices.Equal(unheard, []string{"b"}) {
		t.Fatalf("%v, %v", unheard, err)
	}
	hubs.Follow(c.snap)
	c.mu.Lock()
	c.down["b"] = false
	c.mu.Unlock()
	eventually(t, "the session is not ended", func() bool {
		h.mu.Lock()
		h.nextTry = time.Time{}
		h.mu.Unlock()
		hubs.Follow(c.snap)
		return len(one.killed) > 0
	})
	if e := <-one.killed; !strings.Contains(e.Message, "shard b may have been missed") {
		t.Error(e)
	}

	c2, hubs2 := newCluster(t, true, "a")
	c2.down["a"] = true
	if _, err := hubs2.Of("app").Set(newClient(), "ann", map[string]bool{"x": true}); err == nil {
		t.Error("LISTEN without the home shard")
	}
}

// TestBegan: nothing is to be followed until a first database has a hub.
func TestBegan(t *testing.T) {
	_, hubs := newCluster(t, true, "a")
	select {
	case <-hubs.Began():
		t.Fatal("began without a hub")
	default:
	}
	hubs.Of("app")
	hubs.Of("other")
	<-hubs.Began()
}

// TestFirstTable: before a first table is used every shard gets an ear, and no session
// is ended for it.
func TestFirstTable(t *testing.T) {
	c, hubs := newCluster(t, false, "a", "b")
	h, one := hubs.Of("app"), newClient()
	listen(t, h, one, "x")
	h.Expect(t.Context())
	c.notify("b", "x", "1")
	eventually(t, "b is not heard", func() bool { return one.all() == "x=1" })
	if len(one.killed) > 0 {
		t.Error(<-one.killed)
	}
}

// TestFullClient: a client that reads nothing is ended, not buffered without end.
func TestFullClient(t *testing.T) {
	c, hubs := newCluster(t, false, "a")
	h, one := hubs.Of("app"), newClient()
	listen(t, h, one, "x")
	one.mu.Lock()
	one.full = true
	one.mu.Unlock()
	c.notify("a", "x", "1")
	if e := <-one.killed; e.Code != pgerr.OutOfMemory {
		t.Error(e)
	}
}
