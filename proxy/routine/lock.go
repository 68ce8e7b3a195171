package routine

import (
	"context"
	"encoding/binary"
	"maps"
	"slices"
	"strconv"
	"strings"

	"weft/pgerr"
	"weft/plan"
	"weft/program"
	"weft/quote"
	"weft/wire"
)

// maxLockAttempts bounds how often a query that locks rows begins anew because others have changed them meanwhile.
const maxLockAttempts = 100

// mostRows is for how many rows the second look names them.
const mostRows = 2000

// keysAtOnce is how many rows a statement locks by their keys.
const keysAtOnce = 500

// locking is a query that locks rows by their keys: see plan.Locked.
type locking struct {
	r       *Run
	l       *plan.Locked
	types   []uint32 // of the parameters, as the client declared them
	values  []byte   // the parameters, as in a Bind
	formats []int16  // of the columns of a look
	columns int      // how many of them the client gets

	locked   []map[string]bool // by table: the keys that are locked
	excluded []map[string]bool // by table: those that others have locked
	bytes    int64
}

// lookedRow is a row of a look.
type lookedRow struct {
	body []byte   // the DataRow for the client
	keys []rowKey // by table
	n    int64    // the LIMIT, negative for none
}

// Lock runs a query that locks rows by their keys, in the transaction that is open.
func (r *Run) Lock(ctx context.Context, l *plan.Locked, q Request) (*Result, error) {
	values, formats, err := splitBind(q.Bind)
	if err != nil {
		return nil, err
	}
	d, err := r.d.describe(&program.Prepared{SQL: q.Text, Types: q.Types, Handle: r.d.room.name("d")})
	if err != nil {
		return nil, err
	}
	x := &locking{r: r, l: l, types: q.Types, values: values, columns: len(d.columns)}
	for i := range x.columns {
		x.formats = append(x.formats, formatOf(formats, i))
	}
	for i := range l.Tables {
		x.formats = append(x.formats, make([]int16, len(l.Tables[i].Keys))...)
	}
	x.formats = append(x.formats, 0) // the limit
	for range maxLockAttempts {
		if err := r.d.Savepoint(ctx); err != nil {
			return nil, err
		}
		list, done, err := x.attempt()
		if err != nil {
			return nil, err
		}
		if !done {
			if err := r.d.RollbackTo(ctx); err != nil {
				return nil, err
			}
			continue
		}
		if err := r.d.Release(ctx); err != nil {
			return nil, err
		}
		out := &Result{Tag: "SELECT", Description: described(d.frame, formats), Count: len(list)}
		for i := range list {
			out.Rows = wire.AppendFrame(out.Rows, wire.DataRow, list[i].body)
		}
		return out, nil
	}
	return nil, pgerr.New(pgerr.SerializationFailure, "rows that the statement locks were changed by others again and again").WithHint("Run the transaction again.")
}

// attempt looks for rows, locks them, and looks again. done is false if others have changed rows in between.
func (x *locking) attempt() (list []lookedRow, done bool, err error) {
	x.locked, x.excluded = make([]map[string]bool, len(x.l.Tables)), make([]map[string]bool, len(x.l.Tables))
	for i := range x.locked {
		x.locked[i], x.excluded[i] = map[string]bool{}, map[string]bool{}
	}
	first, err := x.look(x.l.Look, "true")
	if err != nil {
		return nil, false, err
	}
	if len(first) == 0 {
		return nil, true, x.lockNothing()
	}
	kept, whole, err := x.lock(first)
	if err != nil || !whole {
		return nil, false, err
	}
	if n := first[0].n; n >= 0 && len(kept) < len(first) {
		if kept, whole, err = x.lockNext(n); err != nil || !whole {
			return nil, false, err
		}
	}
	if len(kept) == 0 {
		return nil, true, nil
	}
	if list, err = x.look(x.l.Look, x.among(kept)); err != nil {
		return nil, false, err
	}
	return list, holds(kept, list), nil
}

// lockNext locks rows until there are n, passing over those that others have locked.
func (x *locking) lockNext(n int64) (kept []lookedRow, whole bool, err error) {
	rest, err := x.look(x.l.All, x.notExcluded())
	if err != nil {
		return nil, false, err
	}
	for len(rest) > 0 && int64(len(kept)) < n {
		part := rest[:min(int64(len(rest)), n-int64(len(kept)))]
		rest = rest[len(part):]
		got, whole, err := x.lock(part)
		if err != nil || !whole {
			return nil, false, err
		}
		kept = append(kept, got...)
	}
	return kept, true, nil
}

// lock locks the rows of a look, and returns those all of whose tables' rows are locked. whole is false if a row that is not to be
// passed over is not there any more.
func (x *locking) lock(list []lookedRow) (kept []lookedRow, whole bool, err error) {
	kept = list
	for i := range x.l.Tables {
		var wanted []rowKey
		asked := map[string]bool{}
		for _, row := range kept {
			if k := row.keys[i]; !x.locked[i][k.sql] && !x.excluded[i][k.sql] && !asked[k.sql] {
				asked[k.sql] = true
				wanted = append(wanted, k)
			}
		}
		for len(wanted) > 0 {
			part := wanted[:min(len(wanted), keysAtOnce)]
			wanted = wanted[len(part):]
			if err := x.lockKeys(i, condition(&x.l.Tables[i], part)); err != nil {
				return nil, false, err
			}
		}
		var rest []lookedRow
		for _, row := range kept {
			switch k := row.keys[i].sql; {
			case x.locked[i][k]:
				rest = append(rest, row)
			case x.l.Tables[i].Skips:
				x.excluded[i][k] = true
			default:
				return nil, false, nil
			}
		}
		kept = rest
	}
	return kept, true, nil
}

// lockKeys locks the rows of a table for which a condition holds, and notes which they are.
func (x *locking) lockKeys(table int, condition string) error {
	t := &x.l.Tables[table]
	sql := "SELECT " + strings.Join(keyNames(t), ", ") + " FROM " + t.From + " WHERE " + condition + " " + t.Clause
	p := &program.Prepared{SQL: sql, Handle: x.r.d.room.name("l")}
	_, err := x.r.d.execute(p, []byte{0, 0, 0, 0, 0, 0}, 0, func(body []byte) {
		x.locked[table][keyOf(t, valuesOf(body)).sql] = true
	})
	return err
}

// lockNothing looks whether the client may lock rows of the tables, when there are none.
func (x *locking) lockNothing() error {
	for i := range x.l.Tables {
		if err := x.lockKeys(i, "false"); err != nil {
			return err
		}
	}
	return nil
}

// look asks for the rows for which a condition holds.
func (x *locking) look(text, condition string) (list []lookedRow, err error) {
	values := binary.BigEndian.AppendUint16(append([]byte(nil), x.values...), uint16(len(x.formats)))
	for _, f := range x.formats {
		values = binary.BigEndian.AppendUint16(values, uint16(f))
	}
	p := &program.Prepared{SQL: strings.Replace(text, x.l.Rows, "("+condition+")", 1), Types: x.types, Handle: x.r.d.room.name("l")}
	var failed error
	_, err = x.r.d.execute(p, values, 0, func(body []byte) {
		if x.bytes += int64(len(body)) + 100; x.r.cfg.MaxBytes > 0 && x.bytes > x.r.cfg.MaxBytes {
			failed = &refusal{pgerr.GatherTooLarge()}
		}
		if failed == nil {
			list = append(list, x.row(body))
		}
	})
	if err == nil {
		err = failed
	}
	return list, err
}

// row takes a DataRow of a look apart.
func (x *locking) row(body []byte) lookedRow {
	end := 2
	for range x.columns {
		end += 4 + max(0, int(int32(binary.BigEndian.Uint32(body[end:]))))
	}
	row := lookedRow{body: append(binary.BigEndian.AppendUint16(nil, uint16(x.columns)), body[2:end]...), n: -1}
	rest := valuesOf(body)[x.columns:]
	for i := range x.l.Tables {
		t := &x.l.Tables[i]
		row.keys = append(row.keys, keyOf(t, rest))
		rest = rest[len(t.Keys):]
	}
	if n, err := strconv.ParseInt(rest[0].Text, 10, 64); err == nil {
		row.n = n
	}
	return row
}

// notExcluded is a condition that leaves out the rows that others have locked.
func (x *locking) notExcluded() string {
	terms := []string{"true"}
	for i := range x.l.Tables {
		if len(x.excluded[i]) > 0 {
			terms = append(terms, "NOT "+keyList(&x.l.Tables[i])+" IN ("+strings.Join(slices.Sorted(maps.Keys(x.excluded[i])), ", ")+")")
		}
	}
	return strings.Join(terms, " AND ")
}

// among is a condition that holds for rows of a look. If they are many, it holds for others too.
func (x *locking) among(list []lookedRow) string {
	terms := []string{x.notExcluded()}
	if len(list) > mostRows {
		return terms[0]
	}
	var names []string
	for i := range x.l.Tables {
		var keys []rowKey
		for _, row := range list {
			keys = append(keys, row.keys[i])
		}
		terms = append(terms, condition(&x.l.Tables[i], keys))
		names = append(names, keyList(&x.l.Tables[i]))
	}
	if len(names) > 1 {
		together := map[string]bool{}
		for _, row := range list {
			together[row.together()] = true
		}
		terms = append(terms, "("+strings.Join(names, ", ")+") IN ("+strings.Join(slices.Sorted(maps.Keys(together)), ", ")+")")
	}
	return strings.Join(terms, " AND ")
}

// together returns the keys of all tables as SQL.
func (row *lookedRow) together() string {
	var parts []string
	for _, k := range row.keys {
		parts = append(parts, k.sql)
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

// holds reports whether all rows of the second look are locked, and it has not lost any: either it has the same rows of the locked
// tables, or as many rows. The latter happens where rows are equal in their order, and LIMIT takes others of them.
func holds(kept, list []lookedRow) bool {
	locked, found := map[string]bool{}, map[string]bool{}
	for i := range kept {
		locked[kept[i].together()] = true
	}
	for i := range list {
		k := list[i].together()
		if !locked[k] {
			return false
		}
		found[k] = true
	}
	return len(found) == len(locked) || len(list) == len(kept)
}

// rowKey tells a row of a table from others.
type rowKey struct {
	sql   string   // a value, or a row of them
	parts []string // the values
}

// keyOf returns the key whose values a row begins with.
func keyOf(t *plan.LockedTable, values []program.Value) rowKey {
	var k rowKey
	for i, typ := range t.Types {
		k.parts = append(k.parts, quote.Literal(values[i].Text)+"::"+typ)
	}
	if k.sql = strings.Join(k.parts, ", "); len(k.parts) > 1 {
		k.sql = "(" + k.sql + ")"
	}
	return k
}

// keyNames returns the key columns as SQL.
func keyNames(t *plan.LockedTable) (out []string) {
	for _, name := range t.Keys {
		out = append(out, quote.Ident(t.Name)+"."+quote.Ident(name))
	}
	return out
}

// keyList returns the key columns as a value, or a row of them.
func keyList(t *plan.LockedTable) string {
	if names := keyNames(t); len(names) > 1 {
		return "(" + strings.Join(names, ", ") + ")"
	}
	return keyNames(t)[0]
}

// condition holds for the rows of a table that have these keys. It names the shard key by itself, so that other shards are not asked.
func condition(t *plan.LockedTable, keys []rowKey) string {
	all := map[string]bool{}
	for _, k := range keys {
		all[k.sql] = true
	}
	terms := []string{keyList(t) + " IN (" + strings.Join(slices.Sorted(maps.Keys(all)), ", ") + ")"}
	for _, at := range t.Shard {
		if len(t.Keys) == 1 {
			break
		}
		values := map[string]bool{}
		for _, k := range keys {
			values[k.parts[at]] = true
		}
		terms = append(terms, keyNames(t)[at]+" IN ("+strings.Join(slices.Sorted(maps.Keys(values)), ", ")+")")
	}
	return strings.Join(terms, " AND ")
}
