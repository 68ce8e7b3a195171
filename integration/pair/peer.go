package pair

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"weft/integration/harness"
)

// Mode is a way to put a statement to a server.
type Mode string

// The modes. In simple queries parameters become literals.
const (
	Simple   Mode = "simple"
	Text     Mode = "text"     // unnamed statement, parameters and rows as text
	Binary   Mode = "binary"   // unnamed statement, parameters and rows in binary
	Prepared Mode = "prepared" // named statement, prepared once
)

// Modes are all of them.
var Modes = []Mode{Simple, Text, Binary, Prepared}

// Patience is how long a statement may take before it counts as hanging: longer than a
// declaration takes on a busy machine.
const Patience = 3 * time.Minute

// Peer is one connection of a pair.
type Peer struct {
	Conn  *pgconn.PgConn
	names *oidNames
	Known map[string]*pgconn.StatementDescription // prepared ones by types and text
	bySQL int                                     // how many were prepared by SQL
}

// Connect opens a connection that ends with the test.
func Connect(t testing.TB, target *harness.Target, database, user string) *Peer {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), Patience)
	defer stop()
	conn, err := pgconn.Connect(ctx, target.ConnString(user, "dbname="+database))
	if err != nil {
		t.Fatalf("connect to %s: %v", target.Name, err)
	}
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		_ = conn.Close(ctx) // may be broken by a test that failed
	})
	return &Peer{Conn: conn, names: newOIDNames(t, target, database), Known: map[string]*pgconn.StatementDescription{}}
}

// Ask puts one statement and collects the answer.
func (p *Peer) Ask(m Mode, sql string, set []Param, mask map[string]bool) Answer {
	ctx, stop := context.WithTimeout(context.Background(), Patience)
	defer stop()
	var a Answer
	var err error
	if way, e := p.askWay(ctx, m, sql, set, mask, &a); way {
		err = e
	} else if m == Simple {
		err = p.askSimple(ctx, Inline(sql, set), mask, &a)
	} else {
		err = p.askExtended(ctx, m, sql, set, mask, &a)
	}
	if lower := strings.ToLower(sql); err == nil && (strings.HasPrefix(lower, "deallocate all") || strings.HasPrefix(lower, "discard all")) {
		clear(p.Known)
	}
	if err != nil {
		a = a.failed(err)
	}
	a.Status = p.Conn.TxStatus()
	return a
}

// Must puts a simple query that must succeed.
func (p *Peer) Must(t testing.TB, sql string) Answer {
	t.Helper()
	a := p.Ask(Simple, sql, nil, nil)
	if a.Code != "" {
		t.Fatalf("%s: %s %s", sql, a.Code, a.Message)
	}
	return a
}

func (p *Peer) askSimple(ctx context.Context, sql string, mask map[string]bool, a *Answer) error {
	results := p.Conn.Exec(ctx, sql)
	for results.NextResult() {
		r := results.ResultReader().Read()
		if r.Err != nil {
			_ = results.Close() // the same error
			return r.Err
		}
		a.add(p.names, r.FieldDescriptions, r.Rows, r.CommandTag.String(), mask)
	}
	return results.Close()
}

func (p *Peer) askExtended(ctx context.Context, m Mode, sql string, set []Param, mask map[string]bool, a *Answer) error {
	oids := make([]uint32, len(set))
	for i, v := range set {
		oids[i] = TypeOIDs[v.Type]
	}
	if m == Text {
		values := make([][]byte, len(set))
		for i, v := range set {
			if v.Text != nil {
				values[i] = []byte(*v.Text)
			}
		}
		return p.read(p.Conn.ExecParams(ctx, sql, values, oids, nil, nil), mask, a)
	}
	name, key := "", fmt.Sprint(oids, sql)
	sd := p.Known[key]
	if m == Prepared {
		name = "s" + strconv.Itoa(len(p.Known))
	}
	if sd == nil || m != Prepared {
		var err error
		if sd, err = p.Conn.Prepare(ctx, name, sql, oids); err != nil {
			return err
		}
		if m == Prepared {
			p.Known[key] = sd
		}
	}
	for _, oid := range sd.ParamOIDs {
		a.Params = append(a.Params, p.names.typ(oid))
	}
	values, formats := make([][]byte, len(set)), make([]int16, len(set))
	for i, v := range set {
		if v.Text == nil {
			continue
		}
		values[i] = []byte(*v.Text)
		if m != Binary || i >= len(sd.ParamOIDs) {
			continue
		}
		if b, ok := toBinary(sd.ParamOIDs[i], *v.Text); ok {
			values[i], formats[i] = b, 1
		}
	}
	var results []int16
	if m == Binary && builtin(sd.Fields) {
		results = []int16{1}
	}
	return p.read(p.Conn.ExecPrepared(ctx, sd.Name, values, formats, results), mask, a)
}

func (p *Peer) read(r *pgconn.ResultReader, mask map[string]bool, a *Answer) error {
	res := r.Read()
	if res.Err != nil {
		return res.Err
	}
	a.add(p.names, res.FieldDescriptions, res.Rows, res.CommandTag.String(), mask)
	return nil
}

// builtin: no value of these columns has an OID inside that differs from server
// to server.
func builtin(fields []pgconn.FieldDescription) bool {
	for _, f := range fields {
		if f.DataTypeOID >= firstUserOID || f.DataTypeOID == pgtype.RecordOID || f.DataTypeOID == pgtype.RecordArrayOID {
			return false
		}
	}
	return true
}

var typeMap = pgtype.NewMap()

// toBinary translates a value from text. It is false for what cannot be read as
// that type: then it is sent as text, for the server to complain about.
func toBinary(oid uint32, text string) ([]byte, bool) {
	t, ok := typeMap.TypeForOID(oid)
	if !ok {
		return nil, false
	}
	v, err := t.Codec.DecodeValue(typeMap, oid, pgx.TextFormatCode, []byte(text))
	if err != nil {
		return nil, false
	}
	b, err := typeMap.Encode(oid, pgx.BinaryFormatCode, v, nil)
	return b, err == nil && b != nil
}
