package proxy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"weft/finish"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/quote"
	"weft/wire"
)

// A command around a gathered query, DECLARE or CREATE TABLE AS, runs on the client's own
// backend of the home shard, over the remainder of the query. The cursor or table that it makes
// is there: FETCH, pg_cursors and the new table are PostgreSQL's own.
//
// The remainder yields the values of the query, but its columns may have lost what a value does
// not carry: modifiers, domains, collations. A table keeps these. So weft asks for them and
// restores them by casts.

// sql is the text that runs over the collected inputs.
func (x *gathering) sql(fill *plan.Fill) string {
	c := x.g.Command
	if c == nil {
		return string(x.g.Remainder.Append(nil, fill))
	}
	fill.Rest = func(dst []byte) []byte {
		dst = append(dst, "(SELECT "...)
		for i := range x.d.Query {
			col := &x.d.Query[i]
			dst = appendComma(dst, i)
			dst = appendNumbered(dst, "q.c", i)
			if col.SQL != "" {
				dst = append(append(dst, "::"...), col.SQL...)
			}
			if coll := x.d.Collations[i]; coll != "" {
				dst = append(append(dst, " COLLATE "...), coll...)
			}
			dst = append(append(dst, " AS "...), quote.Ident(col.Name)...)
		}
		dst = append(dst, " FROM "...)
		dst = x.appendQuery(dst, x.g.Remainder, fill)
		return append(dst, ") q"...)
	}
	return string(c.Text.Append(nil, fill))
}

// appendQuery appends a query as an item of FROM: q, whose columns are c1, c2, …
func (x *gathering) appendQuery(dst []byte, t plan.Text, fill *plan.Fill) []byte {
	dst = t.Append(append(dst, '('), fill)
	dst = append(dst, "\n) q"...)
	if len(x.d.Query) == 0 {
		return dst
	}
	dst = append(dst, '(')
	for i := range x.d.Query {
		dst = appendNumbered(appendComma(dst, i), "c", i)
	}
	return append(dst, ')')
}

// appendComma appends a comma, except before the first item.
func appendComma(dst []byte, i int) []byte {
	if i > 0 {
		dst = append(dst, ", "...)
	}
	return dst
}

// appendNumbered appends a name with a number, which is 1 for the first item.
func appendNumbered(dst []byte, name string, i int) []byte {
	return strconv.AppendInt(append(dst, name...), int64(i+1), 10)
}

// learnCommand finds out the columns of a command's query.
func (rt *routing) learnCommand(x *gathering, d *plan.Description, fill *plan.Fill) error {
	c := x.g.Command
	var err error
	if _, d.Query, err = finish.Describe(rt.s.held.conn, string(c.Query.Append(nil, fill)), d.Params); err != nil {
		return describing(rt.s, "the query of a command", err)
	}
	d.Collations = make([]string, len(d.Query))
	if !c.Keeps || len(d.Query) == 0 {
		return nil
	}
	types, err := rt.askOfQuery(x, fill, "pg_catalog.pg_typeof(%s)::pg_catalog.oid", nil)
	if err != nil {
		return err
	}
	rows, err := rt.s.held.conn.Exec(`SELECT t.oid, t.typcollation <> 0, CASE t.typtype WHEN 'd' THEN pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(t.typname) ELSE '' END
FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace WHERE t.oid IN (` + strings.Join(types, ", ") + ")")
	if err != nil {
		return err
	}
	collatable := make([]bool, len(types))
	for i, typ := range types {
		for _, r := range rows {
			if r[0] != typ {
				continue
			}
			collatable[i] = r[1] == "t" && d.Query[i].SQL != ""
			if r[2] != "" {
				d.Query[i].SQL = r[2]
			}
		}
	}
	d.Collations, err = rt.askOfQuery(x, fill, "pg_catalog.pg_collation_for(%s)", collatable)
	if err != nil {
		return err
	}
	for i, name := range d.Collations {
		if collatable[i] && name == "" {
			return pgerr.New(pgerr.IndeterminateCollation, "no collation was derived for column %q with collatable type %s", d.Query[i].Name, strings.TrimPrefix(d.Query[i].SQL, "pg_catalog.")).
				WithHint("Use the COLLATE clause to set the collation explicitly.")
		}
	}
	return nil
}

// describing logs that PostgreSQL does not accept one of weft's own texts, and returns an error
// about it. Other errors are returned unchanged.
func describing(s *Session, what string, err error) error {
	if !blames(err) {
		return err
	}
	s.log.Error("a text of weft's own cannot be described", "text", what, "err", err)
	return pgerr.New(pgerr.InternalError, "%s cannot be described: %s", what, pgerr.From(err).Message)
}

// blames reports whether an error is about a text, and not about what happened while the text
// was looked at: a lost backend, a cancel request, a lock that could not be had.
func blames(err error) bool {
	code := pgerr.From(err).Code
	return !errors.Is(err, pool.ErrLost) &&
		!slices.ContainsFunc([]string{"08", "25", "40", "53", "55", "57"}, func(class string) bool { return strings.HasPrefix(code, class) })
}

// askOfQuery evaluates an expression about each column of a command's query without running the
// query. If which is nil, it asks about all columns; columns that are not asked about get "".
func (rt *routing) askOfQuery(x *gathering, fill *plan.Fill, what string, which []bool) ([]string, error) {
	sql := []byte("SELECT ")
	asked := 0
	for i := range x.d.Query {
		if which == nil || which[i] {
			sql = fmt.Appendf(appendComma(sql, asked), what, appendNumbered(nil, "q.c", i))
			asked++
		}
	}
	out := make([]string, len(x.d.Query))
	if asked == 0 {
		return out, nil
	}
	// The inner query yields one row of NULLs with the types and collations of the command's
	// query.
	sql = append(sql, " FROM (SELECT) one LEFT JOIN LATERAL (SELECT * FROM "...)
	sql = x.appendQuery(sql, x.g.Command.Query, fill)
	sql = append(sql, " LIMIT 0) q ON true"...)

	l := &leg{s: rt.s, conn: rt.s.held.conn}
	l.out = wire.AppendParse(nil, "", string(sql), appendOIDs(nil, x.d.Params))
	var at int
	l.out, at = wire.Begin(l.out, wire.Bind)
	l.out = append(append(append(l.out, 0, 0), x.req.values...), 0, 0)
	l.out = appendExecute(wire.End(l.out, at))
	l.out = wire.AppendEmpty(l.out, wire.Sync)
	rt.s.held.conn.UnnamedGone()
	row, err := l.Next()
	if err != nil {
		l.drain()
		if errors.Is(err, io.EOF) {
			err = wire.ErrMalformed
		}
		return nil, describing(rt.s, "the query of a command", err)
	}
	row = row[min(2, len(row)):]
	for i := range out {
		if which != nil && !which[i] {
			continue
		}
		if out[i], row, err = textField(row); err != nil {
			return nil, rt.s.held.conn.Lost(err)
		}
	}
	l.drain()
	return out, l.err
}

// textField takes the first field off a row; it is "" for NULL.
func textField(row []byte) (field string, rest []byte, err error) {
	if len(row) < 4 {
		return "", nil, wire.ErrMalformed
	}
	size := max(int(int32(binary.BigEndian.Uint32(row))), 0)
	if row = row[4:]; len(row) < size {
		return "", nil, wire.ErrMalformed
	}
	return string(row[:size]), row[size:], nil
}
