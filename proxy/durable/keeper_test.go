package durable

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/primary"
)

// TestKeeper: verdicts, the log and refusals follow what the servers say.
func TestKeeper(t *testing.T) {
	snap := directory.New(4, "a", []directory.Shard{{Name: "a", Hosts: []string{"a:1"}, Weight: 1}, {Name: "b", Hosts: []string{"b:1"}, Weight: 1}})
	view := func(names string) *primary.View {
		return &primary.View{State: primary.Steady, Primary: "x", Servers: []primary.Server{{Address: "x", Role: primary.Leads, Seen: primary.Sighting{Kind: primary.Primary, SyncNames: names}}}}
	}
	views := map[string]*primary.View{"a": view("s1"), "b": view("")}
	hasty := map[string][][]string{}
	var log bytes.Buffer
	asked := 0
	k := New(Config{
		Log: slog.New(slog.NewTextHandler(&log, nil)), Snapshot: func() *directory.Snapshot { return snap },
		Views: func() map[string]*primary.View { return views },
		Ask: func(_ context.Context, shard, sql string) ([][]string, error) {
			asked++
			if sql == primary.HastyFileSQL {
				return nil, errors.New("not allowed")
			}
			return hasty[shard], nil
		},
	})
	now := time.Now()
	look := func() {
		now = now.Add(time.Minute)
		k.look(t.Context(), snap, now)
	}
	look()
	if k.Verdicts() != nil || asked > 0 || log.Len() > 0 {
		t.Error("without a declaration something is checked")
	}
	snap.Durability = primary.Atomic
	look()
	if v := k.Verdicts(); v["a"].Lacks != "" || v["b"].Lacks == "" || asked > 0 {
		t.Errorf("atomic: %v, asked %d times", v, asked)
	}
	look()
	if n := strings.Count(log.String(), "not as durable"); n != 1 {
		t.Errorf("the log says it %d times", n)
	}
	var e *pgerr.Error
	if err := k.Refuse(snap, "b"); !errors.As(err, &e) || e.Code != "55000" || e.Hint == "" {
		t.Errorf("%v", err)
	}
	if err := k.Refuse(snap, "a"); err != nil {
		t.Error(err)
	}
	if k.Refuse(snap, "unknown") == nil {
		t.Error("a shard that is not known is not refused")
	}
	views["b"] = view("s2")
	look()
	if k.Refuse(snap, "b") != nil || !strings.Contains(log.String(), "is as durable") {
		t.Error("b has a standby now")
	}
	views["b"] = &primary.View{State: primary.Seeking, Primary: "x"}
	look()
	if k.Refuse(snap, "b") != nil {
		t.Error("what was known is forgotten while a primary is sought")
	}
	views["b"] = view("s2")
	snap.Durability = primary.Synchronous
	hasty["b"] = [][]string{{"local for role app"}}
	look()
	if v := k.Verdicts(); v["a"].Lacks != "" || !strings.Contains(v["b"].Lacks, "local for role app") {
		t.Errorf("sync: %v", v)
	}
	snap.Durability = ""
	look()
	if k.Verdicts() != nil {
		t.Error("the declaration is gone")
	}
}
