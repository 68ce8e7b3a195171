package flow

import (
	"slices"
	"strconv"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/program"
	"weft/quote"
)

// place is where an expression stands.
type place struct {
	// find looks a variable up.
	find func(names []string) (*program.Var, int)
	// live are the events in which the place can be reached. assigned are the events in which a variable is certainly
	// not NULL there.
	live     Events
	assigned map[*program.Var]Events
	// dynamic: the expression is in a text that EXECUTE runs. params are the values of $1 and so on there.
	dynamic bool
	params  []value
}

// eval returns what is known of an expression.
func (r *reader) eval(n *pg.Node, p *place) value {
	switch e := n.GetNode().(type) {
	case *pg.Node_AConst:
		return constant(e.AConst, p)
	case *pg.Node_ColumnRef:
		return r.name(stringsOf(e.ColumnRef.Fields), p)
	case *pg.Node_ParamRef:
		if i := int(e.ParamRef.Number) - 1; i >= 0 && i < len(p.params) {
			return p.params[i]
		}
	case *pg.Node_AIndirection:
		return r.part(e.AIndirection, p)
	case *pg.Node_CoalesceExpr:
		return r.coalesce(e.CoalesceExpr.Args, p)
	case *pg.Node_CaseExpr:
		return r.choice(e.CaseExpr, p)
	case *pg.Node_TypeCast:
		return r.cast(r.eval(e.TypeCast.Arg, p), typeText(e.TypeCast.TypeName))
	case *pg.Node_FuncCall:
		return r.call(e.FuncCall, p)
	case *pg.Node_AExpr:
		return r.operator(e.AExpr, p)
	}
	return value{kind: unknown}
}

func constant(c *pg.A_Const, p *place) value {
	switch s := c.GetSval(); {
	case c.Isnull:
		return value{}
	case s != nil && p.dynamic && strings.HasPrefix(s.Sval, mark):
		return unmark(s.Sval)
	case s != nil && !strings.Contains(s.Sval, mark):
		return textOf(s.Sval)
	}
	return value{kind: unknown}
}

// name returns what is known of a variable, or of a field of one.
func (r *reader) name(names []string, p *place) value {
	if len(names) == 0 {
		return value{kind: unknown}
	}
	v, n := p.find(names)
	if v == nil {
		return value{kind: unknown}
	}
	out := r.values[v]
	switch v {
	case r.new:
		out.filled = Insert | Update
	case r.old:
		out.filled = Update | Delete
	default:
		if _, fixed := r.fixed[v]; !fixed {
			out.filled = p.assigned[v]
		}
	}
	if r.sure[v] {
		out.filled = all
	}
	if r.emptied[v] || r.trigger.Statement && (v == r.new || v == r.old) {
		out.filled = 0
	}
	switch len(names) - n {
	case 0:
		return out
	case 1:
		return r.field(out, names[n])
	}
	return value{kind: unknown}
}

// field returns what is known of a column of a row.
func (r *reader) field(v value, column string) value {
	i := slices.IndexFunc(r.trigger.Keys, func(k Key) bool { return k.Name == column })
	if v.kind == none {
		return v
	}
	if v.kind != row || i < 0 {
		return value{kind: unknown}
	}
	return value{kind: key, at: i, filled: v.filled}
}

// part returns what is known of (row).column and of an element of TG_ARGV.
func (r *reader) part(a *pg.A_Indirection, p *place) value {
	if len(a.Indirection) != 1 {
		return value{kind: unknown}
	}
	if s := a.Indirection[0].GetString_(); s != nil {
		return r.field(r.eval(a.Arg, p), s.Sval)
	}
	index := a.Indirection[0].GetAIndices()
	names := stringsOf(a.Arg.GetColumnRef().GetFields())
	if index == nil || index.IsSlice || len(names) == 0 {
		return value{kind: unknown}
	}
	v, n := p.find(names)
	if at := index.Uidx.GetAConst().GetIval(); at != nil && v == r.argv && n == len(names) && r.values[v].kind == none {
		if i := int(at.Ival); i >= 0 && i < len(r.trigger.Args) && !strings.Contains(r.trigger.Args[i], mark) {
			return textOf(r.trigger.Args[i])
		}
	}
	return value{kind: unknown}
}

// coalesce returns what is known of the first of some expressions that is not NULL.
func (r *reader) coalesce(args []*pg.Node, p *place) value {
	out := value{}
	for _, a := range args {
		v := r.eval(a, p)
		filled := out.filled | v.filled
		out = join(value{kind: out.kind, at: out.at, texts: out.texts, filled: all}, value{kind: v.kind, at: v.at, texts: v.texts, filled: all})
		out.filled = filled
	}
	return out
}

// choice returns what is known of a CASE. In each branch TG_OP can be something else.
func (r *reader) choice(c *pg.CaseExpr, p *place) value {
	live, out, first := p.live, value{}, true
	add := func(result *pg.Node, reached Events) {
		if reached == 0 {
			return
		}
		v := value{}
		if result != nil {
			at := *p
			at.live = reached
			v = r.eval(result, &at)
		}
		v.filled |= ^reached & all
		if first {
			out, first = v, false
			return
		}
		out = join(out, v)
	}
	for _, w := range c.Args {
		when := w.GetCaseWhen()
		cond := when.Expr
		if c.Arg != nil {
			cond = equal(c.Arg, when.Expr)
		}
		yes, no := r.condition(cond, p)
		add(when.Result, live&yes)
		live &= no
	}
	add(c.Defresult, live)
	return out
}

// equal returns a = b.
func equal(a, b *pg.Node) *pg.Node {
	return &pg.Node{Node: &pg.Node_AExpr{AExpr: &pg.A_Expr{
		Kind: pg.A_Expr_Kind_AEXPR_OP, Name: []*pg.Node{pg.MakeStrNode("=")}, Lexpr: a, Rexpr: b,
	}}}
}

// cast returns what is known of a value after a cast.
func (r *reader) cast(v value, to string) value {
	switch {
	case v.kind == none:
		return v
	case v.kind == key && keeps(r.trigger.Keys[v.at].Type, to):
		return v
	case v.kind == key && family(to) == "text" && readable(r.trigger.Keys[v.at].Type):
		v.kind = written
		return v
	case v.kind == written && keeps(r.trigger.Keys[v.at].Type, to):
		v.kind = key
		return v
	case v.kind == known && (family(to) == "text" || family(to) == "regclass"), v.kind == object && (to == "json" || to == "jsonb"):
		return v
	}
	return value{kind: unknown}
}

// typeText returns a type as it is written, or "" for an array and for a type with a modifier.
func typeText(t *pg.TypeName) string {
	if t == nil || len(t.ArrayBounds) > 0 || len(t.Typmods) > 0 || t.Setof || t.PctType {
		return ""
	}
	names := stringsOf(t.Names)
	if len(names) == 2 && names[0] == "pg_catalog" {
		names = names[1:]
	}
	return strings.Join(names, ".")
}

// call returns what is known of the result of a function.
func (r *reader) call(f *pg.FuncCall, p *place) value {
	names := stringsOf(f.Funcname)
	if len(names) == 0 || len(names) > 2 || len(names) == 2 && names[0] != "pg_catalog" || f.FuncVariadic || f.AggStar || f.Over != nil {
		return value{kind: unknown}
	}
	name := names[len(names)-1]
	if r.trigger.Shadowed != nil && r.trigger.Shadowed(name) {
		return value{kind: unknown}
	}
	var args []value
	null := false
	for _, a := range f.Args {
		v := r.eval(a, p)
		args, null = append(args, v), null || v.kind == none
	}
	switch {
	case name == "format" && len(args) > 0 && args[0].kind == known && len(args[0].texts) == 1:
		out := r.format(args[0].texts[0], args[1:], p)
		out.filled &= args[0].filled
		return out
	case name == "concat" && len(args) > 0:
		out := textOf("")
		for _, a := range args {
			out = concat(out, orNull(a, "", p))
		}
		return out
	case len(args) == 1 && name == "quote_nullable":
		return r.spell(args[0], 'L', p)
	case len(args) == 1:
		return r.callStrict(name, args[0], p)
	case len(args) == 2 && name == "textcat":
		return concat(args[0], args[1])
	}
	return value{kind: unknown}
}

// callStrict returns what is known of the result of a function of one argument that gives NULL for NULL.
func (r *reader) callStrict(name string, arg value, p *place) value {
	out := value{kind: unknown}
	switch name {
	case "to_jsonb", "to_json", "row_to_json":
		if arg.kind == row {
			out = value{kind: object}
		}
	case "quote_literal":
		out = r.spell(arg, 'L', p)
	case "quote_ident":
		out = r.spell(arg, 'I', p)
	case "lower", "upper":
		if arg.kind == known {
			out = cased(arg.texts, name == "upper")
		}
	default:
		return out
	}
	if arg.kind == none {
		return arg
	}
	out.filled = arg.filled
	return out
}

// cased returns texts in upper or lower case.
func cased(texts []string, upper bool) value {
	var out []string
	for _, t := range texts {
		if strings.IndexFunc(t, func(c rune) bool { return c > 127 }) >= 0 {
			return value{kind: unknown}
		}
		if upper {
			t = strings.ToUpper(t)
		} else {
			t = strings.ToLower(t)
		}
		out = append(out, t)
	}
	return textOf(out...)
}

// operator returns what is known of a || b and of object ->> 'column'.
func (r *reader) operator(e *pg.A_Expr, p *place) value {
	if e.Kind != pg.A_Expr_Kind_AEXPR_OP || len(e.Name) != 1 || e.Lexpr == nil {
		return value{kind: unknown}
	}
	switch e.Name[0].GetString_().GetSval() {
	case "||":
		return concat(r.eval(e.Lexpr, p), r.eval(e.Rexpr, p))
	case "->>":
		of, name := r.eval(e.Lexpr, p), r.eval(e.Rexpr, p)
		if of.kind == none || name.kind == none {
			return value{}
		}
		if of.kind == object && name.kind == known && len(name.texts) == 1 {
			k := r.field(value{kind: row, filled: of.filled}, name.texts[0])
			if k.kind == key && readable(r.trigger.Keys[k.at].Type) {
				k.kind = written
				if family(r.trigger.Keys[k.at].Type) == "text" {
					k.kind = key
				}
				return k
			}
		}
	}
	return value{kind: unknown}
}

// concat returns what is known of two texts behind each other.
func concat(a, b value) value {
	switch {
	case a.kind == none && (b.kind == none || b.kind == known), b.kind == none && a.kind == known:
		return value{}
	case a.kind != known || b.kind != known:
		return value{kind: unknown} // an array with a NULL behind it is no NULL
	}
	var out []string
	for _, x := range a.texts {
		for _, y := range b.texts {
			out = append(out, x+y)
		}
	}
	v := textOf(out...)
	v.filled = a.filled & b.filled
	return v
}

// orNull returns what is known of a text that is another one where the value is NULL.
func orNull(v value, null string, p *place) value {
	switch {
	case v.kind == none:
		return textOf(null)
	case v.kind == known && p.live&^v.filled != 0:
		v = join(v, textOf(null))
	}
	v.filled = all
	return v
}

// format returns what is known of the result of format(). It knows %s, %I, %L and %% only.
func (r *reader) format(pattern string, args []value, p *place) value {
	out := textOf("")
	for {
		before, after, found := strings.Cut(pattern, "%")
		out = concat(out, textOf(before))
		if !found {
			return out
		}
		if after == "" {
			return value{kind: unknown}
		}
		pattern = after[1:]
		switch c := after[0]; {
		case c == '%':
			out = concat(out, textOf("%"))
		case len(args) > 0 && (c == 's' || c == 'I' || c == 'L'):
			out = concat(out, r.spell(args[0], c, p))
			args = args[1:]
		default:
			return value{kind: unknown}
		}
	}
}

// mark begins and ends a literal that stands for the key in a text which EXECUTE runs. anything stands for a literal whose
// value is not known.
const (
	mark     = "\x01"
	anything = mark + "?" + mark
)

func unmark(s string) value {
	at, filled, ok := strings.Cut(strings.Trim(s, mark), ":")
	i, err1 := strconv.Atoi(at)
	e, err2 := strconv.Atoi(filled)
	if !ok || err1 != nil || err2 != nil {
		return value{kind: unknown}
	}
	return value{kind: key, at: i, filled: Events(e)}
}

// spell returns a value as format writes it for s, I or L. A key can be a literal only. NULL is no text for s, NULL for L,
// and an error for I.
func (r *reader) spell(v value, as byte, p *place) value {
	switch {
	case as == 's':
		return orNull(v, "", p)
	case as == 'L' && v.kind == none:
		return textOf("NULL")
	}
	if as == 'L' && (v.kind == key || v.kind == written) && readable(r.trigger.Keys[v.at].Type) {
		return textOf(quote.Literal(mark + strconv.Itoa(v.at) + ":" + strconv.Itoa(int(v.filled)) + mark))
	}
	if as == 'L' && v.kind != known && v.kind != none {
		return textOf(quote.Literal(anything))
	}
	if v.kind != known {
		return value{kind: unknown}
	}
	var out []string
	for _, t := range v.texts {
		if as == 'I' {
			out = append(out, quote.Ident(t))
		} else {
			out = append(out, quote.Literal(t))
		}
	}
	w := textOf(out...)
	if as == 'L' {
		w.filled = v.filled
		return orNull(w, "NULL", p)
	}
	return w
}

func stringsOf(nodes []*pg.Node) []string {
	var out []string
	for _, n := range nodes {
		s := n.GetString_()
		if s == nil {
			return nil
		}
		out = append(out, s.Sval)
	}
	return out
}
