package program

import (
	"flag"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"weft/program/progtest"
)

var (
	fuzzFor  = flag.Duration("for", 0, "how long TestDifferential runs programs; 0: some 200 of them")
	fuzzSeed = flag.Uint64("seed", 1, "the first program of TestDifferential; 0: another one each time")
)

// TestDifferential lets PostgreSQL and Run run programs that are made at random. Both see the same rows, notices,
// errors and tables, or Run refuses.
func TestDifferential(t *testing.T) {
	c := connect(t)
	if err := c.simple(tables + "SET statement_timeout = '30s';"); err != nil {
		t.Fatal(err)
	}
	seed := *fuzzSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano()) % 1e9
	}
	cache := NewCache()
	ran, no, failed, different := 0, map[string]int{}, 0, 0
	for end := time.Now().Add(*fuzzFor); time.Now().Before(end) || *fuzzFor == 0 && ran < 200; seed++ {
		shape := progtest.Shape{Set: seed%3 == 0}
		body := progtest.Body(seed, shape)
		create, call := "DO "+dollar(body), ""
		if shape.Set {
			create, call = "CREATE FUNCTION f() RETURNS SETOF int LANGUAGE plpgsql AS "+dollar(body), "SELECT * FROM f()"
		}
		want := c.native(create, call)
		got := c.ours(t.Context(), create, nil, cache)
		ran++
		if refused(got) {
			no[got.err]++
			continue
		}
		if strings.HasPrefix(want.err, "42601") && got.err == "" || want.err != "" {
			got.rows = want.rows
		}
		if want.err != "" {
			failed++
		}
		want.context, got.context = last(want.context), last(got.context)
		if strings.Contains(want.context, "compilation of") {
			want.context, got.context = "", ""
		}
		if progtest.StaleLine(body, append(slices.Clone(want.notices), want.context)...) {
			got.forgetLines()
			want.forgetLines()
		}
		if !reflect.DeepEqual(got, want) {
			if different++; different <= 3 {
				t.Errorf("seed %d\n%s\n%s", seed, body, difference(got, want))
			}
		}
	}
	t.Logf("%d programs, %d of them end with an error, %d differ, refused: %v", ran, failed, different, no)
	if ran < 5 || different > 0 {
		t.Errorf("%d programs differ of %d", different, ran)
	}
}

// difference shows what is not alike.
func difference(got, want outcome) string {
	var b strings.Builder
	a, c := append(got.rows, got.notices...), append(want.rows, want.notices...)
	for i := range max(len(a), len(c)) {
		var x, y string
		if i < len(a) {
			x = a[i]
		}
		if i < len(c) {
			y = c[i]
		}
		if x != y {
			fmt.Fprintf(&b, "got  %s\nwant %s\n", x, y)
			break
		}
	}
	fmt.Fprintf(&b, "got  %s %s %s\nwant %s %s %s", got.err, got.context, got.tables, want.err, want.context, want.tables)
	return b.String()
}

func (o *outcome) forgetLines() {
	o.context = progtest.WithoutLines(o.context)
	o.notices = slices.Clone(o.notices)
	for i, n := range o.notices {
		o.notices[i] = progtest.WithoutLines(n)
	}
}

// last is the last line of a CONTEXT, which names the line of the program.
func last(context string) string { return context[strings.LastIndexByte(context, '\n')+1:] }
