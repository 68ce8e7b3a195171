package proxy

import (
	"slices"

	"weft/finish"
	"weft/plan"
)

// A join of a few rows with many needs only those of the many that match. Where
// the plan says so, the few are collected first, and the others are asked for by
// the keys of these. Each shard is asked twice then, so it must keep its snapshot
// in between: outside of a block weft opens one that does.

// keepSnapshot opens a transaction in which two statements see the same.
const keepSnapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

// secondRound takes the pieces out of the first round that wait for keys.
func (s *Session) secondRound(x *gathering) {
	if x.native != nil || s.pins != 0 || x.prefix() != "" || s.block.open && s.isolation() != "repeatable read" {
		return
	}
	waits := func(i int) bool { return x.g.Pieces[i].Reduce != nil }
	if !slices.ContainsFunc(x.g.Pieces, func(p plan.Piece) bool { return p.Reduce != nil }) {
		return
	}
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

// askLater sends the shards the second round. What is known of keys by now
// reduces it.
func (s *Session) askLater(x *gathering) error {
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
	s.sendLegs(x.legs)
	return nil
}

// reduced is the text of a piece, with a condition that only rows with the keys
// of another piece satisfy if these are known. own are the parameters it takes
// beyond the client's, and their types.
func (x *gathering) reduced(i int, text []byte, own *[][]byte, types *[]uint32) []byte {
	r := x.g.Pieces[i].Reduce
	if r == nil || x.in == nil || x.stage != nil || x.later == nil {
		return text
	}
	value, typ, ok := x.in.Keys(r.From, r.FromColumn)
	if !ok {
		return text
	}
	*own, *types = append(*own, value), append(*types, typ)
	return finish.Reduced(nil, text, len(x.d.Pieces[i]), r.Column, len(x.d.Params)+len(*own))
}
