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

// secondRound takes the pieces that wait for keys out of the first round.
func (ga *gatherer) secondRound(x *gathering) {
	x.rounds.later = nil
	x.rounds.expected = x.native == nil && ga.s.record.pins == 0 && (!ga.s.tx.isOpen() || ga.s.tx.isolation() == "repeatable read") &&
		slices.ContainsFunc(x.g.Pieces, func(p plan.Piece) bool { return p.Reduce != nil })
	if !x.rounds.expected || x.prefix() != "" {
		return
	}
	x.rounds.postpone(func(i int) bool { return x.g.Pieces[i].Reduce != nil })
}

// askLater sends the shards the second round, reduced by the keys that are known by now.
func (ga *gatherer) askLater(x *gathering) error {
	for _, l := range x.legs {
		pieces := x.rounds.later[l.shard]
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
		keys, ok := x.rounds.sent[i]
		return keys, ok
	}
	if x.rounds.later == nil {
		return keySet{}, false
	}
	r := x.g.Pieces[i].Reduce
	keys, ok := x.intake.keys(r.From, r.FromColumn)
	if ok && x.explain != nil {
		x.rounds.noteKeys(i, keys)
	}
	return keys, ok
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
	if r == nil || !x.rounds.expected {
		return false
	}
	if x.intake.inputs != nil || x.ranRemainder() {
		_, sent := x.rounds.sent[i]
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
