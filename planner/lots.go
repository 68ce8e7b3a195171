package planner

import (
	"slices"

	"weft/plan"
)

// Statements of a trigger function run on a shard without weft. What weft would supply to them, they
// make there: values of sequences come from the lot that the shard's own copy of a sequence has been
// given, see package proxy/lot.

// drawnOnShard returns the sequences that a statement draws from if a shard carries it out without weft, or
// why it cannot do so.
func drawnOnShard(p *plan.Plan) (lots []string, why string) {
	lots = slices.Clone(p.Lots)
	if p.Generate == nil {
		return lots, ""
	}
	for _, v := range p.Generate.Values {
		switch {
		case v.Remembered:
			return nil, "reads the last value of a sequence, which weft has drawn"
		case v.Routed != nil:
			return nil, "draws a routed id, which weft makes"
		case v.Sequence != "" && !slices.Contains(lots, v.Sequence):
			lots = append(lots, v.Sequence)
		}
	}
	return lots, ""
}

// needLots notes that triggers which the text fires draw from sequences on its shards.
func (re reach) needLots(lots []string) {
	for _, s := range lots {
		if !slices.Contains(re.a.out.Lots, s) {
			re.a.out.Lots = append(re.a.out.Lots, s)
		}
	}
}
