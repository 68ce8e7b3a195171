package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"weft/pgerr"
	"weft/pgserver"
	"weft/pgserver/pgtest"
	"weft/program/progtest"
)

// connection runs SQL for a program on one connection, without weft.
type connection struct {
	conn     *pgconn.PgConn
	front    *pgproto3.Frontend
	prepared map[string]*Prepared
	notices  []string
	rows     []string
	prepares int
	depth    int
	portals  int
}

func connect(t testing.TB) *connection {
	t.Helper()
	srv := pgtest.Start(t, pgserver.Config{})
	conn, err := pgconn.Connect(t.Context(), srv.ConnString("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return &connection{conn: conn, front: conn.Frontend(), prepared: map[string]*Prepared{}}
}

// round sends what was put together, and hands every answer to take until the server is ready.
func (c *connection) round(take func(pgproto3.BackendMessage) error) error {
	c.front.Send(&pgproto3.Sync{})
	return c.answers(take)
}

func (c *connection) answers(take func(pgproto3.BackendMessage) error) (first error) {
	if err := c.front.Flush(); err != nil {
		return err
	}
	for {
		m, err := c.front.Receive()
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *pgproto3.ReadyForQuery:
			return first
		case *pgproto3.NoticeResponse:
			c.Notice(&pgerr.Error{Severity: pgerr.Severity(m.Severity), Code: m.Code, Message: m.Message, Detail: m.Detail, Hint: m.Hint, Where: m.Where})
		case *pgproto3.ErrorResponse:
			if first == nil {
				first = &pgerr.Error{
					Severity: pgerr.Severity(m.Severity), Code: m.Code, Message: m.Message, Detail: m.Detail, Hint: m.Hint, Where: m.Where,
					Position: int(m.Position), Schema: m.SchemaName, Table: m.TableName, Column: m.ColumnName, Type: m.DataTypeName, Constraint: m.ConstraintName,
				}
			}
		default:
			if err := take(m); err != nil && first == nil {
				first = err
			}
		}
	}
}

func (c *connection) Prepare(ctx context.Context, sql string, types []uint32) (*Prepared, error) {
	key := fmt.Sprint(types) + sql
	if p := c.prepared[key]; p != nil {
		return p, nil
	}
	c.prepares++
	p := &Prepared{SQL: sql, Types: types, Handle: "s" + strconv.Itoa(c.prepares)}
	if err := c.parse(p); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(sql, "FETCH") {
		c.prepared[key] = p
	}
	return p, nil
}

func (c *connection) parse(p *Prepared) error {
	name := p.Handle.(string)
	c.front.Send(&pgproto3.Parse{Name: name, Query: p.SQL, ParameterOIDs: p.Types})
	c.front.Send(&pgproto3.Describe{ObjectType: 'S', Name: name})
	return c.round(func(m pgproto3.BackendMessage) error {
		if d, ok := m.(*pgproto3.RowDescription); ok {
			p.Columns = []Column{}
			for _, f := range d.Fields {
				p.Columns = append(p.Columns, Column{Name: string(f.Name), OID: f.DataTypeOID, Typmod: f.TypeModifier})
			}
		}
		return nil
	})
}

func (c *connection) Execute(ctx context.Context, p *Prepared, args []Value, limit int, row func([]Value) error) (tag string, err error) {
	b := &pgproto3.Bind{PreparedStatement: p.Handle.(string)}
	for _, a := range args {
		if !a.Valid {
			b.Parameters = append(b.Parameters, nil)
			continue
		}
		b.Parameters = append(b.Parameters, []byte(a.Text))
	}
	c.front.Send(b)
	c.front.Send(&pgproto3.Execute{MaxRows: uint32(limit)})
	err = c.round(func(m pgproto3.BackendMessage) error {
		switch m := m.(type) {
		case *pgproto3.DataRow:
			out := make([]Value, len(m.Values))
			for i, v := range m.Values {
				if v != nil {
					out[i] = text(string(v))
				}
			}
			if row != nil {
				return row(out)
			}
		case *pgproto3.CommandComplete:
			tag = string(m.CommandTag)
		}
		return nil
	})
	return tag, err
}

func (c *connection) Probe(ctx context.Context, sql string, types []uint32) ([]Column, error) {
	if err := c.simple("SAVEPOINT probe"); err != nil {
		return nil, err
	}
	p := &Prepared{SQL: sql, Types: types, Handle: ""}
	failed := c.parse(p)
	if err := c.simple("ROLLBACK TO probe; RELEASE probe"); err != nil {
		return nil, err
	}
	return p.Columns, failed
}

func (c *connection) simple(sql string) error {
	c.front.Send(&pgproto3.Query{String: sql})
	return c.answers(func(pgproto3.BackendMessage) error { return nil })
}

func (c *connection) Savepoint(ctx context.Context) error {
	c.depth++
	return c.simple(fmt.Sprintf("SAVEPOINT s%d", c.depth))
}

func (c *connection) Release(ctx context.Context) error {
	c.depth--
	return c.simple(fmt.Sprintf("RELEASE s%d", c.depth+1))
}

func (c *connection) RollbackTo(ctx context.Context) error {
	c.depth--
	return c.simple(fmt.Sprintf("ROLLBACK TO s%d; RELEASE s%d", c.depth+1, c.depth+1))
}

func (c *connection) End(ctx context.Context, commit, chain bool) error {
	what := "ROLLBACK"
	if commit {
		what = "COMMIT"
	}
	return c.simple(what + "; BEGIN")
}

func (c *connection) Notice(n *pgerr.Error) {
	if n.Severity == "DEBUG" || n.Severity == "LOG" {
		return
	}
	// What a function says that PostgreSQL runs itself has the rest of the CONTEXT from the executor.
	n.Where, _, _ = strings.Cut(n.Where, "\n")
	c.notices = append(c.notices, fmt.Sprintf("%s %s %s|%s|%s|%s", n.Severity, n.Code, n.Message, n.Detail, n.Hint, n.Where))
}

func (c *connection) Row(row []Value) error {
	c.rows = append(c.rows, shownRow(row))
	return nil
}

func shownRow(row []Value) string {
	var b strings.Builder
	for _, v := range row {
		if v.Valid {
			fmt.Fprintf(&b, "%q ", v.Text)
		} else {
			b.WriteString("NULL ")
		}
	}
	return b.String()
}

// outcome is what a client sees of a program, and what the program leaves behind.
type outcome struct {
	rows, notices []string
	err           string
	context       string
	tables        string
}

func (o outcome) String() string {
	return fmt.Sprintf("rows %q\nnotices %q\nerror %s\ncontext %s\ntables %s", o.rows, o.notices, o.err, o.context, o.tables)
}

func (o *outcome) fail(err error) {
	e, ok := errors.AsType[*pgerr.Error](err)
	if !ok {
		o.err = fmt.Sprintf("%v", err)
		return
	}
	o.err = fmt.Sprintf("%s %s|%s|%s", e.Code, e.Message, e.Detail, e.Hint)
	o.context = e.Where
}

// dump is the content of the tables.
func (c *connection) dump() string {
	var b strings.Builder
	c.front.Send(&pgproto3.Query{String: "SELECT * FROM t ORDER BY 1, 2, 3; SELECT * FROM u ORDER BY 1, 2"})
	err := c.answers(func(m pgproto3.BackendMessage) error {
		if d, ok := m.(*pgproto3.DataRow); ok {
			fmt.Fprintf(&b, "%q ", d.Values)
		}
		return nil
	})
	if err != nil {
		return err.Error()
	}
	return b.String()
}

// native lets PostgreSQL run a program.
func (c *connection) native(create, call string) (o outcome) {
	c.notices, c.rows = nil, nil
	run := func(sql string) error {
		c.front.Send(&pgproto3.Query{String: sql})
		return c.answers(func(m pgproto3.BackendMessage) error {
			if d, ok := m.(*pgproto3.DataRow); ok {
				row := make([]Value, len(d.Values))
				for i, v := range d.Values {
					if v != nil {
						row[i] = text(string(v))
					}
				}
				return c.Row(row)
			}
			return nil
		})
	}
	err := run("BEGIN; SAVEPOINT x")
	if err == nil && call != "" {
		err = run(create)
	}
	if err == nil {
		err = run(cmp.Or(call, create))
	}
	if err != nil {
		o.fail(err)
		_ = run("ROLLBACK TO x")
	}
	o.tables = c.dump()
	if err := c.simple("ROLLBACK"); err != nil {
		o.fail(err)
	}
	o.rows, o.notices = c.rows, c.notices
	return o
}

// ours lets Run run it.
func (c *connection) ours(ctx context.Context, create string, args []Value, cache *Cache) (o outcome) {
	c.notices, c.rows, c.depth = nil, nil, 0
	src, err := FromText(create)
	if err != nil {
		o.fail(err)
		return o
	}
	p, err := Compile(src)
	if err != nil {
		o.fail(err)
		o.tables = c.dump()
		return o
	}
	if err := c.simple("BEGIN; SAVEPOINT x"); err != nil {
		o.fail(err)
	}
	res, err := p.Run(ctx, &Environment{
		Executor: c, Transaction: c, Output: c, Cache: cache, Atomic: true, Asserts: true, CursorsByVariable: true,
		Portal: func() string {
			c.portals++
			return fmt.Sprintf("<unnamed portal %d>", c.portals)
		},
	}, args)
	if err != nil {
		o.fail(err)
		if err := c.simple("ROLLBACK TO x"); err != nil {
			o.fail(err)
		}
	} else if res.Null {
		c.rows = append(c.rows, shownRow(make([]Value, max(1, len(res.Columns)))))
	}
	o.tables = c.dump()
	if err := c.simple("ROLLBACK"); err != nil {
		o.fail(err)
	}
	o.rows, o.notices = c.rows, c.notices
	return o
}

// tables are those that the programs of the tests use.
const tables = progtest.Tables + progtest.Rows + progtest.Types
