package copying

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// testPiped sends other statements before and behind a COPY without a Sync between: they
// are one transaction.
func testPiped(t *testing.T, w *world) {
	for _, c := range [][2]string{
		{"", "select 1/0"},
		{"", "select 7"},
		{"", "insert into items (k) values (5)"},
		{"insert into items (k) values (77)", "select 1/0"},
		{"insert into items (k) values (78)", "select 8"},
		{"select 1", "insert into items (k) values (79)"},
	} {
		for _, data := range []string{"11\tx\n12\ty\n13\tz\n14\tz\n", "1\tx\nbad\ty\n"} {
			want, got := piped(w.plain, c[0], data, c[1]), piped(w.weft, c[0], data, c[1])
			if want != got && !strings.Contains(got, "0A000") {
				t.Errorf("%q\nPostgreSQL: %s\nweft:       %s", c, want, got)
			}
			if strings.Contains(got, "0A000") {
				t.Logf("%q: %s", c, got)
				must(t, w.plain, "delete from items")
			}
			w.same(t)
			must(t, w.plain, "delete from items")
			must(t, w.weft, "delete from items")
		}
	}
}

func piped(c *pgconn.PgConn, before, data, after string) string {
	f := c.Frontend()
	_ = c.Conn().SetDeadline(time.Now().Add(patience))
	defer func() { _ = c.Conn().SetDeadline(time.Time{}) }()
	put := func(sql string) {
		if sql == "" {
			return
		}
		f.SendParse(&pgproto3.Parse{Query: sql})
		f.SendBind(&pgproto3.Bind{})
		f.SendExecute(&pgproto3.Execute{})
	}
	put(before)
	put("copy items (k, a) from stdin")
	f.Send(&pgproto3.Flush{})
	_ = f.Flush()
	var b strings.Builder
	for {
		m, err := f.Receive()
		if err != nil {
			return b.String() + err.Error()
		}
		switch m := m.(type) {
		case *pgproto3.CopyInResponse:
			f.Send(&pgproto3.CopyData{Data: []byte(data)})
			f.Send(&pgproto3.CopyDone{})
			put(after)
			f.SendSync(&pgproto3.Sync{})
			_ = f.Flush()
		case *pgproto3.ErrorResponse:
			fmt.Fprintf(&b, "%s %s; ", m.Code, m.Message)
			if !strings.Contains(b.String(), "CopyIn") {
				f.SendSync(&pgproto3.Sync{})
				_ = f.Flush()
			}
		case *pgproto3.CommandComplete:
			fmt.Fprintf(&b, "%s; ", m.CommandTag)
		case *pgproto3.ReadyForQuery:
			fmt.Fprintf(&b, "ready %c", m.TxStatus)
			return b.String()
		}
		if _, ok := m.(*pgproto3.CopyInResponse); ok {
			b.WriteString("CopyIn; ")
		}
	}
}
