package schema

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/quote"
)

// maxShown bounds how many differing rows of a shard are reported one by one. maxCompared bounds
// the size of tables whose rows are compared for that.
const (
	maxShown    = 10
	maxCompared = 100_000
)

// VerifyReference compares the copies of a reference table and returns a line for each finding, or
// one line that says there is none. Without a table it compares all reference tables of the
// database. No session can write the table meanwhile.
func (m *Mover) VerifyReference(ctx context.Context, req Request) ([]string, error) {
	snap, err := m.cfg.Directory.Load(ctx)
	if err != nil {
		return nil, err
	}
	var tables []catalog.Name
	for _, t := range snap.Declared(req.Database) {
		name := catalog.Name{Schema: t.Schema, Name: t.Name}
		if t.Kind == directory.Reference && t.State == directory.Active && (req.Table.Name == "" || req.Table == name) {
			tables = append(tables, name)
		}
	}
	if len(tables) == 0 && req.Table.Name != "" {
		return nil, pgerr.New(pgerr.ObjectNotInPrerequisiteState, "%q is not a reference table", req.name())
	}
	var out []string
	for _, name := range tables {
		one := req
		one.Table = name
		lines, _, err := m.verifyCopies(ctx, snap, &one)
		if err != nil {
			return nil, m.ended(ctx, err)
		}
		out = append(out, lines...)
	}
	return out, nil
}

// copyOf is what one shard has of a table.
type copyOf struct {
	*session
	rows, sum string
}

// verifyCopies compares the copies of one table.
func (m *Mover) verifyCopies(ctx context.Context, snap *directory.Snapshot, req *Request) (lines []string, same bool, err error) {
	var copies []*copyOf
	defer func() {
		for _, c := range copies {
			c.close()
		}
	}()
	// Home comes first: writers queue up there. On the other shards the lock waits for transactions
	// that have committed at home and are still prepared.
	for _, shard := range append([]string{snap.Home}, others(snap)...) {
		s, err := open(ctx, m.cfg.Shards, shard, req.Database, req.User, "weft")
		if err != nil {
			return nil, false, err
		}
		copies = append(copies, &copyOf{session: s})
		if err := s.run("BEGIN", fmt.Sprintf("SET LOCAL lock_timeout = %d", max(1, req.lockTimeout().Milliseconds())),
			"LOCK TABLE "+req.Table.SQL()+" IN SHARE MODE"); err != nil {
			return nil, false, err
		}
	}
	columns, err := copies[0].Exec("SELECT attname FROM pg_attribute WHERE attrelid = " + quote.Literal(req.Table.SQL()) + "::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum")
	if err != nil {
		return nil, false, err
	}
	var names []string
	for _, c := range columns {
		names = append(names, quote.Ident(c[0]))
	}
	row := "ROW(" + strings.Join(names, ", ") + ")::text"
	for _, c := range copies {
		// The sum of two halves of each row's hash is the same for the same rows in any order.
		rows, err := c.Exec("SELECT count(*), coalesce(sum(('x' || left(h, 15))::bit(60)::bigint), 0)::text || ' ' || coalesce(sum(('x' || right(h, 15))::bit(60)::bigint), 0)::text" +
			" FROM (SELECT md5(" + row + ") h FROM " + req.Table.SQL() + ") q")
		if err != nil {
			return nil, false, err
		}
		c.rows, c.sum = rows[0][0], rows[0][1]
	}
	return compareCopies(req, row, copies)
}

// compareCopies words the findings.
func compareCopies(req *Request, row string, copies []*copyOf) (out []string, same bool, err error) {
	home := copies[0]
	for _, c := range copies[1:] {
		if c.rows == home.rows && c.sum == home.sum {
			continue
		}
		out = append(out, fmt.Sprintf("%s: shard %s differs from the home shard: %s rows, not %s", req.name(), c.shard, c.rows, home.rows))
		lines, err := differing(req, row, home, c)
		if err != nil {
			return nil, false, err
		}
		out = append(out, lines...)
	}
	if out == nil {
		return []string{fmt.Sprintf("%s: %d copies of %s rows are the same", req.name(), len(copies), home.rows)}, true, nil
	}
	return out, false, nil
}

// differing lists rows that one of two copies has and the other lacks.
func differing(req *Request, row string, home, c *copyOf) ([]string, error) {
	if number(home.rows) > maxCompared || number(c.rows) > maxCompared {
		return nil, nil
	}
	count := map[string]int{}
	for i, s := range []*copyOf{home, c} {
		rows, err := s.Exec("SELECT " + row + " FROM " + req.Table.SQL())
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			count[r[0]] += 1 - 2*i
		}
	}
	var out []string
	for text, n := range count {
		switch {
		case n > 0:
			out = append(out, fmt.Sprintf("%s: shard %s does not have %s", req.name(), c.shard, times(n, text)))
		case n < 0:
			out = append(out, fmt.Sprintf("%s: shard %s alone has %s", req.name(), c.shard, times(-n, text)))
		}
	}
	slices.Sort(out)
	if more := len(out) - maxShown; more > 0 {
		out = append(out[:maxShown], fmt.Sprintf("%s: and %d more rows", req.name(), more))
	}
	return out, nil
}

func times(n int, text string) string {
	if n == 1 {
		return text
	}
	return fmt.Sprintf("%d times %s", n, text)
}
