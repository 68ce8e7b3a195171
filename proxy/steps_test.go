package proxy_test

import (
	"fmt"
	"strings"
	"testing"

	"weft/pool"
	"weft/wire"
)

// TestPrepareInSteps: drivers parse and describe a text in one round trip and
// execute it in others, also when it is a PREPARE, EXECUTE or DEALLOCATE.
func TestPrepareInSteps(t *testing.T) {
	w := startWeft(t, pool.Config{MaxPerShard: 2})
	a, b := dial(t, w.addr, "postgres"), dial(t, w.addr, "postgres")
	step := func(frames ...[]byte) string {
		a.send(append(frames, synced())...)
		return fmt.Sprint(a.untilReady())
	}
	const done = `[2 "" C "PREPARE\x00" Z "I"]`
	step(parse("make", "PREPARE p AS SELECT 'made' AS m"), describe('S', "make"))
	step(parse("other", "PREPARE q AS SELECT 'other'"), describe('S', "other"))
	if got := step(bind("", "make"), execute("", 0)); got != done {
		t.Errorf("PREPARE: %s", got)
	}
	if got := step(bind("", "make"), execute("", 0)); !strings.Contains(got, "C=42P05") {
		t.Errorf("PREPARE again: %s", got)
	}
	if got := a.query("EXECUTE q"); !strings.HasPrefix(got, "error 26000") {
		t.Errorf("EXECUTE of what was only parsed: %s", got)
	}
	b.exec("BEGIN") // takes the backend that knows it
	if got := step(parse("run", "EXECUTE p"), describe('S', "run")); !strings.Contains(got, "RowDescription m:25") {
		t.Errorf("Describe of EXECUTE: %s", got)
	}
	if got := step(bind("", "run"), execute("", 0)); !strings.Contains(got, "DataRow made") {
		t.Errorf("EXECUTE: %s", got)
	}
	step(parse("drop", "DEALLOCATE p"), describe('S', "drop"))
	if got := a.query("EXECUTE p"); got != "made" {
		t.Errorf("after a DEALLOCATE that was only parsed: %s", got)
	}
	if got := step(bind("", "drop"), execute("", 0)); !strings.Contains(got, `C "DEALLOCATE`) {
		t.Errorf("DEALLOCATE: %s", got)
	}
	if got := step(bind("", "drop"), execute("", 0)); !strings.Contains(got, "C=26000") {
		t.Errorf("DEALLOCATE again: %s", got)
	}
	if got := a.query("EXECUTE p"); !strings.HasPrefix(got, "error 26000") {
		t.Errorf("EXECUTE after it: %s", got)
	}
	b.exec("COMMIT")
	if got := step(bind("", "make"), execute("", 0)); got != done {
		t.Errorf("PREPARE once more: %s", got)
	}
	a.exec("LISTEN ch")
	if got := step(parse("", "DISCARD ALL"), bind("", ""), execute("", 0)); !strings.Contains(got, `C "DISCARD ALL`) {
		t.Errorf("DISCARD ALL: %s", got)
	}
}

// TestMalformedParse: a Parse that cannot be read replaces no statement.
func TestMalformedParse(t *testing.T) {
	w := startWeft(t, one)
	c := dial(t, w.addr, "postgres")
	c.send(parse("", "SELECT 'kept'"), synced())
	c.untilReady()
	for _, body := range []string{"x", "\x00SELECT 1", "\x00SELECT 1\x00\x00\x00\x00", "\xff\x00SELECT 1\x00\x00\x00"} {
		c.send(wire.AppendFrame(nil, wire.Parse, []byte(body)), synced())
		if got := fmt.Sprint(c.untilReady()); !strings.Contains(got, "Error ") {
			t.Fatalf("Parse %q: %s", body, got)
		}
		c.send(bind("", ""), execute("", 0), synced())
		if got := values(c.untilReady()); got != "kept" {
			t.Errorf("after Parse %q: %s", body, got)
		}
	}
}
