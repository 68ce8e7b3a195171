package proxy

import (
	"errors"
	"strings"
	"testing"

	"weft/pgerr"
	"weft/wire"
)

// portalFrames are the messages in b: D with the row, s, or C with the tag.
func portalFrames(t *testing.T, b []byte) string {
	t.Helper()
	var out []string
	for len(b) > 0 {
		n := 1 + int(b[1])<<24 + int(b[2])<<16 + int(b[3])<<8 + int(b[4])
		out = append(out, string(b[0])+strings.TrimRight(string(b[5:n]), "\x00"))
		b = b[n:]
	}
	return strings.Join(out, " ")
}

// TestPortalPortions: rows that the client has not asked for are kept for its next Execute. The
// tag counts the rows of the last portion.
func TestPortalPortions(t *testing.T) {
	for _, c := range []struct {
		rows, limit int
		want        []string
	}{
		{0, 2, []string{"CUPDATE 0"}},
		{1, 2, []string{"Da CUPDATE 1"}},
		{2, 2, []string{"Da Db s", "CUPDATE 0"}},
		{3, 2, []string{"Da Db s", "Dc CUPDATE 1"}},
		{3, 0, []string{"Da Db Dc CUPDATE 3"}},
	} {
		var p gatherPortal
		p.keepReturned(1, 0)
		for i := range c.rows {
			if err := p.untold.add(wire.AppendFrame(nil, wire.DataRow, []byte{'a' + byte(i)})); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.untold.rewind(); err != nil {
			t.Fatal(err)
		}
		for i, want := range c.want {
			got, err := p.appendPortion(nil, c.limit, "UPDATE 9")
			if err != nil || portalFrames(t, got) != want {
				t.Errorf("%d rows, portion %d of %d: %q, %v", c.rows, i, c.limit, portalFrames(t, got), err)
			}
		}
		if p.untold != nil {
			t.Errorf("%d rows in portions of %d: rows are still kept", c.rows, c.limit)
		}
	}
}

// TestPortalKeepReturned: another attempt begins without the rows of the last, and a client that
// wants all rows gets them at once.
func TestPortalKeepReturned(t *testing.T) {
	var p gatherPortal
	p.keepReturned(2, 0)
	if err := p.untold.add([]byte("row")); err != nil {
		t.Fatal(err)
	}
	p.keepReturned(2, 3)
	if p.untold.rows != 0 {
		t.Error("rows of the last attempt are left")
	}
	if err := p.untold.add([]byte("long")); pgerr.From(err).Code != pgerr.ConfigurationLimitExceeded {
		t.Errorf("more than weft.max_gather_bytes: %v", err)
	}
	p.keepReturned(0, 3)
	if p.untold != nil {
		t.Error("rows are kept although the client wants all")
	}
}

// TestPortalPromise: a client that knows the result of its statement gets that result or an
// error.
func TestPortalPromise(t *testing.T) {
	for _, c := range []struct {
		promised []byte
		shape    string
		kept     bool
	}{
		{nil, "ab", true},
		{[]byte("ab"), "ab", true},
		{[]byte("ab"), "a", false},
		{[]byte{}, "ab", false},
		{[]byte{}, "", true},
	} {
		p := gatherPortal{statement: &planned{}, promised: c.promised}
		err := p.keepPromise([]byte(c.shape))
		if (err == nil) != c.kept {
			t.Errorf("promised %q, is %q: %v", c.promised, c.shape, err)
		}
		if told := string(p.statement.told); c.kept && told != c.shape || !c.kept && told != "" {
			t.Errorf("promised %q, is %q: the next portal is promised %q", c.promised, c.shape, told)
		}
	}
}

// TestPortalNamed: an error about a value names the client's portal, as PostgreSQL does.
func TestPortalNamed(t *testing.T) {
	const where = "unnamed portal parameter $1 = 'x'"
	for _, c := range []struct{ name, where, want string }{
		{"", where, where},
		{"p", where, `portal "p" parameter $1 = 'x'`},
		{"p", "PL/pgSQL function f() line 1", "PL/pgSQL function f() line 1"},
	} {
		e := pgerr.New("22P02", "invalid input syntax")
		e.Where = c.where
		p := gatherPortal{name: c.name}
		if got := pgerr.From(p.named(e)).Where; got != c.want {
			t.Errorf("portal %q: %q becomes %q", c.name, c.where, got)
		}
		if e.Where != c.where {
			t.Error("the shard's error itself is changed")
		}
	}
	other := errors.New("lost")
	if p := (gatherPortal{name: "p"}); p.named(other) != other || p.named(nil) != nil {
		t.Error("an error that is not about a value is changed")
	}
}

// TestPortalSaidLast: an answer can be taken back as long as nothing has come after it.
func TestPortalSaidLast(t *testing.T) {
	p := gatherPortal{said: []byte("2T")}
	for out, want := range map[string]bool{"12T": true, "2T": true, "12TN": false, "": false, "T": false} {
		if got := p.saidLast([]byte(out)); got != want {
			t.Errorf("output %q: %t", out, got)
		}
	}
	if p := (gatherPortal{}); p.saidLast([]byte("x")) {
		t.Error("nothing was said, and can be taken back")
	}
}

// TestPortalTags: the tag of an Execute after the last row.
func TestPortalTags(t *testing.T) {
	for tag, want := range map[string]string{"": "SELECT 0", "INSERT 0 5": "INSERT 0 0", "UPDATE 12": "UPDATE 0", "MERGE 1": "MERGE 0"} {
		if got := emptyTag(tag); got != want {
			t.Errorf("%q: %q", tag, got)
		}
	}
}
