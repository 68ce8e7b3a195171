package proxy

import (
	"errors"
	"testing"

	"weft/pgerr"
	"weft/wire"
)

// TestQuietly: a part is judged by itself, whatever failed before it, and a part of a part counts.
func TestQuietly(t *testing.T) {
	o := &newSession(nil, nil, nil, "", "").out
	o.fail()
	failed, err := o.quietly(func() error {
		if !o.isQuiet() {
			t.Error("the part is not quiet")
		}
		return nil
	})
	if failed || err != nil || o.isQuiet() {
		t.Errorf("a part that succeeds: failed %v, %v, quiet %v", failed, err, o.isQuiet())
	}
	gone := errors.New("gone")
	failed, err = o.quietly(func() error {
		m := o.mark()
		o.fail()
		if !o.failedSince(m) {
			t.Error("the inner part has not failed")
		}
		if o.failedSince(o.mark()) {
			t.Error("the next part has failed")
		}
		return gone
	})
	if !failed || err != gone {
		t.Errorf("a part that fails: failed %v, %v", failed, err)
	}
}

// TestDivert: an error that the sink has taken is no failure that the client knows of, until the
// client is told.
func TestDivert(t *testing.T) {
	o := &newSession(nil, nil, nil, "", "").out
	sink := &overheard{}
	failed, err := o.quietly(func() error {
		failed, err := o.divert(sink, func() error {
			o.fail()
			return o.give(wire.AppendError(nil, pgerr.New("23505", "duplicate")))
		})
		if !failed || err != nil || sink.field('C') != "23505" {
			t.Errorf("diverted: failed %v, %v, code %q", failed, err, sink.field('C'))
		}
		return nil
	})
	if failed || err != nil || o.sink != nil || o.Len() != 0 {
		t.Errorf("caught: failed %v, %v, %d bytes for the client", failed, err, o.Len())
	}
	failed, _ = o.quietly(func() error {
		o.tellFault(sink)
		return nil
	})
	if !failed || o.Len() == 0 {
		t.Errorf("told: failed %v, %d bytes for the client", failed, o.Len())
	}
}

// TestDivertEndsWithPanic: the last word of a session that panics goes to the client.
func TestDivertEndsWithPanic(t *testing.T) {
	o := &newSession(nil, nil, nil, "", "").out
	defer func() {
		if recover() == nil || o.sink != nil {
			t.Error("the sink is left")
		}
	}()
	_, _ = o.divert(&overheard{}, func() error { panic("bug") })
}
