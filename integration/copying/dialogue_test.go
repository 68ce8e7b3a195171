package copying

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// How a client ends its data.
const (
	endDone = iota
	endFail
	endGone // it closes the connection
)

// job is one COPY as a client does it.
type job struct {
	sql      string
	pieces   [][]byte // each a CopyData
	end      int
	extended bool
	early    bool // the Sync comes before the data, as libpq sends it
	syncs    bool // Flush and Sync among the data mean nothing, unless it is refused
}

func (j *job) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", j.sql)
	data := slices.Concat(j.pieces...)
	fmt.Fprintf(&b, "%d pieces of %q, end %d, extended %v, early %v, syncs %v", len(j.pieces), clip(string(data)), j.end, j.extended, j.early, j.syncs)
	return b.String()
}

// cutUp cuts data into messages.
func cutUp(r *rand.Rand, data []byte) (out [][]byte) {
	most := pick(r, 1, 2, 5, 50, 1000, 64<<10)
	for len(data) > 0 {
		n := min(len(data), r.IntN(most)+1)
		if len(out) > 2000 {
			n = len(data)
		}
		out = append(out, data[:n])
		data = data[n:]
		if r.IntN(50) == 0 {
			out = append(out, nil)
		}
	}
	return out
}

// answer is what a client hears.
type answer struct {
	told string
	data [][]byte // of COPY TO, by message
}

// run is the client.
func (j *job) run(c *pgconn.PgConn) (a answer) {
	f := c.Frontend()
	_ = c.Conn().SetDeadline(time.Now().Add(patience))
	defer func() { _ = c.Conn().SetDeadline(time.Time{}) }()
	switch {
	case !j.extended:
		f.SendQuery(&pgproto3.Query{String: j.sql})
	default:
		f.SendParse(&pgproto3.Parse{Query: j.sql})
		f.SendBind(&pgproto3.Bind{})
		f.SendExecute(&pgproto3.Execute{})
		if j.early {
			f.SendSync(&pgproto3.Sync{})
		} else {
			f.Send(&pgproto3.Flush{})
		}
	}
	var b strings.Builder
	defer func() { a.told = b.String() }()
	owed := j.extended && !j.early
	sync := func() {
		if owed {
			owed = false
			f.SendSync(&pgproto3.Sync{})
			_ = f.Flush()
		}
	}
	if err := f.Flush(); err != nil {
		fmt.Fprintf(&b, "lost")
		return a
	}
	for {
		m, err := f.Receive()
		if err != nil {
			fmt.Fprintf(&b, "lost: %v", err)
			return a
		}
		switch m := m.(type) {
		case *pgproto3.ErrorResponse:
			fmt.Fprintf(&b, "%s %s: %s\n  DETAIL %s\n  HINT %s\n  WHERE %s\n  OF %s.%s.%s %s\n", m.Severity, m.Code, m.Message, m.Detail, m.Hint, m.Where,
				m.SchemaName, m.TableName, m.ColumnName, m.ConstraintName)
			sync()
		case *pgproto3.NoticeResponse:
			fmt.Fprintf(&b, "%s %s: %s\n", m.Severity, m.Code, m.Message)
		case *pgproto3.CommandComplete:
			fmt.Fprintf(&b, "%s\n", m.CommandTag)
			sync()
		case *pgproto3.ReadyForQuery:
			fmt.Fprintf(&b, "ready %c", m.TxStatus)
			if j.syncs {
				drain(f)
			}
			return a
		case *pgproto3.CopyInResponse:
			fmt.Fprintf(&b, "in %d %d\n", m.OverallFormat, m.ColumnFormatCodes)
			owed = false
			if !j.send(c) {
				b.WriteString("gone")
				return a
			}
		case *pgproto3.CopyOutResponse:
			fmt.Fprintf(&b, "out %d %d\n", m.OverallFormat, m.ColumnFormatCodes)
		case *pgproto3.CopyData:
			a.data = append(a.data, slices.Clone(m.Data))
		case *pgproto3.ParseComplete, *pgproto3.BindComplete, *pgproto3.ParameterStatus:
		case *pgproto3.CopyDone:
			fmt.Fprintf(&b, "done\n")
		default:
			fmt.Fprintf(&b, "%T\n", m)
		}
	}
}

// drain reads what may still come: each Sync behind an error is answered, and how many
// that are depends on when it was found.
func drain(f *pgproto3.Frontend) {
	f.SendQuery(&pgproto3.Query{String: "select"})
	_ = f.Flush()
	for seen := false; ; {
		switch m, err := f.Receive(); m.(type) {
		case *pgproto3.DataRow, *pgproto3.ErrorResponse:
			seen = true
		case *pgproto3.ReadyForQuery:
			if seen {
				return
			}
		default:
			if err != nil {
				return
			}
		}
	}
}

// send sends the data.
func (j *job) send(c *pgconn.PgConn) bool {
	f := c.Frontend()
	for i, p := range j.pieces {
		f.Send(&pgproto3.CopyData{Data: p})
		if j.syncs && i%7 == 3 {
			f.Send(&pgproto3.Flush{})
			f.Send(&pgproto3.Sync{})
		}
	}
	switch j.end {
	case endDone:
		f.Send(&pgproto3.CopyDone{})
	case endFail:
		f.Send(&pgproto3.CopyFail{Message: "had enough"})
	case endGone:
		_ = f.Flush()
		_ = c.Conn().Close()
		return false
	}
	if j.extended {
		f.SendSync(&pgproto3.Sync{})
	}
	_ = f.Flush()
	return true
}

var aUUID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)

// normal is an answer without what may differ.
func (a answer) normal(mask bool) string {
	if mask {
		return aUUID.ReplaceAllString(a.told, "UUID")
	}
	return a.told
}

// rows are the data of COPY TO, in an order of their own after the first head ones.
func (a answer) rows(kind string, head int) string {
	data := a.data
	if kind == "binary" {
		data = binaryRows(slices.Concat(a.data...))
		head = 1
	}
	if len(data) > head {
		slices.SortFunc(data[head:], slices.Compare)
	}
	return fmt.Sprintf("%q", data)
}

// binaryRows cuts binary data: its head, the rows, its tail with the first byte of it
// that is no row.
func binaryRows(rest []byte) (out [][]byte) {
	n := min(19, len(rest))
	out = append(out, rest[:n])
	for rest = rest[n:]; len(rest) > 2; {
		at := 2
		for range int(rest[0])<<8 | int(rest[1]) {
			size := int(int32(uint32(rest[at])<<24 | uint32(rest[at+1])<<16 | uint32(rest[at+2])<<8 | uint32(rest[at+3])))
			at += 4 + max(size, 0)
		}
		out = append(out, rest[:at])
		rest = rest[at:]
	}
	return append(out, rest)
}
