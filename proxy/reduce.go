package proxy

import (
	"slices"

	"weft/finish"
	"weft/plan"
)

// A join of a few rows with many needs only those of the many rows that match. If the plan
// says so, the few rows are collected first, and the many are asked for by the keys of the
// few. Each shard is then asked twice and must keep its snapshot in between: outside of a
// block weft opens one that keeps it.

// keepSnapshot opens a transaction in which two statements see the same rows.
const keepSnapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

// reduction is what one execution knows about the pieces that wait for keys.
type reduction struct {
	// later are the pieces of the second round by shard; nil if all pieces are asked for at
	// once.
	later [][]int
	// expected: a run of the query would have a second round.
	expected bool
	// sent are the keys that pieces were sent with, by piece, for EXPLAIN ANALYZE.
	sent map[int]keySet
}

// keySet is a parameter with the keys of another piece.
type keySet struct {
	value []byte
	typ   uint32
}

// secondRound takes the pieces that wait for keys out of the first round.
func (ga *gatherer) secondRound(x *gathering) {
	x.later = nil
	x.expected = x.native == nil && ga.s.record.pins == 0 && (!ga.s.tx.open || ga.s.tx.isolation() == "repeatable read") &&
		slices.ContainsFunc(x.g.Pieces, func(p plan.Piece) bool { return p.Reduce != nil })
	if !x.expected || x.prefix() != "" {
		return
	}
	waits := func(i int) bool { return x.g.Pieces[i].Reduce != nil }
	x.later = make([][]int, len(x.visits))
	for shard, pieces := range x.visits {
		for _, i := range pieces {
			if waits(i) {
				x.later[shard] = append(x.later[shard], i)
			}
		}
		x.visits[shard] = slices.DeleteFunc(pieces, waits)
	}
}

// askLater sends the shards the second round, reduced by the keys that are known by now.
func (ga *gatherer) askLater(x *gathering) error {
	for _, l := range x.legs {
		pieces := x.later[l.shard]
		if len(pieces) == 0 {
			continue
		}
		var err error
		if l.out, err = x.appendStatement(l.out, l, pieces); err != nil {
			return err
		}
		l.over = false
	}
	ga.sendLegs(x.legs)
	return nil
}

// reduced is the text of a piece, with a condition that only rows with the keys of another
// piece satisfy, if these keys are known. own receives the parameters that the condition
// takes beyond the client's, types their types.
func (x *gathering) reduced(i int, text []byte, own *[][]byte, types *[]uint32) []byte {
	r := x.g.Pieces[i].Reduce
	if r == nil {
		return text
	}
	if x.prefix() != "" && !x.explain.Analyze {
		return x.reducedUnseen(i, text)
	}
	keys, ok := x.keysFor(i)
	if !ok {
		return text
	}
	*own, *types = append(*own, keys.value), append(*types, keys.typ)
	return finish.Reduced(nil, text, len(x.d.Pieces[i]), r.Column, len(x.d.Params)+len(*own))
}

// keysFor returns the keys that a piece is reduced to. For an EXPLAIN after the run they
// are the keys of that run.
func (x *gathering) keysFor(i int) (keySet, bool) {
	if x.prefix() != "" {
		keys, ok := x.sent[i]
		return keys, ok
	}
	if x.in == nil || x.stage != nil || x.later == nil {
		return keySet{}, false
	}
	r := x.g.Pieces[i].Reduce
	value, typ, ok := x.in.Keys(r.From, r.FromColumn)
	if ok && x.explain != nil {
		if x.sent == nil {
			x.sent = map[int]keySet{}
		}
		x.sent[i] = keySet{value, typ}
	}
	return keySet{value, typ}, ok
}

// reducedUnseen is the text of a piece whose keys have not been read: a subquery stands for
// them, so that the shard plans for unknown keys.
func (x *gathering) reducedUnseen(i int, text []byte) []byte {
	if !x.reduces(i) {
		return text
	}
	r := x.g.Pieces[i].Reduce
	return finish.ReducedUnseen(nil, text, len(x.d.Pieces[i]), r.Column, x.d.Pieces[r.From][r.FromColumn].SQL)
}

// reduces reports whether a piece is sent with keys: after a run whether it was, before it
// whether that is expected.
func (x *gathering) reduces(i int) bool {
	r := x.g.Pieces[i].Reduce
	if r == nil || !x.expected {
		return false
	}
	if x.in != nil || x.ranRemainder() {
		_, sent := x.sent[i]
		return sent
	}
	return finish.Reducible(&x.d.Pieces[r.From][r.FromColumn])
}

// ranRemainder reports whether an EXPLAIN ANALYZE has run the query.
func (x *gathering) ranRemainder() bool { return x.explain != nil && x.explain.analyzed }

// reducedSQL is the text of a piece as it is sent, for people to read.
func (x *gathering) reducedSQL(i int, sql string) string {
	if !x.reduces(i) {
		return sql
	}
	return string(finish.Reduced(nil, []byte(sql), len(x.d.Pieces[i]), x.g.Pieces[i].Reduce.Column, len(x.d.Params)+1))
}
