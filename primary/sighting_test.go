package primary

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"weft/pgerr"
)

func TestReadSighting(t *testing.T) {
	row := []string{"f", "7708636913821170360", "2", "0/3025538", "", "", "1700000000000001", "1600000000000000", "off", "ANY 1 (b, c)", "async,sync", "0/3025500"}
	s, err := ReadSighting([][]string{row})
	if err != nil || s.Kind != Primary || s.Generation.String() != "7708636913821170360/2" || s.LSN != 0x3025538 || s.Flushed != 0x3025500 ||
		s.Clock != time.UnixMicro(1700000000000001) || !s.ReplayedAt.IsZero() || s.ReadOnly || s.SyncNames != "ANY 1 (b, c)" || !slices.Equal(s.SyncStates, []string{"async", "sync"}) {
		t.Errorf("primary: %+v, %v", s, err)
	}
	s, err = ReadSighting([][]string{{"t", "7", "1", "0/10", "0/20", "1600000000000001", "1700000000000001", "1600000000000000", "on", "", "", ""}})
	if err != nil || s.Kind != Standby || s.LSN != 0x10 || s.Received != 0x20 || s.ReplayedAt != time.UnixMicro(1600000000000001) || !s.ReadOnly || s.SyncStates != nil || s.Flushed != 0 {
		t.Errorf("standby: %+v, %v", s, err)
	}
	bad := slices.Clone(row)
	bad[3] = "x"
	for _, rows := range [][][]string{nil, {row, row}, {row[1:]}, {bad}} {
		if s, err := ReadSighting(rows); err == nil {
			t.Errorf("%q is read: %+v", rows, s)
		}
	}
}

func TestReadFork(t *testing.T) {
	type fork struct {
		at     LSN
		parent uint32
	}
	for history, want := range map[string]fork{
		"": {},
		"1\t0/60002A8\tno recovery target specified\n":                          {0x60002A8, 1},
		"1\t0/60002A8\tno recovery target specified\n\n2\t0/70000A0\tbefore…\n": {0x70000A0, 2},
		"# comment\n\n": {},
	} {
		if at, parent := ReadFork(history); at != want.at || parent != want.parent {
			t.Errorf("%q: %s, %d", history, at, parent)
		}
	}
	if sql := HistorySQL(0x1F); sql != "SELECT pg_catalog.pg_read_file('pg_wal/0000001F.history', 0, 1000000, true)" {
		t.Error(sql)
	}
}

func TestFailed(t *testing.T) {
	server := func(code, message string) error {
		return &pgerr.Error{Severity: pgerr.SeverityFatal, Code: code, Message: message, Routine: "ProcessStartupPacket"}
	}
	own := func(code string, cause error) error { return pgerr.New(code, "could not connect").WithCause(cause) }
	for _, c := range []struct {
		err  error
		want Kind
	}{
		{server(pgerr.CannotConnectNow, "the database system is starting up"), StartingUp},
		{server(pgerr.CannotConnectNow, "the database system is shutting down"), ShuttingDown},
		{server(pgerr.AdminShutdown, "terminating connection"), ShuttingDown},
		{server(pgerr.TooManyConnections, "sorry, too many clients already"), Unable},
		{server("28P01", "password authentication failed"), Unable},
		{own(pgerr.InvalidAuthorizationSpec, errors.New("require_auth")), Unable},
		{own(pgerr.ConnectionFailure, syscall.ECONNREFUSED), Refused},
		{own(pgerr.ConnectionFailure, fmt.Errorf("dial: %w", context.DeadlineExceeded)), Silent},
		{own(pgerr.ConnectionFailure, syscall.ENETUNREACH), Unreachable},
		{errors.New("EOF"), Unreachable},
	} {
		if got := Failed(c.err).Kind; got != c.want {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
	}
}
