package pool_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"weft/pgerr"
	"weft/pgserver/pgtest"
	"weft/pool"
)

func dedicated(t *testing.T) *pool.Conn {
	t.Helper()
	_, sh := home(t, pool.Config{})
	c, err := lane(t, sh).Dedicated(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Terminate)
	return c
}

// TestCopy carries rows out and in again.
func TestCopy(t *testing.T) {
	c := dedicated(t)
	const n = 20000
	var out bytes.Buffer
	if err := c.CopyOut(fmt.Sprintf("COPY (SELECT i, repeat('x', i %% 50) FROM generate_series(1, %d) i) TO STDOUT", n), &out); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec("CREATE TEMP TABLE copied(i int, s text)"); err != nil {
		t.Fatal(err)
	}
	rows, err := c.CopyIn("COPY copied FROM STDIN", &out)
	if err != nil || rows != n {
		t.Fatalf("%d rows, %v", rows, err)
	}
	got, err := c.Exec("SELECT count(*), sum(i), sum(length(s)) FROM copied")
	if err != nil || fmt.Sprint(got) != "[[20000 200010000 490000]]" {
		t.Errorf("%v, %v", got, err)
	}
}

// TestCopyErrors: after an error of the shard's or of the source the backend
// still answers.
func TestCopyErrors(t *testing.T) {
	c := dedicated(t)
	if _, err := c.Exec("CREATE TEMP TABLE copied(i int)"); err != nil {
		t.Fatal(err)
	}
	failing := errors.New("source failed")
	endless := io.MultiReader(strings.NewReader("x\n"), endlessOnes{})
	for _, tc := range []struct {
		name string
		run  func() error
		code string
	}{
		{"no such table", func() error { _, err := c.CopyIn("COPY nothing FROM STDIN", strings.NewReader("")); return err }, "42P01"},
		{"out of no table", func() error { return c.CopyOut("COPY nothing TO STDOUT", io.Discard) }, "42P01"},
		{"not a copy", func() error { _, err := c.CopyIn("SELECT 1", strings.NewReader("")); return err }, pgerr.InternalError},
		{"bad data, and no end of it", func() error { _, err := c.CopyIn("COPY copied FROM STDIN", endless); return err }, "22P02"},
		{"error halfway", func() error {
			return c.CopyOut("COPY (SELECT 1/(5-i) FROM generate_series(1,9) i) TO STDOUT", io.Discard)
		}, "22012"},
	} {
		err := tc.run()
		var e *pgerr.Error
		if !errors.As(err, &e) || e.Code != tc.code {
			t.Errorf("%s: %v", tc.name, err)
		}
		if rows, err := c.Exec("SELECT 1"); err != nil || len(rows) != 1 {
			t.Fatalf("after %s: %v, %v", tc.name, rows, err)
		}
	}
	if _, err := c.CopyIn("COPY copied FROM STDIN", io.MultiReader(strings.NewReader("1\n"), failingReader{failing})); !errors.Is(err, failing) {
		t.Errorf("failing source: %v", err)
	}
	if rows, err := c.Exec("SELECT count(*) FROM copied"); err != nil || rows[0][0] != "0" {
		t.Errorf("after a failing source: %v, %v", rows, err)
	}
}

// TestInterrupt ends a statement from outside.
func TestInterrupt(t *testing.T) {
	c := dedicated(t)
	time.AfterFunc(100*time.Millisecond, c.Interrupt)
	from := time.Now()
	_, err := c.Exec("SELECT pg_sleep(60)")
	var e *pgerr.Error
	if !errors.As(err, &e) || e.Code != pgerr.QueryCanceled || pgtest.Late(t, time.Since(from), 10*time.Second) {
		t.Errorf("%v after %v", err, time.Since(from))
	}
}

type endlessOnes struct{}

func (endlessOnes) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = "1\n"[i%2]
	}
	return len(p) &^ 1, nil
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }
