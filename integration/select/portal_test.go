package selects

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"weft/integration/harness"
	"weft/integration/pair"
)

// TestPortals fetches rows of several shards in portions. Each line of a dialogue
// goes up to a Sync, and both servers must answer it alike.
func TestPortals(t *testing.T) {
	w := open(t, settings[0])
	const rows = "select id, s from a order by id"
	for _, dialogue := range []string{
		// Portions in one transaction, and what comes after the last.
		"parse p " + rows + "; bind c p; describe c; execute c 3; execute c 4; execute c 0; execute c 0; execute c 2",
		"begin\nparse p " + rows + "; bind c p; execute c 3\nexecute c 3\nquery select count(*) from a\nexecute c 2\nquery select id from a where k = 1 order by id\nexecute c 0\nclose c\nexecute c 1\nrollback",
		// Two at once, one of them of a single shard.
		"begin\nparse p " + rows + "; bind c p; execute c 2\nparse q select id from b order by id desc; bind d q; execute d 2; execute c 2\nparse o select id from a where k = 1 order by id; bind e o; execute e 1; execute d 1; execute c 1\nexecute e 1; execute c 1\ncommit",
		// A portal ends with its transaction.
		"parse p " + rows + "; bind c p; execute c 3\nexecute c 3",
		"begin\nparse p " + rows + "; bind c p; execute c 3\ncommit\nexecute c 3",
		// Bound and never executed; described only; closed.
		"parse p " + rows + "; bind c p\nparse p2 " + rows + "; bind c p2; describe c; close c",
		"begin\nparse p " + rows + "; bind c p\nquery select 1\ndescribe c\nexecute c 1\nrollback",
		// The unnamed portal is replaced by the next, and by a simple query.
		"begin\nparse p " + rows + "; bind - p; execute - 2\nexecute - 2\nbind - p; execute - 1\nquery select 1\nexecute - 1\nrollback",
		// One that is executed whole, then again.
		"begin\nparse p " + rows + " limit 3; bind c p; execute c 0; execute c 0; execute c 2\nrollback",
		"begin\nparse p select count(*), sum(x) from a; bind c p; execute c 1; execute c 1\nrollback",
		// An error in the middle.
		"begin\nparse p select 1 / (id - 50) from a order by id; bind c p; execute c 2; execute c 2\nrollback",
		// SQL's FETCH on a portal of the protocol, and back to a savepoint.
		"begin\nparse p " + rows + "; bind c p; execute c 2\nquery fetch 2 from c\nexecute c 1\nrollback",
		"begin\nquery savepoint s\nparse p " + rows + "; bind c p; execute c 2\nquery rollback to s\nexecute c 1\nrollback",
		// A cursor of SQL's, executed as a portal.
		"begin\nquery declare c cursor for " + rows + "\nexecute c 2\nquery fetch 2 from c\nexecute c 1\nrollback",
	} {
		var want []string
		for i, target := range []*harness.Target{harness.Postgres(t), harness.Uneven(t, w.weights...)} {
			got := talk(t, target, w.database, dialogue)
			if i == 0 {
				want = got
				continue
			}
			for j, line := range strings.Split(dialogue, "\n") {
				if want[j] != got[j] {
					t.Errorf("%s\n  PostgreSQL: %s\n  weft:       %s\nin\n%s", line, want[j], got[j], dialogue)
					break
				}
			}
		}
	}
}

// talk plays a dialogue on a connection of its own, and returns the answer to each
// line.
func talk(t *testing.T, target *harness.Target, database, dialogue string) []string {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), pair.Patience)
	defer stop()
	conn, err := pgconn.Connect(ctx, target.ConnString("postgres", "dbname="+database))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := conn.Hijack()
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Conn.Close()
	_ = raw.Conn.SetDeadline(time.Now().Add(pair.Patience))
	var out []string
	for line := range strings.SplitSeq(dialogue, "\n") {
		if line == "begin" || line == "commit" || line == "rollback" {
			line = "query " + line
		}
		for m := range strings.SplitSeq(line, "; ") {
			send(t, raw.Frontend, m)
		}
		if !strings.HasPrefix(line, "query ") {
			raw.Frontend.SendSync(&pgproto3.Sync{})
		}
		if err := raw.Frontend.Flush(); err != nil {
			t.Fatal(err)
		}
		out = append(out, hear(t, raw.Frontend, line))
	}
	return out
}

func send(t *testing.T, f *pgproto3.Frontend, message string) {
	t.Helper()
	w := strings.Fields(message)
	name := ""
	if len(w) > 1 && w[1] != "-" {
		name = w[1]
	}
	switch w[0] {
	case "query":
		f.SendQuery(&pgproto3.Query{String: strings.TrimPrefix(message, "query ")})
	case "parse":
		f.SendParse(&pgproto3.Parse{Name: name, Query: strings.TrimPrefix(message, "parse "+w[1]+" ")})
	case "bind":
		f.SendBind(&pgproto3.Bind{DestinationPortal: name, PreparedStatement: w[2]})
	case "describe":
		f.SendDescribe(&pgproto3.Describe{ObjectType: 'P', Name: name})
	case "close":
		f.SendClose(&pgproto3.Close{ObjectType: 'P', Name: name})
	case "execute":
		var n uint32
		if _, err := fmt.Sscan(w[2], &n); err != nil {
			t.Fatal(err)
		}
		f.SendExecute(&pgproto3.Execute{Portal: name, MaxRows: n})
	default:
		t.Fatalf("what is %q?", message)
	}
}

// hear collects what a server says up to ReadyForQuery.
func hear(t *testing.T, f *pgproto3.Frontend, line string) string {
	t.Helper()
	var b strings.Builder
	for {
		m, err := f.Receive()
		if err != nil {
			t.Fatalf("%s: after %s: %v", line, b.String(), err)
		}
		switch m := m.(type) {
		case *pgproto3.DataRow:
			fmt.Fprintf(&b, "%q ", m.Values)
		case *pgproto3.RowDescription:
			for _, c := range m.Fields {
				fmt.Fprintf(&b, "%s:%d ", c.Name, c.DataTypeOID)
			}
		case *pgproto3.CommandComplete:
			fmt.Fprintf(&b, "%s ", m.CommandTag)
		case *pgproto3.ErrorResponse:
			fmt.Fprintf(&b, "error %s ", m.Code)
		case *pgproto3.ParameterStatus, *pgproto3.NoticeResponse:
		case *pgproto3.ReadyForQuery:
			fmt.Fprintf(&b, "ready %c", m.TxStatus)
			return b.String()
		default:
			fmt.Fprintf(&b, "%s ", strings.TrimPrefix(fmt.Sprintf("%T", m), "*pgproto3."))
		}
	}
}
