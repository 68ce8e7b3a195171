package pgtest

import (
	"testing"
	"time"
)

// TestSlowness: what is within its time is never late, what takes for ever always is, and a machine is never faster
// than an idle one.
func TestSlowness(t *testing.T) {
	slow := Slowness()
	t.Logf("%.1f", slow)
	if slow < 1 || slow > slowest {
		t.Errorf("%f", slow)
	}
	if Late(t, time.Second, time.Second) || !Late(t, time.Hour, time.Second) || Stretch(time.Second) < time.Second {
		t.Error("wrong")
	}
}
