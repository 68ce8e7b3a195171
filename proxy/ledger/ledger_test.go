package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"weft/directory"
	"weft/primary"
	"weft/twopc"
)

// book is a ledger of transactions of shards a and b, which decides.
type book struct {
	*Ledger
	views map[string]*primary.View
	fates map[string]twopc.Fate
	err   error
	start time.Time
}

func newBook() *book {
	b := &book{views: map[string]*primary.View{}, fates: map[string]twopc.Fate{}, start: time.Now()}
	b.Ledger = New(Config{
		Log: slog.New(slog.DiscardHandler), Proxy: "p", Views: func() map[string]*primary.View { return b.views },
		Fates: func(_ context.Context, _ string, list []twopc.Decision) ([]twopc.Fate, error) {
			var out []twopc.Fate
			for _, d := range list {
				f := b.fates[d.Key]
				f.Key = d.Key
				out = append(out, f)
			}
			return out, b.err
		},
	})
	b.view("a", 1, 0)
	b.view("b", 1, 0)
	return b
}

// view lets a shard be on a timeline, whose standbys have what was answered within a time.
func (b *book) view(shard string, timeline uint32, safe time.Duration) {
	b.views[shard] = &primary.View{State: primary.Steady, Generation: primary.Generation{System: "7", Timeline: timeline}, Horizon: primary.Horizon{Safe: b.start.Add(safe)}}
}

// add enters a transaction that ended after a time.
func (b *book) add(n int, ended time.Duration, told bool) string {
	key := twopc.Name{Cluster: "c", Incarnation: "p", Nonce: fmt.Sprintf("%x", n), Decider: "b", Timeline: 1}.Key()
	b.Add(&Entry{Database: "db", Committed: b.start.Add(ended / 2), Ended: b.start.Add(ended), Told: told, Decision: twopc.Decision{
		Key: key, Decider: twopc.Member{Shard: "b", Server: "7/00000001"}, Members: []twopc.Member{{Shard: "a", Server: "7/00000001", Listed: true}},
	}})
	return key
}

// TestSafe: an entry goes when the standbys of all its shards have the transaction.
func TestSafe(t *testing.T) {
	b := newBook()
	key := b.add(1, time.Second, true)
	for _, step := range []struct {
		a, b time.Duration
		held bool
	}{{0, 0, true}, {2 * time.Second, 0, true}, {0, 2 * time.Second, true}, {2 * time.Second, 2 * time.Second, false}} {
		b.view("a", 1, step.a)
		b.view("b", 1, step.b)
		if b.look(t.Context()); b.Holds(key) != step.held {
			t.Errorf("%+v: held is %v", step, b.Holds(key))
		}
	}
	if list, _ := b.All(t.Context()); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}

// TestHarm: after a failover the shards are asked, until all have a primary and nothing is prepared. What is lost or half is listed.
func TestHarm(t *testing.T) {
	b := newBook()
	whole, half, lost, untold := b.add(1, time.Second, true), b.add(2, time.Second, true), b.add(3, time.Second, true), b.add(4, time.Second, false)
	b.fates[whole] = twopc.Fate{Kept: []string{"b", "a"}, Servers: map[string]string{"a": "7/00000002", "b": "7/00000001"}}
	b.fates[half] = twopc.Fate{Open: true, Kept: []string{"b"}, Lost: []string{"a"}}
	b.fates[lost] = twopc.Fate{Lost: []string{"b", "a"}}
	b.fates[untold] = twopc.Fate{Lost: []string{"b", "a"}}
	b.view("a", 2, 0)
	b.views["b"].State = primary.Seeking
	b.look(t.Context())
	if !b.Holds(lost) {
		t.Error("asked while a shard has no primary")
	}
	b.view("b", 1, 0)
	b.err = errors.New("away")
	if b.look(t.Context()); !b.Holds(lost) {
		t.Error("a shard that does not answer counts as an answer")
	}
	b.err = nil
	b.look(t.Context())
	if !b.Holds(whole) || !b.Holds(half) || b.Holds(lost) || b.Holds(untold) {
		t.Error("held:", b.Holds(whole), b.Holds(half), b.Holds(lost), b.Holds(untold))
	}
	b.fates[half] = twopc.Fate{Kept: []string{"b"}, Lost: []string{"a"}}
	b.fates[whole] = twopc.Fate{Lost: []string{"b", "a"}} // is not asked about again: it is on the new server
	b.look(t.Context())
	list, err := b.All(t.Context())
	states := []string{}
	for _, l := range list {
		states = append(states, l.State+" "+l.GID)
	}
	if want := []string{"half " + half, "lost " + lost}; err != nil || !slices.Equal(states, want) || !*list[0].Told || list[0].Decider != "b" || !list[0].Committed.Equal(b.start.Add(time.Second/2)) {
		t.Errorf("%v, %v", states, err)
	}
	if c := b.Counts(); c["half"] != 1 || c["lost"] != 1 || !b.Holds(whole) {
		t.Errorf("%v", c)
	}
	b.view("a", 2, time.Hour)
	b.view("b", 1, time.Hour)
	if b.look(t.Context()); b.Holds(whole) {
		t.Error("an entry on a new server is never safe")
	}
}

// TestHalfThenLost: a failover leaves a half, and a failover of the other shard takes it.
func TestHalfThenLost(t *testing.T) {
	for _, told := range []bool{true, false} {
		b := newBook()
		key := b.add(1, time.Second, told)
		b.fates[key] = twopc.Fate{Kept: []string{"b"}, Lost: []string{"a"}, Servers: map[string]string{"a": "7/00000002", "b": "7/00000001"}}
		b.view("a", 2, 0)
		b.look(t.Context())
		state := func() string {
			list, _ := b.All(t.Context())
			if len(list) != 1 || *list[0].Told != told {
				t.Fatalf("%+v", list)
			}
			return list[0].State
		}
		if state() != "half" || !b.Holds(key) {
			t.Errorf("%s, held is %v", state(), b.Holds(key))
		}
		if d := b.entries[key].Decision; d.Members[0].Server != "7/00000001" {
			t.Errorf("a server that lacks the part counts as one that has it: %+v", d)
		}
		b.fates[key] = twopc.Fate{Lost: []string{"b", "a"}}
		if b.look(t.Context()); state() != "half" {
			t.Error("asked again without a failover")
		}
		b.view("b", 2, 0)
		if b.look(t.Context()); state() != "lost" || b.Holds(key) {
			t.Errorf("%s, held is %v", state(), b.Holds(key))
		}
	}
}

// TestFull: the oldest entries make room.
func TestFull(t *testing.T) {
	b := newBook()
	first := b.add(0, 0, true)
	for i := range MaxEntries {
		b.add(1+i, 0, true)
	}
	if b.Holds(first) || len(b.entries) != MaxEntries || !b.full {
		t.Errorf("%d entries, full is %v", len(b.entries), b.full)
	}
}

// downStore is a directory that is away at first.
type downStore struct {
	up   bool
	list []directory.Loss
}

func (s *downStore) NoteLosses(_ context.Context, list []directory.Loss) (fresh []directory.Loss, err error) {
	if !s.up {
		return nil, errors.New("away")
	}
	for _, l := range list {
		if !slices.ContainsFunc(s.list, func(o directory.Loss) bool { return o.GID == l.GID }) {
			fresh = append(fresh, l)
		}
	}
	s.list = append(s.list, fresh...)
	return fresh, nil
}

func (s *downStore) Losses(context.Context) ([]directory.Loss, error) { return s.list, nil }
func (s *downStore) AcceptLoss(context.Context, string, time.Time) (bool, error) {
	return false, nil
}

// TestDirectoryAway: what was found is noted when the directory is back.
func TestDirectoryAway(t *testing.T) {
	b, s := newBook(), &downStore{}
	b.cfg.Store = s
	key := b.add(1, time.Second, true)
	b.fates[key] = twopc.Fate{Kept: []string{"b"}, Lost: []string{"a"}, Servers: map[string]string{"a": "7/00000002", "b": "7/00000001"}}
	b.view("a", 2, 0)
	if b.look(t.Context()); !b.Holds(key) {
		t.Error("what the directory does not know is forgotten")
	}
	s.up = true
	if b.look(t.Context()); len(s.list) != 1 {
		t.Errorf("%+v", s.list)
	}
	b.view("b", 1, time.Hour)
	if b.look(t.Context()); b.Holds(key) {
		t.Error("what is left is on the standby, and the entry stays")
	}
	// A resolver finds it again.
	f := b.fates[key]
	f.Key = key
	if err := b.Report(t.Context(), "db", f); err != nil || b.Counts()["half"] != 1 {
		t.Errorf("counted %v, %v", b.Counts(), err)
	}
}
