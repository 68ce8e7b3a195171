package survey

import (
	"fmt"
	"strings"

	"weft/parser"
	"weft/plan"
)

// keys finds out on how many shards rows may be without knowing all values. Equal sources are on
// one shard, and different ones may be on two.
type keys struct {
	text     []byte
	literals []parser.Literal
	options  parser.Options
	lists    []int // parameters that stand for lists
	shards   int   // of the cluster

	places map[string]bool // what decides where rows are, as it was met
	many   bool            // one of the sources stands for any number of values
	open   string          // an instance whose key nothing is known of
}

// instances returns on how many shards the rows of instances may be, and why these are several.
func (k *keys) instances(list []plan.Instance) (n int, why string) {
	k.places = map[string]bool{}
	for i := range list {
		k.instance(&list[i])
	}
	switch {
	case k.open != "":
		return k.shards, "nothing says the key of " + k.open
	case k.many:
		return k.shards, "its list of keys may have any length"
	case len(k.places) <= 1:
		return 1, ""
	}
	return min(len(k.places), k.shards), fmt.Sprintf("it has %d values of the key", len(k.places))
}

// instance notes where the rows of an instance are.
func (k *keys) instance(in *plan.Instance) {
	of := fmt.Sprintf("%d ", in.Table.Colocation)
	switch {
	case k.columns(of, in.Keys):
	case len(in.IDs) > 0 && k.columns("id of "+of, [][]plan.Set{in.IDs}):
	case in.Lookup != nil && k.columns("lookup "+in.Lookup.Name+" ", in.Lookup.Keys):
	default:
		k.open = in.Name
		if k.open == "" {
			k.open = in.Table.Name
		}
	}
}

// columns notes every combination of the values of key columns. It reports false if nothing is
// known of a column.
func (k *keys) columns(of string, columns [][]plan.Set) bool {
	rows := []string{of}
	for _, sets := range columns {
		if len(sets) == 0 {
			return false
		}
		best := sets[0]
		for _, set := range sets {
			if len(set) < len(best) {
				best = set
			}
		}
		var next []string
		for _, r := range rows {
			for i := range best {
				next = append(next, r+k.source(&best[i])+" ")
			}
		}
		if rows = next; len(rows) > maxPlaces {
			k.many = true
			return true
		}
	}
	for _, r := range rows {
		k.places[r] = true
	}
	return len(columns) > 0
}

// maxPlaces bounds how many combinations of key columns are told apart.
const maxPlaces = 10_000

// source returns a spelling that is the same for sources of equal values.
func (k *keys) source(s *plan.Source) string {
	sign := ""
	if s.Negative {
		sign = "-"
	}
	switch s.Kind {
	case plan.Param:
		for _, l := range k.lists {
			k.many = k.many || l == s.Index
		}
		return fmt.Sprintf("%s$%d", sign, s.Index+1)
	case plan.ParamArray:
		k.many = true
		return fmt.Sprintf("$%d[]", s.Index+1)
	case plan.Literal, plan.Array:
		l := k.literals[s.Index]
		v, ok := l.AppendValue(nil, k.text, k.options)
		if !ok {
			v = k.text[l.Start:l.End]
		}
		if s.Kind == plan.Array && strings.Contains(string(v), ",") {
			k.many = true
		}
		return fmt.Sprintf("%s%q", sign, v)
	case plan.Generated:
		return fmt.Sprintf("new %d", s.Index)
	case plan.Computed:
		if f := s.Expr.Func(); f != "" {
			return f + "(" + k.source(&s.Expr.Left) + ")"
		}
		return "(" + k.source(&s.Expr.Left) + string(s.Expr.Op) + k.source(&s.Expr.Right) + ")"
	case plan.Constant:
		return fmt.Sprintf("%q", s.Text)
	}
	return "NULL"
}
