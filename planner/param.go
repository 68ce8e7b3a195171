package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/datum"
	"weft/plan"
)

// params finds the types that the server will give to parameters.
type params struct {
	types []datum.Type // as the client declared them; 0 if it did not
	used  []paramUse
}

// paramUse is how one parameter is used.
type paramUse struct {
	uses, understood int
	types            []datum.Type
}

func newParams(declared []uint32) *params {
	p := &params{}
	for _, t := range declared {
		if datum.Type(t) == datum.Unknown {
			t = 0
		}
		p.types = append(p.types, datum.Type(t))
	}
	p.used = make([]paramUse, len(declared))
	return p
}

func (p *params) declared(i int) datum.Type {
	if i < len(p.types) {
		return p.types[i]
	}
	return 0
}

// at returns the uses of parameter i, counted from 0.
func (p *params) at(i int) *paramUse {
	for i >= len(p.used) {
		p.used = append(p.used, paramUse{})
	}
	return &p.used[i]
}

// maxParams is the most the protocol can bind.
const maxParams = 65535

func (p *params) use(n *pg.ParamRef) {
	if n.Number >= 1 && n.Number <= maxParams {
		p.at(int(n.Number)-1).uses++
	}
}

// infer notes that the server gives a parameter at n this type.
func (p *params) infer(n *pg.Node, t datum.Type) {
	ref := n.GetParamRef()
	if ref == nil || t == 0 || ref.Number < 1 || ref.Number > maxParams {
		return
	}
	u := p.at(int(ref.Number) - 1)
	u.understood++
	u.types = append(u.types, t)
}

// cast notes the type of a parameter in a cast: $1::bigint is a bigint.
func (p *params) cast(l *level, c *pg.TypeCast) {
	if c.Arg.GetParamRef() == nil || c.TypeName == nil {
		return
	}
	bare := &pg.TypeName{Names: c.TypeName.Names}
	t := l.predicates().typeName(bare)
	if len(c.TypeName.ArrayBounds) > 0 {
		t = arrays[t]
	}
	p.infer(c.Arg, t)
}

// compare notes the type of a parameter in a comparison: beside a column it gets the column's type.
func (p *params) compare(l *level, e *pg.A_Expr) {
	names := nameList(e.Name)
	if len(names) == 0 {
		return
	}
	switch names[len(names)-1] {
	case "=", "<>", "<", ">", "<=", ">=":
	default:
		return
	}
	switch e.Kind {
	case pg.A_Expr_Kind_AEXPR_OP, pg.A_Expr_Kind_AEXPR_DISTINCT, pg.A_Expr_Kind_AEXPR_NOT_DISTINCT:
		a, b := e.Lexpr.GetRowExpr(), e.Rexpr.GetRowExpr()
		if a != nil && b != nil && len(a.Args) == len(b.Args) {
			for i := range a.Args {
				p.pair(l, a.Args[i], b.Args[i])
			}
			return
		}
		p.pair(l, e.Lexpr, e.Rexpr)
	case pg.A_Expr_Kind_AEXPR_OP_ANY, pg.A_Expr_Kind_AEXPR_OP_ALL:
		p.infer(e.Rexpr, arrays[comparable(l.column(e.Lexpr))])
	case pg.A_Expr_Kind_AEXPR_IN:
		p.list(l, e.Lexpr, e.Rexpr.GetList().GetItems())
	case pg.A_Expr_Kind_AEXPR_BETWEEN, pg.A_Expr_Kind_AEXPR_NOT_BETWEEN:
		for _, n := range e.Rexpr.GetList().GetItems() {
			p.pair(l, e.Lexpr, n)
		}
	}
}

func (p *params) pair(l *level, a, b *pg.Node) {
	if c := l.column(a); c != nil {
		p.infer(b, comparable(c))
	} else if c := l.column(b); c != nil {
		p.infer(a, comparable(c))
	}
}

// list notes the types of parameters in IN: all items and the left side get one common type, which
// is the column's if no item has another.
func (p *params) list(l *level, left *pg.Node, items []*pg.Node) {
	if row := left.GetRowExpr(); row != nil {
		for _, item := range items {
			if o := item.GetRowExpr(); o != nil && len(o.Args) == len(row.Args) {
				for i := range o.Args {
					p.pair(l, row.Args[i], o.Args[i])
				}
			}
		}
		return
	}
	c := l.column(left)
	if c == nil {
		return
	}
	t := comparable(c)
	if len(items) > 1 && c.typ == datum.Varchar {
		t = datum.Varchar
	}
	for _, n := range items {
		src, ok := l.predicates().constant(n)
		switch {
		case !ok:
			return
		case src.Kind == plan.Null, src.Kind == plan.Param && src.Type == 0, src.Type == datum.Unknown, src.Type == c.typ,
			class(src.Type) == datum.Int8 && c.typ == datum.Int8, src.Type == datum.Int2 && c.typ == datum.Int4:
		default:
			return
		}
	}
	for _, n := range items {
		p.infer(n, t)
	}
}

// comparable returns the type that a parameter compared with a column gets.
func comparable(c *column) datum.Type {
	switch {
	case c == nil:
		return 0
	case c.typ == datum.Varchar:
		return datum.Text
	}
	return c.typ
}

// resolve returns the type that the server will give parameter i. sure is false if the uses could
// give it several types that spell values differently.
func (p *params) resolve(i int) (t datum.Type, sure bool) {
	if t := p.declared(i); t != 0 {
		return t, true
	}
	u := p.at(i)
	if u.understood != u.uses || len(u.types) == 0 {
		return 0, false
	}
	for _, other := range u.types[1:] {
		if other != u.types[0] {
			// Integers of every width are spelled alike.
			for _, t := range u.types {
				if class(t) != datum.Int8 {
					return 0, false
				}
			}
			return 0, true
		}
	}
	return u.types[0], true
}
