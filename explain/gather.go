package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weft/plan"
	"weft/quote"
	"weft/vindex"
)

// Execution is a plan with the values of one execution.
type Execution struct {
	Gather *plan.Gather
	// Literal returns a literal of the client's text, as it stands there.
	Literal func(i int) string
	// Known is what PostgreSQL says of the texts, nil if nobody has asked.
	Known *plan.Description
	// Native: stream operators make the result. Only of interest if Known is.
	Native bool
	// Notes are more reasons beside those of the plan.
	Notes []string
	// Now is the time that now() is, if it matters.
	Now string
	// Shards are the names of all shards, Home the one of the home shard.
	Shards []string
	Home   string
	// Reduces reports whether a piece waits for keys of another one, and Reduced
	// returns its text with the condition on these. Nil if nobody knows.
	Reduces func(piece int) bool
	Reduced func(piece int, sql string) string
	// Unsure reports whether a lookup could not tell where rows are. Nil if none was
	// asked.
	Unsure func(*plan.LookupKey) bool
	// Visits are the pieces that each shard runs; nil if that is not known.
	Visits [][]int
}

// New returns the report of an execution that is still to come.
func New(x *Execution) *Report {
	n := &Node{Total: len(x.Shards), Why: append(slices.Clone(x.Gather.Why), x.Notes...), Visited: x.visited()}
	switch {
	case x.Known == nil && x.Gather.Native != nil:
		x.operators(n)
		n.Ending = Unknown
		n.SQL = x.sql(x.Gather.Remainder)
	case x.Known != nil && x.Native:
		x.operators(n)
		n.Ending, n.RunsOn = Native, "weft"
	default:
		n.Type, n.Ending, n.RunsOn = "Weft Remainder", Undecided, x.Home
		n.SQL = x.sql(x.Gather.Remainder)
	}
	for i := range x.Gather.Pieces {
		n.Pieces = append(n.Pieces, x.piece(i))
	}
	for i, pieces := range x.Visits {
		if len(pieces) > 0 {
			n.Shards = append(n.Shards, Shard{Type: shardType, Name: x.Shards[i], Pieces: numbers(pieces)})
		}
	}
	return &Report{Plan: n}
}

func numbers(pieces []int) []int {
	out := slices.Clone(pieces)
	for i := range out {
		out[i]++
	}
	return out
}

func (x *Execution) visited() int {
	n := 0
	for _, pieces := range x.Visits {
		if len(pieces) > 0 {
			n++
		}
	}
	return n
}

// piece describes a piece.
func (x *Execution) piece(i int) Piece {
	p := &x.Gather.Pieces[i]
	out := Piece{Number: i + 1, Name: p.Name, SQL: x.sql(p.Text)}
	if p.Reduce != nil && (x.Reduces == nil || x.Reduces(i)) {
		out.Keys = x.keys(p.Reduce)
	}
	if x.Reduced != nil {
		out.SQL = x.Reduced(i, out.SQL)
	}
	for shard, pieces := range x.Visits {
		if slices.Contains(pieces, i) {
			out.Shards = append(out.Shards, x.Shards[shard])
		}
	}
	switch p.Where {
	case plan.OnHome:
		out.Why = []string{"its tables are on the home shard"}
	case plan.OnCopy:
		out.Why = []string{"every shard has its rows"}
	default:
		for j := range p.Instances {
			out.Why = append(out.Why, x.condition(&p.Instances[j]))
		}
	}
	return out
}

// keys says where the keys come from that a piece waits for.
func (x *Execution) keys(r *plan.Reduction) string {
	if x.Known == nil {
		return fmt.Sprintf("rows whose column %d is among column %d of piece %d, if the query is run so", r.Column+1, r.FromColumn+1, r.From+1)
	}
	return fmt.Sprintf("$%d is %s of piece %d, which is read before", len(x.Known.Params)+1, x.Known.Pieces[r.From][r.FromColumn].Name, r.From+1)
}

// sql fills the holes of a text for people to read.
func (x *Execution) sql(t plan.Text) string {
	return string(t.Append(nil, &plan.Fill{
		Literal: func(dst []byte, i int) []byte { return append(dst, x.Literal(i)...) },
		Input:   func(dst []byte, i int) []byte { return fmt.Appendf(dst, "<piece %d>", i+1) },
		Now: func(dst []byte) []byte {
			if x.Now == "" {
				return append(dst, "now()"...)
			}
			return append(append(append(dst, '\''), x.Now...), "'::timestamptz"...)
		},
		Type: func(dst []byte, piece, column int) []byte {
			if x.Known == nil {
				return fmt.Appendf(dst, "<type of column %d of piece %d>", column+1, piece+1)
			}
			return append(dst, x.Known.Pieces[piece][column].SQL...)
		},
		Own: func(dst []byte, kind plan.PartKind, i int) []byte {
			switch kind {
			case plan.Given:
				return fmt.Appendf(dst, "$%d", i+1)
			case plan.Supplied:
				return fmt.Appendf(dst, "<new value %d>", i+1)
			}
			return fmt.Appendf(dst, "<value %d that is read first>", i+1)
		},
	}))
}

// operators says what weft does with the rows of the only piece.
func (x *Execution) operators(n *Node) {
	p := x.Gather.Native
	n.Type = "Weft Append"
	if len(p.Order) > 0 {
		n.Type = "Weft Merge"
	}
	for _, k := range p.Order {
		key := x.column(k.Column)
		if k.Desc {
			key += " DESC"
		}
		if k.NullsFirst != k.Desc {
			key += map[bool]string{true: " NULLS FIRST", false: " NULLS LAST"}[k.NullsFirst]
		}
		n.MergeKey = append(n.MergeKey, key)
	}
	if p.Distinct {
		n.Type = "Weft Distinct"
	}
	if a := p.Aggregate; a != nil {
		n.Type = "Weft Aggregate"
		for _, g := range a.Groups {
			n.GroupKey = append(n.GroupKey, x.column(g))
		}
		for _, o := range a.Outputs {
			n.Output = append(n.Output, x.output(o))
		}
	}
	if p.Limit != nil {
		n.Limit = x.source(p.Limit.Source)
	}
	if p.Offset != nil {
		n.Offset = x.source(p.Offset.Source)
	}
}

func (x *Execution) output(o plan.Output) string {
	switch o.Kind {
	case plan.Group:
		return x.column(o.Column)
	case plan.CombineCount:
		return "sum(" + x.column(o.Column) + ")"
	case plan.CombineAvg:
		return "sum(" + x.column(o.Column) + ") / sum(" + x.column(o.Count) + ")"
	}
	return o.Kind.String() + "(" + x.column(o.Column) + ")"
}

// column names a column of the only piece.
func (x *Execution) column(i int) string {
	if x.Known == nil || len(x.Known.Pieces) == 0 || i >= len(x.Known.Pieces[0]) {
		return "column " + strconv.Itoa(i+1)
	}
	name := x.Known.Pieces[0][i].Name
	same := 0
	for _, c := range x.Known.Pieces[0] {
		if c.Name == name {
			same++
		}
	}
	if same > 1 {
		return fmt.Sprintf("%s (column %d)", name, i+1)
	}
	return name
}

// condition says by what the shards of a sharded table were chosen.
func (x *Execution) condition(in *plan.Instance) string {
	if l := in.Lookup; l != nil {
		by := strings.Join(x.sets(l.Keys, l.Vindex), ", ") + " by lookup " + l.Name
		if x.Unsure == nil || !x.Unsure(l) {
			return in.Name + ": " + by
		}
		return in.Name + ": " + by + ", which cannot tell; " + x.keyCondition(in)
	}
	return in.Name + ": " + x.keyCondition(in)
}

// keyCondition says what is known of the key itself.
func (x *Execution) keyCondition(in *plan.Instance) string {
	var vx vindex.Vindex
	if in.Table != nil {
		vx = in.Table.Vindex
	}
	parts := x.sets(in.Keys, vx)
	open := !slices.ContainsFunc(in.Keys, func(sets []plan.Set) bool { return len(sets) > 0 })
	switch {
	case len(in.IDs) > 0 && open:
		parts = parts[:0]
		for _, s := range in.IDs {
			parts = append(parts, "routed id "+x.set(s))
		}
	case len(in.Bounds) > 0:
		parts = parts[:0]
		for _, b := range in.Bounds {
			op := " <= "
			if b.Low {
				op = " >= "
			}
			parts = append(parts, keyName(vx, 0)+op+x.source(b.Source))
		}
	}
	if in.Policy != nil {
		parts = append(parts, keyName(vx, 0)+" = "+in.Policy.Set[0].Text+" by policy "+strconv.Quote(in.Policy.Name)+", which leads to no single shard here")
	}
	return strings.Join(parts, ", ")
}

// sets says what is known of each column of a vindex.
func (x *Execution) sets(keys [][]plan.Set, vx vindex.Vindex) []string {
	var parts []string
	for i, sets := range keys {
		for _, s := range sets {
			parts = append(parts, keyName(vx, i)+" "+x.set(s))
		}
		if len(sets) == 0 {
			parts = append(parts, "no condition on "+keyName(vx, i))
		}
	}
	return parts
}

func keyName(vx vindex.Vindex, i int) string {
	if vx != nil && i < len(vx.Columns()) {
		return vx.Columns()[i].Name
	}
	return "key " + strconv.Itoa(i+1)
}

// set prints a set as a condition.
func (x *Execution) set(s plan.Set) string {
	switch {
	case len(s) == 0:
		return "is never true"
	case len(s) == 1 && s[0].Kind == plan.Null:
		return "IS NULL"
	case len(s) == 1 && (s[0].Kind == plan.Array || s[0].Kind == plan.ParamArray):
		return "= ANY (" + x.source(s[0]) + ")"
	case len(s) == 1:
		return "= " + x.source(s[0])
	}
	parts := make([]string, len(s))
	for i := range s {
		parts[i] = x.source(s[i])
	}
	return "IN (" + strings.Join(parts, ", ") + ")"
}

// source prints a value as the client wrote it.
func (x *Execution) source(s plan.Source) string {
	switch s.Kind {
	case plan.Literal, plan.Array:
		if s.Negative {
			return "-" + x.Literal(s.Index)
		}
		return x.Literal(s.Index)
	case plan.Computed:
		if f := s.Expr.Func(); f != "" {
			return f + "(" + x.source(s.Expr.Left) + ")"
		}
		return "(" + x.source(s.Expr.Left) + " " + string(s.Expr.Op) + " " + x.source(s.Expr.Right) + ")"
	case plan.Constant:
		return strings.TrimSpace(quote.Literal(s.Text))
	case plan.Param, plan.ParamArray:
		return "$" + strconv.Itoa(s.Index+1)
	}
	return s.String()
}
