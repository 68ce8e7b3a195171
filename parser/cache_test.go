package parser

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"weft/memo"
)

func TestCacheHitParsesNothing(t *testing.T) {
	c := NewCache(1 << 20)
	var s Scanner
	first := c.Facts(&s, []byte("SELECT f(a) FROM t WHERE id = 1 AND b = 'x' -- trace 1"), Options{})
	again := []byte("SELECT f(a) FROM t WHERE id = 22 AND b = 'y''z' -- trace 22")
	if c.Facts(&s, again, Options{}) != first {
		t.Fatal("the same statement with other literals and comment was parsed again")
	}
	if got := c.Facts(&s, []byte("SELECT f(a) FROM t WHERE id = 1.0 AND b = 'x' -- trace 1"), Options{}); got == first {
		t.Fatal("a literal of another kind found the same facts")
	}
	if n := testing.AllocsPerRun(100, func() { c.Facts(&s, again, Options{}) }); n != 0 {
		t.Errorf("a hit allocates %v times", n)
	}
}

// Facts that depend on literals must never be taken for those of a text with other literals.
func TestCacheKeepsExactFactsApart(t *testing.T) {
	c := NewCache(1 << 20)
	var s Scanner
	for range 3 {
		for _, name := range []string{"work_mem", "search_path", "role"} {
			f := c.Facts(&s, fmt.Appendf(nil, "SELECT set_config('%s', 'x', false)", name), Options{})
			if len(f.Settings) != 1 || f.Settings[0].Name != name {
				t.Fatalf("%s: %+v", name, f.Settings)
			}
		}
		for _, arg := range []string{"1", "100", "'abc'"} {
			text := fmt.Sprintf("/* %s */ EXECUTE foo(%s)", arg, arg)
			p := c.Facts(&s, []byte(text), Options{}).Prepared[0]
			if text[p.NameStart:p.NameEnd] != "foo" {
				t.Fatalf("%s: name at %q", text, text[p.NameStart:p.NameEnd])
			}
		}
	}
	text := []byte("EXECUTE foo(1)")
	c.Facts(&s, text, Options{})
	if n := testing.AllocsPerRun(100, func() { c.Facts(&s, text, Options{}) }); n != 0 {
		t.Errorf("a hit by text allocates %v times", n)
	}
	// The same bytes are another statement when strings have escapes.
	text = []byte(`SELECT set_config('a.\\b', 'x', false)`)
	for range 3 {
		if got := c.Facts(&s, text, Options{}).Settings[0].Name; got != `a.\\b` {
			t.Errorf("standard strings: %s", got)
		}
		if got := c.Facts(&s, text, Options{NonStandardStrings: true}).Settings[0].Name; got != `a.\b` {
			t.Errorf("strings with escapes: %s", got)
		}
	}
}

func TestCacheDoesNotKeepErrors(t *testing.T) {
	c := NewCache(1 << 20)
	var s Scanner
	before := c.Bytes()
	for _, text := range []string{"SELEC 1", "SELECT 'a", "SELECT 1" + strings.Repeat("+1", 30000)} {
		if f := c.Facts(&s, []byte(text), Options{}); f.Err == nil || f.Effects != Opaque {
			t.Errorf("%.20s: %v, %v", text, f.Err, f.Effects)
		}
	}
	if f := c.Facts(&s, []byte("SELECT a"+strings.Repeat(", a", 30000)), Options{}); f.Err != nil {
		t.Error(f.Err)
	}
	if c.Bytes() != before {
		t.Errorf("%d bytes were kept", c.Bytes()-before)
	}
}

func TestCacheStaysBoundedUnderAFlood(t *testing.T) {
	const limit = 1 << 20
	c := NewCache(limit)
	var s Scanner
	hot := []byte("SELECT hot FROM t WHERE id = 1")
	want := c.Facts(&s, hot, Options{})
	lost := 0
	for i := range 20000 {
		// Through put, not Facts: parsing twenty thousand texts shows nothing more.
		text := fmt.Appendf(nil, "SELECT col%d FROM t WHERE id = 1 %s", i, strings.Repeat("x", i%500))
		key := memo.Key{Text: text}
		facts := &Facts{Relations: []string{"t"}}
		c.norms.Put(&key, facts, facts.size())
		if got := c.Facts(&s, hot, Options{}); got != want {
			want = got
			lost++
		}
		if i%100 == 0 && c.Bytes() > limit {
			t.Fatalf("holds %d bytes, the limit is %d", c.Bytes(), limit)
		}
	}
	if c.Bytes() < limit/4 {
		t.Errorf("holds only %d bytes of %d", c.Bytes(), limit)
	}
	if lost > 20 {
		t.Errorf("a statement in use was thrown out %d times", lost)
	}
}

// The count of bytes is honest: it is close to what the heap grows by.
func TestCacheCountsWhatItHolds(t *testing.T) {
	c := NewCache(64 << 20)
	var s Scanner
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, counted := heap(), c.Bytes()
	for i := range 3000 {
		c.Facts(&s, fmt.Appendf(nil, "SELECT a%d, f%d(b) FROM table_%d, other_%d WHERE id = 1", i, i, i, i), Options{})
	}
	grown, counted := heap()-before, c.Bytes()-counted
	if counted < grown*7/10 || counted > grown*2 {
		t.Errorf("the heap grew by %d, the cache counts %d", grown, counted)
	}
	runtime.KeepAlive(c)
}

func TestCacheIsSafeForManySessions(t *testing.T) {
	c := NewCache(200 << 10)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			var s Scanner
			for i := range 300 {
				name := fmt.Sprintf("t%d", (i*7+g)%90)
				f := c.Facts(&s, fmt.Appendf(nil, "SELECT 1 FROM %s WHERE a = %d", name, i), Options{})
				if len(f.Relations) != 1 || f.Relations[0] != name {
					t.Errorf("%s: %+v", name, f)
				}
				p := c.Facts(&s, fmt.Appendf(nil, "EXECUTE p(%d)", i%10), Options{})
				if len(p.Prepared) != 1 {
					t.Errorf("%+v", p)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkCacheHit(b *testing.B) {
	c := NewCache(1 << 20)
	text := []byte("SELECT id, name, email FROM users WHERE id = 12345 AND state = 'open';")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		var s Scanner
		for pb.Next() {
			c.Facts(&s, text, Options{})
		}
	})
}
