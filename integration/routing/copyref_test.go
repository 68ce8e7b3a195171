package routing

import (
	"context"
	"strings"
	"testing"

	"weft/integration/harness"
	"weft/integration/pair"
)

// TestCopyReferenceSerial: a serial that COPY into a reference table leaves out is
// the same on all copies, and the sequence goes on from there.
func TestCopyReferenceSerial(t *testing.T) {
	db := database(t, "copy_reference")
	p := pair.Connect(t, harness.Weft(t), db, "postgres")
	p.Must(t, "create table kinds (id serial primary key, made timestamptz not null default now(), name text)")
	p.Must(t, "insert into kinds (name) values ('first')")
	p.Must(t, "select weft.reference_table('kinds')")
	ctx, stop := context.WithTimeout(t.Context(), pair.Patience)
	defer stop()
	tag, err := p.Conn.CopyFrom(ctx, strings.NewReader("a\nb\nc\n"), "copy kinds (name) from stdin")
	if err != nil || tag.String() != "COPY 3" {
		t.Fatal(tag, err)
	}
	p.Must(t, "insert into kinds (name) values ('after')")
	if got := cells(t, p.Must(t, "select string_agg(id || name, ',' order by id) from kinds")); got[0] != "1first,2a,3b,4c,5after" {
		t.Errorf("%s", got)
	}
	if got := cells(t, p.Must(t, "select weft.verify_reference('kinds')")); got[0] != "kinds: 4 copies of 5 rows are the same" {
		t.Errorf("%s", got)
	}
}
