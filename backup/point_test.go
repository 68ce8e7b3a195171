package backup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"weft/directory"
	"weft/pgerr"
)

// fake is a cluster of three shards, of which b is home, and a log of what was sent to it.
type fake struct {
	mu     sync.Mutex
	snap   *directory.Snapshot
	log    []string
	locked map[string]bool
	answer func(at, sql string) ([][]string, error, bool) // what differs from the usual; false: nothing
}

func newFake() *fake {
	s := &directory.Snapshot{
		Cluster: "c1", BucketCount: 4, Home: "b", Shards: []directory.Shard{{Name: "a", Hosts: []string{"h:1"}}, {Name: "b", Hosts: []string{"h:2"}}, {Name: "c", Hosts: []string{"h:3"}}},
		Placement: []uint16{0, 1, 2, 0}, Schemas: map[string]int64{"one": 7},
		Tables: []directory.Table{{Database: "one", Schema: "public", Name: "t", Kind: directory.Reference}, {Database: "two", Schema: "public", Name: "t", Kind: directory.Reference}},
	}
	return &fake{snap: s, locked: map[string]bool{}}
}

func (f *fake) Load(context.Context) (*directory.Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.snap.Clone(), nil
}

func (f *fake) Dial(_ context.Context, shard, database string) (Conn, error) {
	if f.answer != nil {
		if _, err, ok := f.answer(shard+"/"+database, "dial"); ok {
			return nil, err
		}
	}
	return &fakeConn{f: f, at: shard + "/" + database}, nil
}

type fakeConn struct {
	f  *fake
	at string
}

func (c *fakeConn) Exec(sql string) ([][]string, error) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if c.f.answer != nil {
		if rows, err, ok := c.f.answer(c.at, sql); ok {
			return rows, err
		}
	}
	switch {
	case strings.HasPrefix(sql, "SELECT pg_catalog.to_regclass"):
		return [][]string{{"t"}}, nil
	case strings.HasPrefix(sql, "BEGIN"):
		c.f.locked[c.at] = true
		return nil, nil
	case strings.Contains(sql, "pg_create_restore_point"):
		c.f.log = append(c.f.log, fmt.Sprintf("point %s, %d locked", c.at[:1], len(c.f.locked)))
		return [][]string{{"0/3000060", "000000020000000000000003", "77" + c.at[:1], "15.18", "2026-01-02 03:04:05.6", "on"}}, nil
	case sql == pledged:
		return nil, nil
	case sql == "ROLLBACK":
		delete(c.f.locked, c.at)
		return nil, nil
	}
	return nil, fmt.Errorf("unexpected %s", sql)
}
func (c *fakeConn) Interrupt() {}
func (c *fakeConn) Terminate() {}

func (f *fake) maker() *Maker {
	return &Maker{Cluster: f, Tries: 3, Pause: func(context.Context, int) error { return nil }}
}

// The points are made while all locks are held, that of the home shard last, and then no lock is left.
func TestMake(t *testing.T) {
	f := newFake()
	m, err := f.maker().Make(t.Context(), "nightly")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(f.log[:2])
	if got := strings.Join(f.log, "; "); got != "point a, 6 locked; point c, 6 locked; point b, 6 locked" {
		t.Error(got)
	}
	if len(f.locked) != 0 {
		t.Errorf("left: %v", f.locked)
	}
	text, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	k, ok := back.Mark("c")
	if !ok || k.System != "77c" || k.Timeline() != "00000002" || k.At != "2026-01-02T03:04:05.6Z" || !k.Archives || !strings.HasPrefix(back.Target, "weft:nightly:") {
		t.Errorf("%+v", back)
	}
}

// What is under way makes an attempt wait; a name is used once.
func TestBusy(t *testing.T) {
	pending := func(s *directory.Snapshot) {
		s.Pending = []directory.Pending{{ID: "p", Database: "one"}}
	}
	for _, c := range []struct {
		name   string
		change func(f *fake)
		want   string
	}{
		{"schema change", func(f *fake) { pending(f.snap) }, "a change of schemas in database one is being committed"},
		{"round", func(f *fake) {
			f.snap.Moves = []directory.Move{{ID: "j", Kind: directory.MoveBuckets, Round: &directory.Round{}}}
		}, "job j carries rows"},
		{"join", func(f *fake) { f.snap.Moves = []directory.Move{{ID: "j", Kind: directory.MoveJoin}} }, "job j changes the set of shards"},
		{"lock", func(f *fake) {
			f.answer = func(at, sql string) ([][]string, error, bool) {
				return nil, pgerr.New(pgerr.LockNotAvailable, "canceling statement due to lock timeout"), at == "c/two" && strings.HasPrefix(sql, "BEGIN")
			}
		}, "did not end within 1s on c, database two"},
		{"placement meanwhile", func(f *fake) {
			f.answer = func(at, sql string) ([][]string, error, bool) {
				if at == "b/one" && strings.Contains(sql, "restore_point") {
					f.snap.Placement[0] = 2 - f.snap.Placement[0]
				}
				return nil, nil, false
			}
		}, "placement of rows have changed"},
		{"schema meanwhile", func(f *fake) {
			f.answer = func(at, sql string) ([][]string, error, bool) {
				if at == "b/one" && strings.Contains(sql, "restore_point") {
					f.snap.Schemas = maps.Clone(f.snap.Schemas)
					f.snap.Schemas["one"]++
				}
				return nil, nil, false
			}
		}, "a schema has changed"},
	} {
		f := newFake()
		c.change(f)
		m := f.maker()
		tries := 0
		m.Pause = func(context.Context, int) error { tries++; return nil }
		_, err := m.Make(t.Context(), "x")
		var busy *BusyError
		if !errors.As(err, &busy) || !strings.Contains(err.Error(), c.want) || tries != 2 {
			t.Errorf("%s: %v after %d pauses", c.name, err, tries)
		}
		if len(f.locked) != 0 {
			t.Errorf("%s: left %v", c.name, f.locked)
		}
	}
}

// An attempt in vain is followed by one with another target.
func TestSecondAttempt(t *testing.T) {
	f := newFake()
	var targets []string
	f.answer = func(at, sql string) ([][]string, error, bool) {
		if at == "b/one" && strings.Contains(sql, "restore_point") {
			targets = append(targets, sql)
			if len(targets) == 1 {
				f.snap.Placement[0] = 2
			}
		}
		return nil, nil, false
	}
	m, err := f.maker().Make(t.Context(), "x")
	if err != nil || len(targets) != 2 || targets[0] == targets[1] || !strings.Contains(targets[1], m.Target) {
		t.Errorf("%v %q", err, targets)
	}
}

// Other errors end the attempt at once, and no lock stays.
func TestFails(t *testing.T) {
	for _, c := range []struct{ at, sql, want string }{
		{"c/one", "dial", "c, database one: boom"},
		{"a/two", "BEGIN", "a, database two: boom"},
		{"c/one", "restore_point", "c, database one: boom"},
		{"b/one", "restore_point", "b, database one: boom"},
	} {
		f := newFake()
		f.answer = func(at, sql string) ([][]string, error, bool) {
			return nil, errors.New("boom"), at == c.at && strings.Contains(sql, c.sql)
		}
		if _, err := f.maker().Make(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
		if len(f.locked) != 0 {
			t.Errorf("%+v: left %v", c, f.locked)
		}
	}
	for _, name := range []string{"", "a b", "it's", strings.Repeat("x", 41), "-x", "é"} {
		if _, err := newFake().maker().Make(t.Context(), name); !errors.Is(err, ErrName) {
			t.Errorf("%q: %v", name, err)
		}
	}
	f := newFake()
	f.snap.Tables = nil
	if _, err := f.maker().Make(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "no table is declared") {
		t.Error(err)
	}
}

// A manifest that was changed is refused.
func TestDecode(t *testing.T) {
	m, err := newFake().maker().Make(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := m.Encode()
	for _, c := range []struct{ old, new, want string }{
		{`"name": "x"`, `"name": "y"`, "its sum does not fit"},
		{`"format": 1`, `"format": 2`, "reads format 1"},
		{`{`, ``, "no manifest"},
	} {
		if _, err := Decode([]byte(strings.Replace(string(text), c.old, c.new, 1))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A server is at the point if its history says so.
func TestArrived(t *testing.T) {
	m, err := newFake().maker().Make(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	line := func(timeline string) string { return timeline + "\t0/30000F8\tat restore point \"" + m.Target + "\"\n" }
	for _, c := range []struct {
		r    Restored
		want string
	}{
		{Restored{"a", "h:1", "77a", false, "", "1\t0/2000000\tno recovery target specified\n\n" + line("2")}, ""},
		{Restored{"a", "h:1", "77a", false, "", line("2") + "3\t0/4000000\tno recovery target specified\n"}, ""},
		{Restored{"a", "h:1", "77a", true, "", ""}, "still in recovery"},
		{Restored{"a", "h:1", "77b", false, "", line("2")}, "is another server"},
		{Restored{"a", "h:1", "77a", false, "", line("1")}, "along timeline 1, and the point is on timeline 2"},
		{Restored{"a", "h:1", "77a", false, "", "2\t0/30000F8\tat restore point \"weft:x\"\n"}, "was not restored to the point x"},
		{Restored{"a", "h:1", "77a", false, "", ""}, "was not restored"},
		{Restored{"z", "h:1", "77a", false, "", ""}, "no such shard"},
	} {
		if err := m.Arrived(c.r); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.r, err)
		}
	}
}

// A plan names the point for each tool.
func TestPlan(t *testing.T) {
	m, err := newFake().maker().Make(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range Tools {
		text, err := m.Plan(tool)
		if err != nil || strings.Count(text, m.Target) != 3 || !strings.Contains(text, "weft restore finish") {
			t.Errorf("%s: %v\n%s", tool, err, text)
		}
	}
	if _, err := m.Plan("tar"); err == nil {
		t.Error("tar is known")
	}
}
