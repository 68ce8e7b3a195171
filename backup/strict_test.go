package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"weft/directory"
	"weft/pgerr"
)

// fakeDirectory is what proxies of a fake follow.
type fakeDirectory struct {
	f       *fake
	silent  int // how many acknowledgements fail
	proxies []directory.Proxy
	err     error // of an update that begins a halt
	halts   []string
}

func (d *fakeDirectory) Update(_ context.Context, fn func(*directory.Snapshot) (*directory.Snapshot, error)) (*directory.Snapshot, error) {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	next, err := fn(d.f.snap)
	if err != nil || next == d.f.snap {
		return d.f.snap, err
	}
	if next.Halt != nil && d.err != nil {
		return nil, d.err
	}
	d.f.snap = next
	d.f.snap.Version++
	d.halts = append(d.halts, fmt.Sprint(next.Halt != nil))
	return next, nil
}

func (d *fakeDirectory) Acknowledged(ctx context.Context, _ int64) error {
	d.f.mu.Lock()
	halted := d.f.snap.Halt != nil
	d.f.mu.Unlock()
	if halted && d.silent > 0 {
		d.silent--
		return errors.New("p2 at h:2 serves version 1")
	}
	return ctx.Err()
}

func (d *fakeDirectory) Live(context.Context) (directory.Live, error) {
	return directory.Live{Proxies: d.proxies}, nil
}

// The points of a strict attempt are made while all proxies halt, and no halt is left, whatever fails.
func TestStrict(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(f *fake, d *fakeDirectory)
		halts  string
		want   string
	}{
		{"good", func(*fake, *fakeDirectory) {}, "true false", ""},
		{"a proxy is late", func(_ *fake, d *fakeDirectory) { d.silent = 1 }, "true false true false", ""},
		{"a proxy is silent", func(_ *fake, d *fakeDirectory) { d.silent = 9 }, "true false true false true false", "not every proxy holds its commits: p2 at h:2"},
		{"a proxy is old", func(_ *fake, d *fakeDirectory) { d.err = directory.ErrOldProxy }, "", "replace them first"},
		{"a proxy is cut off", func(f *fake, _ *fakeDirectory) {
			f.answer = func(_, sql string) ([][]string, error, bool) {
				return [][]string{{"p1"}, {"lost"}}, nil, strings.HasPrefix(sql, "SELECT DISTINCT b.proxy")
			}
		}, "", "proxy lost has connections to shard a"},
		{"a shard is lost", func(f *fake, _ *fakeDirectory) {
			f.answer = func(at, sql string) ([][]string, error, bool) {
				return nil, pgerr.New(pgerr.AdminShutdown, "terminating"), at == "b/one" && strings.Contains(sql, "restore_point")
			}
		}, "true false true false true false", "shard b has no primary at the moment"},
		{"another error", func(f *fake, _ *fakeDirectory) {
			f.answer = func(at, sql string) ([][]string, error, bool) {
				return nil, errors.New("boom"), at == "b/one" && strings.Contains(sql, "restore_point")
			}
		}, "true false", "boom"},
	} {
		f := newFake()
		d := &fakeDirectory{f: f, proxies: []directory.Proxy{{ID: "p1"}}}
		c.change(f, d)
		m := f.maker()
		m.Strict, m.Directory = true, d
		halted := false
		usual := f.answer
		f.answer = func(at, sql string) ([][]string, error, bool) {
			if strings.Contains(sql, "restore_point") {
				halted = f.snap.Halt != nil
			}
			if usual != nil {
				if rows, err, ok := usual(at, sql); ok {
					return rows, err, ok
				}
			}
			return [][]string{{"p1"}}, nil, strings.HasPrefix(sql, "SELECT DISTINCT b.proxy")
		}
		made, err := m.Make(t.Context(), "x")
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil && (!halted || !made.Strict) {
			t.Errorf("%s: halted %v, %+v", c.name, halted, made)
		}
		if got := strings.Join(d.halts, " "); got != c.halts {
			t.Errorf("%s: halts %s", c.name, got)
		}
		if f.snap.Halt != nil || len(f.locked) > 0 {
			t.Errorf("%s: left %v, %v", c.name, f.snap.Halt, f.locked)
		}
	}
}

// fakePoints keeps points.
type fakePoints struct {
	list      []directory.Point
	manifests map[string][]byte
	reserved  int
	err       error
}

func (p *fakePoints) Reserve(ctx context.Context, _ string) (context.Context, func(), error) {
	if p.reserved > 0 {
		return nil, nil, directory.ErrPointUnderWay
	}
	p.reserved++
	return ctx, func() { p.reserved-- }, nil
}
func (p *fakePoints) EndReservation(context.Context, string) (string, error) { return "", nil }
func (p *fakePoints) Points(context.Context) ([]directory.Point, error) {
	return slices.Clone(p.list), nil
}

func (p *fakePoints) PointManifest(_ context.Context, n string) ([]byte, error) {
	return p.manifests[n], nil
}

func (p *fakePoints) NotePoint(_ context.Context, n directory.Point, m []byte) error {
	if p.err == nil {
		p.list, p.manifests[n.Name] = append(p.list, n), m
	}
	return p.err
}

// A point is entered with its manifest under a name that is new, and the reservation is given back in any case.
func TestBook(t *testing.T) {
	f := newFake()
	p := &fakePoints{manifests: map[string][]byte{}}
	b := Book{Maker: *f.maker(), Points: p}
	made, err := b.Make(t.Context(), "one")
	if err != nil || len(p.list) != 1 || len(p.list[0].Marks) != 3 || p.list[0].Marks[2].Shard != "c" {
		t.Fatalf("%v %+v", err, p.list)
	}
	found, err := Find(t.Context(), p, "one")
	if err != nil || found.Target != made.Target || found.CopyID("x") != made.CopyID("x") || found.CopyID("x") == made.CopyID("y") {
		t.Errorf("%v %+v", err, found)
	}
	if _, err := Find(t.Context(), p, "two"); !errors.Is(err, ErrNoPoint) {
		t.Error(err)
	}
	if _, err := b.Make(t.Context(), "one"); !errors.Is(err, ErrTaken) {
		t.Error(err)
	}
	p.err = errors.New("etcd is away")
	if _, err := b.Make(t.Context(), "two"); err == nil {
		t.Error("a point that was not entered counts")
	}
	if p.reserved != 0 || len(f.locked) != 0 {
		t.Errorf("left %d, %v", p.reserved, f.locked)
	}
	p.reserved = 1
	if _, err := b.Make(t.Context(), "three"); !errors.Is(err, directory.ErrPointUnderWay) {
		t.Error(err)
	}
}

// Disks are copied while the locks are held; a lock that was lost, or another directory, makes the copies void.
func TestHold(t *testing.T) {
	hold := func() (*fake, *Held) {
		f := newFake()
		f.answer = func(at, sql string) ([][]string, error, bool) {
			return [][]string{{"0/30", "000000020000000000000003", "77" + at[:1], "15.18", "2026-01-02 03:04:05.6", "on"}}, nil, sql == whereQuery || sql == "SELECT 1"
		}
		h, err := f.maker().Hold(t.Context(), "disks")
		if err != nil || len(f.locked) != 6 {
			t.Fatalf("%v, %v", err, f.locked)
		}
		return f, h
	}
	f, h := hold()
	text, _ := h.Manifest.Encode()
	m, err := Decode(text)
	if err != nil || m.Kind != Snapshot {
		t.Fatal(m, err)
	}
	if err := h.Wait(t.Context(), 1); err != nil {
		t.Error(err)
	}
	if err := h.Release(t.Context()); err != nil || len(f.locked) != 0 {
		t.Errorf("%v, %v", err, f.locked)
	}
	for at, want := range map[string]string{"0/2F": "was to be made after 0/30", "0/30": "", "1/0": ""} {
		if err := m.Arrived(Restored{Shard: "a", System: "77a", LSN: at}); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", at, err)
		}
	}
	if _, err := m.Plan("files"); err == nil {
		t.Error("copies of disks have a plan")
	}
	f, h = hold()
	f.snap.Placement[0] = 2
	if err := h.Release(t.Context()); err == nil || !strings.Contains(err.Error(), "of no use") || len(f.locked) != 0 {
		t.Errorf("another placement: %v, %v", err, f.locked)
	}
	f, h = hold()
	f.answer = func(at, sql string) ([][]string, error, bool) {
		return nil, pgerr.New(pgerr.AdminShutdown, "terminating"), at == "c/two" && sql == "SELECT 1"
	}
	if err := h.Release(t.Context()); err == nil || len(f.locked) != 0 {
		t.Errorf("a lost lock: %v, %v", err, f.locked)
	}
}
