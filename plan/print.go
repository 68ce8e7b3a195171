package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weft/datum"
)

// String returns the route's name.
func (r Route) String() string {
	switch r {
	case Home:
		return "home"
	case Any:
		return "any"
	case AnyCopy:
		return "any copy"
	case Keyed:
		return "keyed"
	case Every:
		return "every"
	case Gathered:
		return "gathered"
	case Call:
		return "call"
	case Refused:
		return "refused"
	case Program:
		return "program"
	}
	return "route " + strconv.Itoa(int(r))
}

// String prints the plan for people and for golden files. 'n' stands for the n-th literal, $n for
// the n-th parameter, both counted from 1.
func (p *Plan) String() string {
	var b strings.Builder
	b.WriteString(p.Route.String())
	for _, f := range []struct {
		set  bool
		name string
	}{{p.Writes, "writes"}, {p.Locks, "locks"}, {p.Lookups, "lookups follow"}, {p.Strays, "may stray"}, {p.Timed, "timed"}, {p.Routine != "", "keeps to a key"}, {p.Exact, "exact"}, {p.Waits, "waits"}} {
		if f.set {
			b.WriteString(", " + f.name)
		}
	}
	b.WriteByte('\n')
	for i := range p.Instances {
		b.WriteString("  " + p.Instances[i].String() + "\n")
	}
	if p.Generate != nil {
		p.Generate.print(&b)
	}
	for _, s := range p.Lots {
		fmt.Fprintf(&b, "  lots of %s\n", s)
	}
	if p.Change != nil {
		p.Change.print(&b)
	}
	if p.Function != nil {
		p.Function.print(&b)
	}
	if e := p.Explain; e != nil && (p.Gather() != nil || p.Write() != nil) {
		fmt.Fprintf(&b, "  explained: %s\n", strings.TrimSpace(e.SQL()))
	}
	switch w := p.Across.(type) {
	case *Gather:
		b.WriteString(w.String())
	case *Write:
		b.WriteString(w.String())
	case *Copy:
		w.print(&b)
	case *Locked:
		w.print(&b)
	case *Postponed, nil:
	}
	if p.Fires != nil {
		fmt.Fprintf(&b, "  on several shards: %s: %s\n", p.Fires.Code, p.Fires.Message)
	}
	if p.Refusal != nil && (p.Route == Refused || (p.Across == nil || p.IsPostponed()) && p.open()) {
		fmt.Fprintf(&b, "  %s: %s\n", p.Refusal.Code, p.Refusal.Message)
		if p.Refusal.Hint != "" {
			fmt.Fprintf(&b, "  hint: %s\n", p.Refusal.Hint)
		}
	}
	var known []string
	for i, t := range p.Params {
		if t != 0 {
			known = append(known, fmt.Sprintf("$%d %s", i+1, typeName(t)))
		}
	}
	if len(known) > 0 {
		b.WriteString("  params: " + strings.Join(known, ", ") + "\n")
	}
	return b.String()
}

// open reports whether an instance's leading key column is unknown.
func (p *Plan) open() bool {
	return slices.ContainsFunc(p.Instances, func(in Instance) bool { return len(in.Keys) == 0 || len(in.Keys[0]) == 0 })
}

// String says what is known of the instance's key.
func (in *Instance) String() string {
	var b strings.Builder
	b.WriteString(in.Name)
	if in.Stored {
		b.WriteString(" stores")
	}
	b.WriteByte(':')
	sep := " "
	for i, sets := range in.Keys {
		name := strconv.Itoa(i + 1)
		if in.Table != nil && in.Table.Vindex != nil && i < len(in.Table.Vindex.Columns()) {
			name = in.Table.Vindex.Columns()[i].Name
		}
		if len(sets) == 0 {
			b.WriteString(sep + name + " unknown")
			sep = ", "
		}
		for _, s := range sets {
			b.WriteString(sep + name + " " + s.String())
			sep = ", "
		}
		for _, bound := range in.Bounds {
			op := " <= "
			if bound.Low {
				op = " >= "
			}
			b.WriteString(sep + name + op + bound.Source.String())
			sep = ", "
		}
	}
	if k := in.Lookup; k != nil {
		b.WriteString(sep + k.String())
		sep = ", "
	}
	for _, s := range in.IDs {
		b.WriteString(sep + "routed " + in.Table.IDs.Column + " " + s.String())
		sep = ", "
	}
	if p := in.Policy; p != nil {
		b.WriteString(sep + p.String())
	}
	return b.String()
}

// String says what row security requires of the key.
func (p *Policy) String() string { return "policy " + strconv.Quote(p.Name) + " " + p.Set.String() }

// String says what is looked up.
func (k *LookupKey) String() string {
	var parts []string
	for i, sets := range k.Keys {
		for _, s := range sets {
			parts = append(parts, k.Vindex.Columns()[i].Name+" "+s.String())
		}
	}
	return "lookup " + k.Name + " by " + strings.Join(parts, ", ")
}

// String prints the set as a condition: = $1, IN ('1', '2').
func (s Set) String() string {
	switch {
	case len(s) == 0:
		return "is never true"
	case len(s) == 1 && s[0].Kind == Null:
		return "IS NULL"
	case len(s) == 1 && (s[0].Kind == Array || s[0].Kind == ParamArray):
		return "= ANY (" + s[0].String() + ")"
	case len(s) == 1:
		return "= " + s[0].String()
	}
	var parts []string
	for _, v := range s {
		parts = append(parts, v.String())
	}
	return "IN (" + strings.Join(parts, ", ") + ")"
}

// String prints the source.
func (s Source) String() string {
	var out string
	switch s.Kind {
	case Null:
		return "NULL"
	case Literal, Array:
		out = "'" + strconv.Itoa(s.Index+1) + "'"
	case Param, ParamArray:
		out = "$" + strconv.Itoa(s.Index+1)
	case Generated:
		return "generated " + strconv.Itoa(s.Index+1)
	case Computed:
		if f := s.Expr.Func(); f != "" {
			return f + "(" + s.Expr.Left.String() + ")"
		}
		return "(" + s.Expr.Left.String() + " " + string(s.Expr.Op) + " " + s.Expr.Right.String() + ")"
	case Constant:
		out = "constant " + strconv.Quote(s.Text)
	case Setting:
		out = "setting " + s.Text
	}
	if s.Negative {
		out = "-" + out
	}
	if s.Type != 0 && s.Type != datum.Unknown {
		out += "::" + s.Type.String()
		if s.Kind == Array || s.Kind == ParamArray {
			out += "[]"
		}
	}
	return out
}

// typeName is PostgreSQL's name for a type that a parameter may have.
func typeName(t datum.Type) string {
	for element, array := range map[datum.Type]datum.Type{
		datum.Int2: 1005, datum.Int4: 1007, datum.Int8: 1016, datum.Text: 1009, datum.Varchar: 1015, datum.Bpchar: 1014,
		datum.UUID: 2951, datum.Date: 1182, datum.Timestamp: 1115, datum.Timestamptz: 1185, datum.Numeric: 1231,
	} {
		if t == array {
			return element.String() + "[]"
		}
	}
	return t.String()
}

func (g *Generate) print(b *strings.Builder) {
	for i, v := range g.Values {
		from := "random uuid"
		switch {
		case v.Remembered && v.Sequence == "":
			from = "the last draw"
		case v.Remembered:
			from = "the last draw from " + v.Sequence
		case v.Sequence != "":
			from = v.Sequence
		}
		fmt.Fprintf(b, "  value %d: %s from %s\n", i+1, v.Type, from)
	}
	for _, e := range g.Edits {
		place := fmt.Sprintf("byte %d", e.Offset)
		if e.After >= 0 {
			place = fmt.Sprintf("%d after '%d'", e.Offset, e.After+1)
		}
		text := strconv.Quote(e.Text)
		if e.Value >= 0 {
			text = fmt.Sprintf("value %d", e.Value+1)
		}
		fmt.Fprintf(b, "  edit %s, delete %d: %s\n", place, e.Delete, text)
	}
}

func (c *Change) print(b *strings.Builder) {
	for _, d := range c.Drops {
		fmt.Fprintf(b, "  drops %s.%s\n", d.Schema, d.Table)
	}
	for _, r := range c.Renames {
		fmt.Fprintf(b, "  renames %s.%s to %s.%s\n", r.From.Schema, r.From.Table, r.To.Schema, r.To.Table)
	}
	for _, r := range c.Columns {
		fmt.Fprintf(b, "  renames key %s of %s.%s to %s\n", r.From, r.Table.Schema, r.Table.Table, r.To)
	}
	for _, x := range c.Types {
		fmt.Fprintf(b, "  makes key %s of %s.%s %s\n", x.Column, x.Table.Schema, x.Table.Table, x.Name)
	}
	for _, x := range c.Adds {
		fmt.Fprintf(b, "  declares %s.%s like %s.%s\n", x.Table.Schema, x.Table.Table, x.Like.Schema, x.Like.Table)
	}
	for _, x := range c.Lookups {
		fmt.Fprintf(b, "  lookups: %s %s.%s", [...]string{"uniques of", "new partition of", "partition leaves", "again of"}[x.Kind], x.Table.Schema, x.Table.Table)
		if x.Part.Table != "" {
			fmt.Fprintf(b, ", %s.%s", x.Part.Schema, x.Part.Table)
		}
		if len(x.Columns) > 0 {
			fmt.Fprintf(b, " (%s)", strings.Join(x.Columns, ", "))
		}
		b.WriteByte('\n')
	}
	for _, x := range c.Adopts {
		fmt.Fprintf(b, "  adopts %s.%s\n", x.Schema, x.Table)
	}
	for _, x := range c.Fills {
		fmt.Fprintf(b, "  fills %s of %s.%s\n", x.Column, x.Table.Schema, x.Table.Table)
	}
	if c.Alone {
		b.WriteString("  alone\n")
	}
	if c.Elsewhere != "" {
		fmt.Fprintf(b, "  elsewhere: %s\n", c.Elsewhere)
	}
	if c.Timed != nil {
		fmt.Fprintf(b, "  elsewhere: %s\n", c.Timed)
	}
}

func (f *Function) print(b *strings.Builder) {
	fmt.Fprintf(b, "  %s", f.Name)
	var parts []string
	for _, name := range sortedArgs(f.Args) {
		a := f.Args[name]
		v := strconv.Quote(a.Text)
		switch {
		case a.Null:
			v = "NULL"
		case a.Param > 0:
			v = "$" + strconv.Itoa(a.Param)
		}
		parts = append(parts, name+" => "+v)
	}
	fmt.Fprintf(b, "(%s) as %s\n", strings.Join(parts, ", "), f.Column)
}

func sortedArgs(args map[string]Arg) []string {
	names := make([]string, 0, len(args))
	for name := range args {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
