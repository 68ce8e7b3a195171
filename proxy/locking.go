package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"

	"weft/pgerr"
	"weft/plan"
	"weft/stream"
	"weft/wire"
)

// SELECT … ORDER BY … LIMIT n FOR UPDATE over several shards leaves the n rows locked that it
// returns, and no others. Which rows these are is found out first, without locks. Then each
// shard locks as many of its first rows as are among the n: its portal is executed for that
// many. If a shard locks other rows, because they have been changed meanwhile, all locks are
// released by a savepoint, and everything begins again, as if the statement came later.
//
// With SKIP LOCKED the rows may be others at every attempt. Then each shard locks as many rows
// as could be among the n, and the locks of unused rows are released.
//
// Without ORDER BY any rows will do: one shard after the other is asked.

const (
	lockSavepoint = "SAVEPOINT weft_lock"
	lockAgain     = "ROLLBACK TO SAVEPOINT weft_lock"
	lockRelease   = "RELEASE SAVEPOINT weft_lock"
	// lockAttempts is how often the rows may change under a statement before it fails.
	lockAttempts = 100
)

// locking is one execution of a query that locks its first rows. It implements stream.Rows.
type locking struct {
	s     *Session
	x     *gathering
	rows  stream.Rows // rows of the result, once they are locked
	bytes int64       // memory that the rows take
	// saved says, by leg, whether the shard has set the savepoint.
	saved []bool
	// most is the number of rows that count, those before OFFSET included; -1 for all.
	most int64
}

// locksFirst reports whether the first rows over all shards are to be locked.
func (x *gathering) locksFirst() bool { return len(x.g.Peek) > 0 && x.explain == nil }

// waits reports whether the query waits for rows that others have locked.
func (x *gathering) waits() bool { return x.g.Locks && !x.g.SkipLocked }

// mayLockFirst refuses queries whose first rows weft cannot lock.
func (x *gathering) mayLockFirst() error {
	switch {
	case len(x.g.Peek) == 0:
		return nil
	case x.explain != nil && x.explain.Analyze:
		return pgerr.New(pgerr.FeatureNotSupported, "EXPLAIN ANALYZE of a query with LIMIT that locks rows on several shards is not supported").
			WithHint("Leave out ANALYZE.")
	case x.explain == nil && x.native == nil:
		return pgerr.New(pgerr.FeatureNotSupported, "locking the first rows of several shards is not supported for this query").
			WithDetail("It is a cursor, CREATE TABLE AS, read in portions, or ordered by a type or collation that weft cannot compare.").
			WithHint("Order by numbers, times, uuid or text COLLATE \"C\", or find the keys first and lock the rows by key.")
	}
	return nil
}

// nativeRows sends the shards their statements and puts the operators over their rows.
func (ga *gatherer) nativeRows(x *gathering) (stream.Rows, error) {
	if x.locksFirst() {
		return &locking{s: ga.s, x: x, saved: make([]bool, len(x.legs))}, nil
	}
	if x.waits() && len(x.native.keys) == 0 { // a merge needs all shards at once
		ga.sendInOrder(x.legs)
	} else {
		ga.sendLegs(x.legs)
	}
	return x.native.rows(x.legs, ga.s.record.maxGatherBytes())
}

// openLocking makes a leg ready. The leg is sent nothing before its turn.
func (t *transaction) openLocking(l *leg) {
	if !t.isOpen() && !l.opened {
		l.out = wire.AppendQuery(l.out, "BEGIN")
		l.begins, l.opened = true, true
	}
	l.over = true
}

// Next returns a row of the result. The first call locks all rows.
func (k *locking) Next() ([]byte, error) {
	if k.rows == nil {
		rows, err := k.take()
		if err != nil {
			return nil, err
		}
		k.rows = k.cut(rows)
	}
	return k.rows.Next()
}

// cut makes the client's rows from the rows that count.
func (k *locking) cut(rows [][]byte) stream.Rows {
	n := k.x.native
	rows = rows[min(n.offset, int64(len(rows))):]
	if n.limit >= 0 {
		rows = rows[:min(n.limit, int64(len(rows)))]
	}
	var out stream.Rows = &rowList{rows}
	if len(n.formats) > n.Columns {
		out = stream.Cut(out, n.Columns)
	}
	return out
}

// take locks the rows that count and returns them in order.
func (k *locking) take() ([][]byte, error) {
	n := k.x.native
	k.most = -1
	if n.limit >= 0 {
		if k.most = n.limit + n.offset; k.most < 0 {
			k.most = math.MaxInt64
		}
	}
	switch {
	case n.limit == 0:
		return nil, nil
	case k.most < 0:
		got, err := k.round(k.every(), func(int) (plan.Text, int64, string) { return k.x.g.Pieces[0].Text, 0, "" })
		if err != nil {
			return nil, err
		}
		rows, _, err := k.merge(got)
		return rows, err
	case len(n.keys) == 0:
		return k.takeAny()
	}
	return k.takeFirst()
}

// takeAny asks one shard after the other until there are enough rows.
func (k *locking) takeAny() (rows [][]byte, err error) {
	for i := range k.x.legs {
		left := k.most - int64(len(rows))
		if left <= 0 {
			break
		}
		got, err := k.round([]int{i}, func(int) (plan.Text, int64, string) { return k.x.g.Pieces[0].Text, left, "" })
		if err != nil {
			return nil, err
		}
		rows = append(rows, got[i]...)
		k.count(i, len(got[i]))
	}
	return rows, nil
}

// count notes how many of the rows that count a leg has locked.
func (k *locking) count(leg, rows int) {
	if k.x.locked == nil {
		k.x.locked = make([]int, len(k.x.legs))
	}
	k.x.locked[leg] = rows
}

// takeFirst locks the first rows in the query's order.
func (k *locking) takeFirst() ([][]byte, error) {
	for attempt := range lockAttempts {
		k.bytes = 0
		try := k.tryPeeked
		if k.x.g.SkipLocked && attempt > 0 {
			try = k.tryAll
		}
		got, used, ok, err := try()
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		for i, n := range used {
			k.count(i, n)
		}
		if err := k.release(used); err != nil {
			return nil, err
		}
		rows, _, err := k.merge(got)
		return rows, err
	}
	return nil, pgerr.New(pgerr.SerializationFailure, "the rows to be locked have changed too often").WithHint("Try again.")
}

// tryPeeked locks as many rows of each shard as are among the first rows now. It reports false
// if other rows have turned out to be the first.
func (k *locking) tryPeeked() (got [][][]byte, used []int, ok bool, err error) {
	seen, err := k.round(k.every(), func(i int) (plan.Text, int64, string) {
		if k.saved[i] {
			return k.x.g.Peek, 0, lockAgain
		}
		return k.x.g.Peek, 0, ""
	})
	if err != nil {
		return nil, nil, false, err
	}
	if _, used, err = k.merge(seen); err != nil {
		return nil, nil, false, err
	}
	got, err = k.lock(used)
	return got, used, err == nil && k.same(got, seen, used), err
}

// tryAll locks as many rows of each shard as could be among the first rows, and then releases
// the locks of rows that are not.
func (k *locking) tryAll() (got [][][]byte, used []int, ok bool, err error) {
	all := make([]int, len(k.x.legs))
	for i := range all {
		all[i] = int(min(k.most, math.MaxInt32))
	}
	if got, err = k.lock(all); err != nil {
		return nil, nil, false, err
	}
	if _, used, err = k.merge(got); err != nil {
		return nil, nil, false, err
	}
	fewer := make([]int, len(used))
	for i := range used {
		if used[i] < len(got[i]) {
			fewer[i] = used[i]
		}
	}
	again, err := k.lock(fewer)
	if err != nil {
		return nil, nil, false, err
	}
	ok = k.same(again, got, fewer)
	for i := range got {
		switch {
		case fewer[i] > 0:
			got[i] = again[i]
		case used[i] == 0:
			got[i] = nil
		}
	}
	return got, used, ok, nil
}

// lock locks counts[i] rows of the shard of leg i, after releasing what the shard has locked
// for this statement.
func (k *locking) lock(counts []int) ([][][]byte, error) {
	what := func(i int) (plan.Text, int64, string) {
		before := lockSavepoint
		if k.saved[i] {
			before = lockAgain
		}
		k.saved[i] = true
		return k.x.g.Pieces[0].Text, int64(counts[i]), before
	}
	var legs []int
	for i, n := range counts {
		if n > 0 {
			legs = append(legs, i)
		}
	}
	if k.x.g.SkipLocked {
		return k.round(legs, what)
	}
	// One shard after the other, so that two statements that lock the same rows do not wait for
	// each other.
	got := make([][][]byte, len(k.x.legs))
	for _, i := range legs {
		one, err := k.round([]int{i}, what)
		if err != nil {
			return nil, err
		}
		got[i] = one[i]
	}
	return got, nil
}

// same reports whether the locked rows are the expected ones, judged by their sort keys. Rows
// with equal keys are interchangeable.
func (k *locking) same(got, want [][][]byte, used []int) bool {
	for i, n := range used {
		if n == 0 {
			continue
		}
		if len(got[i]) != n || len(want[i]) < n {
			return false
		}
		for j := range got[i] {
			a, b := keysOf(got[i][j], k.x.native.Columns), keysOf(want[i][j], k.x.native.Columns)
			if a == nil || !bytes.Equal(a, b) {
				return false
			}
		}
	}
	return true
}

// keysOf is the part of a row behind its first columns, or nil if the row ends with them.
func keysOf(row []byte, columns int) []byte {
	at := 2
	for range columns {
		if len(row) < at+4 {
			return nil
		}
		at += 4 + max(int(int32(binary.BigEndian.Uint32(row[at:]))), 0)
	}
	if at >= len(row) {
		return nil
	}
	return row[at:]
}

// merge returns the first rows of all legs in the order of the query, as many as its LIMIT asks
// for, and how many of these rows each leg has.
func (k *locking) merge(got [][][]byte) (rows [][]byte, used []int, err error) {
	parts := make([]stream.Rows, len(got))
	from := map[*byte]int{}
	for i, list := range got {
		parts[i] = &rowList{list}
		for _, row := range list {
			from[&row[0]] = i
		}
	}
	used = make([]int, len(got))
	merged := stream.Append(parts...)
	if len(k.x.native.keys) > 0 {
		merged = stream.Merge(k.x.native.keys, parts...)
	}
	for k.most < 0 || int64(len(rows)) < k.most {
		row, err := merged.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		rows = append(rows, row)
		used[from[&row[0]]]++
	}
	return rows, used, nil
}

// every returns the indexes of all legs.
func (k *locking) every() []int {
	out := make([]int, len(k.x.legs))
	for i := range out {
		out[i] = i
	}
	return out
}

// round asks some legs and returns the rows of each. what gives, for a leg, the query, the
// number of rows (0 for all), and a command to run before.
func (k *locking) round(legs []int, what func(leg int) (plan.Text, int64, string)) ([][][]byte, error) {
	got := make([][][]byte, len(k.x.legs))
	asked := make([]*leg, len(legs))
	for j, i := range legs {
		l := k.x.legs[i]
		text, rows, before := what(i)
		if before != "" {
			l.out = appendCommand(l.out, before)
		}
		var err error
		if l.out, err = k.x.appendLocking(l.out, l, text, rows); err != nil {
			return nil, err
		}
		asked[j], l.then = l, nil
	}
	for _, l := range asked {
		l.over = false
	}
	k.s.gather.sendLegs(asked)
	for j, l := range asked {
		rows, err := k.read(l)
		if err != nil {
			return nil, err
		}
		got[legs[j]] = rows
	}
	return got, nil
}

// read reads the rows of a leg into memory.
func (k *locking) read(l *leg) (rows [][]byte, err error) {
	max := k.s.record.maxGatherBytes()
	for {
		row, err := l.Next()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, slices.Clone(row))
		if k.bytes += int64(len(row)) + 64; max > 0 && k.bytes > max {
			return nil, pgerr.New(pgerr.ConfigurationLimitExceeded, "the rows to be locked take more than weft.max_gather_bytes").
				WithHint("Lock fewer rows at once.")
		}
	}
}

// release keeps the locks of the legs whose rows are used, and releases those of the others. In
// a transaction that weft has opened, that happens at its end.
func (k *locking) release(used []int) error {
	if !k.s.tx.isOpen() {
		return nil
	}
	var asked []*leg
	for i, l := range k.x.legs {
		if !k.saved[i] {
			continue
		}
		sql := lockRelease
		if used[i] == 0 {
			sql = lockAgain + ";" + lockRelease
		}
		l.out, l.over, l.then = wire.AppendQuery(l.out, sql), false, nil
		l.send()
		asked = append(asked, l)
	}
	for _, l := range asked {
		if l.drain(); l.err != nil {
			return l.err
		}
	}
	return nil
}

// appendLocking appends a query with the columns of the only piece, which stops after so many
// rows, or never if rows is 0.
func (x *gathering) appendLocking(dst []byte, l *leg, text plan.Text, rows int64) ([]byte, error) {
	given := appendOIDs(nil, x.d.Params)
	oids, err := l.translate.ParseOIDs(given)
	if err != nil {
		return dst, untranslatable(err)
	}
	values, err := l.translate.Bind(x.req.values, given)
	if err != nil {
		return dst, untranslatable(err)
	}
	dst = wire.AppendParse(dst, "", string(text.Append(nil, x.fill())), oids)
	dst, at := wire.Begin(dst, wire.Bind)
	dst = append(append(dst, 0, 0), values...)
	dst = wire.End(x.appendLegFormats(dst), at)
	if l.translate != nil && x.userTypes() {
		dst = wire.AppendDescribe(dst, 'P', "")
	}
	dst = append(dst, wire.Execute, 0, 0, 0, 9, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(min(rows, math.MaxInt32)))
	return wire.AppendEmpty(dst, wire.Sync), nil
}

// rowList is rows in memory. It implements stream.Rows.
type rowList struct{ rows [][]byte }

func (r *rowList) Next() ([]byte, error) {
	if len(r.rows) == 0 {
		return nil, io.EOF
	}
	row := r.rows[0]
	r.rows = r.rows[1:]
	return row, nil
}
