package pgerr_test

import (
	"errors"
	"fmt"
	"testing"

	"weft/pgerr"
)

func TestError(t *testing.T) {
	cause := errors.New("cause")
	e := pgerr.New(pgerr.SyntaxError, "bad %q", "x").WithDetail("d %d", 1).WithHint("h").WithCause(cause)
	if e.Error() != `ERROR: bad "x" (SQLSTATE 42601)` || e.Detail != "d 1" || e.Hint != "h" || e.IsFatal() || !errors.Is(e, cause) {
		t.Errorf("%+v", e)
	}
	if f := pgerr.Fatal(pgerr.AdminShutdown, "ends"); !f.IsFatal() || f.Code != "57P01" {
		t.Errorf("%+v", f)
	}
}

func TestFrom(t *testing.T) {
	e := pgerr.New(pgerr.QueryCanceled, "stopped")
	if pgerr.From(fmt.Errorf("acquire: %w", e)) != e {
		t.Error("an Error inside another is not found")
	}
	plain := errors.New("plain")
	if got := pgerr.From(plain); got.Code != pgerr.InternalError || got.Message != "plain" || !errors.Is(got, plain) {
		t.Errorf("%+v", got)
	}
}
