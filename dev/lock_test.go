package dev

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestLock(t *testing.T) {
	dir := t.TempDir()
	l, err := acquire(dir, "127.0.0.1:6432")
	if err != nil {
		t.Fatal(err)
	}
	_, err = acquire(dir, "127.0.0.1:7777")
	var locked *LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("second holder: got %v", err)
	}
	for _, want := range []string{dir, "process " + strconv.Itoa(os.Getpid()), "listening on 127.0.0.1:6432", "--dir"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	if err := l.release(); err != nil {
		t.Fatal(err)
	}
	l, err = acquire(dir, "127.0.0.1:7777")
	if err != nil {
		t.Fatalf("after release: %v", err)
	}
	if err := l.file.Truncate(0); err != nil { // locked, but nothing written yet
		t.Fatal(err)
	}
	if _, err := acquire(dir, ""); err == nil || !strings.Contains(err.Error(), "just started") {
		t.Errorf("holder without a name: got %v", err)
	}
	if err := l.release(); err != nil {
		t.Fatal(err)
	}
}
