package points

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"weft/directory"
)

// store hides the name of the interface, which is that of a method, too.
type store interface{ directory.Points }

// kept is a directory that keeps points.
type kept struct {
	store
	list []directory.Point
	err  error
}

func (k *kept) Points(context.Context) ([]directory.Point, error) { return k.list, k.err }

func (k *kept) NotePoint(_ context.Context, p directory.Point, _ []byte) error {
	for i := range k.list {
		if k.list[i].Name == p.Name {
			k.list[i] = p
		}
	}
	return k.err
}

func TestList(t *testing.T) {
	file := func(n string) []directory.PointMark {
		return []directory.PointMark{{Shard: "a", File: "00000001000000000000000" + n, Archives: true}, {Shard: "b", File: "000000010000000000000002", Archives: true}}
	}
	k := &kept{list: []directory.Point{{Name: "one", Marks: file("3")}, {Name: "two", Marks: file("5")}, {Name: "off", Marks: []directory.PointMark{{Shard: "a"}}}}}
	asked := 0
	b := New(Config{Log: slog.New(slog.DiscardHandler), Store: k, Archived: func(_ context.Context, shard string) (string, error) {
		asked++
		if shard == "b" {
			return "000000010000000000000009", nil
		}
		return "000000010000000000000004", nil
	}})
	list, err := b.List(t.Context())
	if err != nil || len(list) != 3 || list[0].Name != "off" || list[0].Archived || list[1].Archived || !list[2].Archived || asked != 2 {
		t.Errorf("%+v, %v, %d asked", list, err, asked)
	}
	if p := b.Newest(); p == nil {
		t.Error("no newest point")
	}
	k.err = errors.New("etcd is away")
	if _, err := b.List(t.Context()); err == nil {
		t.Error("no error")
	}
	if list, err := New(Config{}).List(t.Context()); err != nil || list != nil {
		t.Error(list, err)
	}
}

func TestRun(t *testing.T) {
	b := New(Config{Log: slog.New(slog.DiscardHandler), Store: &kept{list: []directory.Point{{Name: "one"}, {Name: "two"}}}})
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); b.Run(ctx) }()
	for end := time.Now().Add(3 * time.Minute); b.Newest() == nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	stop()
	<-over
	if p := b.Newest(); p == nil || p.Name != "two" {
		t.Errorf("%+v", p)
	}
}
