package routing

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"weft/integration/harness"
)

// mode is a way to put a statement to a server.
type mode string

// The modes. In simple queries parameters become literals.
const (
	simple   mode = "simple"
	text     mode = "text"     // unnamed statement, parameters and rows as text
	binary   mode = "binary"   // unnamed statement, parameters and rows in binary
	prepared mode = "prepared" // named statement, prepared once
)

var modes = []mode{simple, text, binary, prepared}

// patience is how long a statement may take before it counts as hanging.
const patience = 20 * time.Second

// peer is one connection of a pair.
type peer struct {
	conn  *pgconn.PgConn
	names *oidNames
	known map[string]*pgconn.StatementDescription // prepared ones by types and text
}

func connect(t testing.TB, target *harness.Target, database, user string) *peer {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
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
	return &peer{conn: conn, names: newOIDNames(t, target, database), known: map[string]*pgconn.StatementDescription{}}
}

// ask puts one statement and collects the answer.
func (p *peer) ask(m mode, sql string, set []param, mask map[string]bool) answer {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	var a answer
	var err error
	if m == simple {
		err = p.askSimple(ctx, inline(sql, set), mask, &a)
	} else {
		err = p.askExtended(ctx, m, sql, set, mask, &a)
	}
	if lower := strings.ToLower(sql); err == nil && (strings.HasPrefix(lower, "deallocate all") || strings.HasPrefix(lower, "discard all")) {
		clear(p.known)
	}
	a = a.failed(err)
	a.status = p.conn.TxStatus()
	return a
}

func (p *peer) askSimple(ctx context.Context, sql string, mask map[string]bool, a *answer) error {
	results := p.conn.Exec(ctx, sql)
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

func (p *peer) askExtended(ctx context.Context, m mode, sql string, set []param, mask map[string]bool, a *answer) error {
	oids := make([]uint32, len(set))
	for i, v := range set {
		oids[i] = typeOIDs[v.typ]
	}
	if m == text {
		values := make([][]byte, len(set))
		for i, v := range set {
			if v.text != nil {
				values[i] = []byte(*v.text)
			}
		}
		return p.read(p.conn.ExecParams(ctx, sql, values, oids, nil, nil), mask, a)
	}
	name, key := "", fmt.Sprint(oids, sql)
	sd := p.known[key]
	if m == prepared {
		name = "s" + strconv.Itoa(len(p.known))
	}
	if sd == nil || m != prepared {
		var err error
		if sd, err = p.conn.Prepare(ctx, name, sql, oids); err != nil {
			return err
		}
		if m == prepared {
			p.known[key] = sd
		}
	}
	for _, oid := range sd.ParamOIDs {
		a.params = append(a.params, p.names.typ(oid))
	}
	values, formats := make([][]byte, len(set)), make([]int16, len(set))
	for i, v := range set {
		if v.text == nil {
			continue
		}
		values[i] = []byte(*v.text)
		if m != binary || i >= len(sd.ParamOIDs) {
			continue
		}
		if b, ok := toBinary(sd.ParamOIDs[i], *v.text); ok {
			values[i], formats[i] = b, 1
		}
	}
	var results []int16
	if m == binary && builtin(sd.Fields) {
		results = []int16{1}
	}
	return p.read(p.conn.ExecPrepared(ctx, sd.Name, values, formats, results), mask, a)
}

func (p *peer) read(r *pgconn.ResultReader, mask map[string]bool, a *answer) error {
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

var placeholder = regexp.MustCompile(`\$(\d+)`)

// inline writes parameters as the literals that mean the same.
func inline(sql string, set []param) string {
	if len(set) == 0 {
		return sql
	}
	return placeholder.ReplaceAllStringFunc(sql, func(m string) string {
		n, _ := strconv.Atoi(m[1:])
		if n > len(set) {
			return m
		}
		p := set[n-1]
		switch {
		case p.text == nil && p.typ == "unknown":
			return "NULL"
		case p.text == nil:
			return "NULL::" + p.typ
		case (p.typ == "int2" || p.typ == "int4" || p.typ == "int8" || p.typ == "numeric") && number.MatchString(*p.text):
			return *p.text
		case p.typ == "unknown" || p.typ == "bpchar": // a cast to bpchar is another thing
			return "'" + strings.ReplaceAll(*p.text, "'", "''") + "'"
		default:
			return "'" + strings.ReplaceAll(*p.text, "'", "''") + "'::" + p.typ
		}
	})
}

var number = regexp.MustCompile(`^[0-9.]+$`)

// pair is a client of both servers.
type pair struct {
	plain, weft *peer
	mask        map[string]bool
	counts      *counts
}

// counts are for the end of the log.
type counts struct{ asked, refused int }

func newPair(t testing.TB, database string) *pair {
	t.Helper()
	return &pair{
		plain: connect(t, harness.Postgres(t), database, "postgres"), weft: connect(t, harness.Weft(t), database, "postgres"),
		mask: map[string]bool{}, counts: &counts{},
	}
}

// both runs statements that must succeed on both.
func (p *pair) both(t testing.TB, pos, sql string) {
	t.Helper()
	for _, peer := range []*peer{p.weft, p.plain} {
		if a := peer.ask(simple, sql, nil, nil); a.code != "" {
			name := "PostgreSQL"
			if peer == p.weft {
				name = "weft"
			}
			t.Fatalf("%s: %s: %s on %s: %s", pos, sql, a.code, name, a.message)
		}
	}
}

// run asks weft, then PostgreSQL, and returns what is wrong with weft's answer.
// What weft refuses PostgreSQL is not asked, so that both have the same data;
// if that failed a transaction both leave it.
func (p *pair) run(m mode, sql string, set []param) (wrong string, want, got answer) {
	p.counts.asked++
	got = p.weft.ask(m, sql, set, p.mask)
	if got.refused() {
		p.counts.refused++
		if got.status == 'E' {
			p.weft.ask(simple, "rollback", nil, nil)
			p.plain.ask(simple, "rollback", nil, nil)
		}
		return "", answer{}, got
	}
	want = p.plain.ask(m, sql, set, p.mask)
	return diff(want, got, ordered(sql)), want, got
}
