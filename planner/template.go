package planner

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"weft/parser"
	"weft/plan"
)

// A template is a piece of a tree on its way to a plan.Text. What differs from
// one execution to the next is taken out of the tree and leaves a mark, the tree
// is written out as SQL, and the SQL is cut at the marks.
//
//	tree ──mark──▶ tree with marks ──deparse──▶ SQL with marks ──cut──▶ plan.Text
//
// A mark is a name that no client can have written, in the place of a constant, a table or
// a type. Where the grammar takes only a number (the modifiers of some types) the mark is a
// number that is unlikely in any text; a text that contains it gets no template.
type template struct {
	text  *text
	holes []plan.Part
	// exact is set if some literal could not be taken out.
	exact bool
}

const (
	// mark stands around the number of a hole. It is a byte that no text has outside of quotes, and
	// gather refuses it inside.
	mark = "\x01"
	// markNumber is the number that stands for hole 0.
	markNumber = 1987000000
)

// The functions below return the marks of a tree that is to be rewritten. Marks are made before the
// tree becomes a template, and are the same in all templates.

// inputMark returns the name of a table that stands for the rows of a piece.
func inputMark(piece int) string { return mark + "i" + strconv.Itoa(piece) + mark }

// restMark is the name of a table that stands for the query of a command.
const restMark = mark + "r" + mark

// nowMark is a column that stands for the time of the transaction.
func nowMark() *pg.Node { return nameNode(mark + "n" + mark) }

// typeMark returns a type that stands for the type of a column of a piece.
func typeMark(piece, column int) *pg.TypeName {
	return &pg.TypeName{Names: []*pg.Node{pg.MakeStrNode(mark + "t" + strconv.Itoa(piece) + "." + strconv.Itoa(column) + mark)}, Typemod: -1}
}

// sqlMark returns an expression that stands for some SQL, which must be one expression in every
// context.
func sqlMark(sql string) *pg.Node { return nameNode(mark + "s" + sql + mark) }

func nameNode(names ...string) *pg.Node {
	ref := &pg.ColumnRef{Location: -1}
	for _, n := range names {
		ref.Fields = append(ref.Fields, pg.MakeStrNode(n))
	}
	return &pg.Node{Node: &pg.Node_ColumnRef{ColumnRef: ref}}
}

// render writes a statement as a text with holes. The tree is left as it is.
// Constants whose location is that of a literal of the client's text become
// holes; those of view definitions have no location.
func (ga gatherer) render(n *pg.Node) (plan.Text, error) {
	n = proto.Clone(n).(*pg.Node)
	if ga.a.timed {
		ga.a.clock().times(n)
	}
	want := proto.Clone(n).(*pg.Node)
	t := &template{text: &ga.a.client}
	bracket(n)
	t.take(n)
	sql, err := parser.Deparse(n)
	if err != nil {
		return nil, err
	}
	out, err := t.cut(sql)
	if err != nil {
		return nil, err
	}
	if err := ga.same(want, out); err != nil {
		return nil, err
	}
	if t.exact {
		ga.a.out.Exact = true
	}
	for i := range out {
		if out[i].Kind == plan.Lit {
			ga.a.held[out[i].Index] = true
		}
	}
	return out, nil
}

// same checks that a text, filled with the literals of this statement, parses to the tree that it
// was made from.
func (ga gatherer) same(want *pg.Node, t plan.Text) error {
	sql := string(t.Append(nil, &plan.Fill{
		Literal: func(dst []byte, i int) []byte {
			return append(dst, ga.a.client.sql[ga.a.client.literals[i].Start:ga.a.client.literals[i].End]...)
		},
		Input: func(dst []byte, i int) []byte { return append(dst, `"`+inputMark(i)+`"`...) },
		Now:   func(dst []byte) []byte { return append(dst, `"`+mark+"n"+mark+`"`...) },
		Rest:  func(dst []byte) []byte { return append(dst, `"`+restMark+`"`...) },
		Type: func(dst []byte, i, j int) []byte {
			return append(dst, `"`+mark+"t"+strconv.Itoa(i)+"."+strconv.Itoa(j)+mark+`"`...)
		},
	}))
	tree, err := parser.ParseTree(sql, ga.a.client.options)
	if err != nil {
		return fmt.Errorf("template: %w", err)
	}
	if len(tree.Statements) != 1 || !proto.Equal(normal(want), normal(tree.Statements[0].Stmt)) {
		return fmt.Errorf("template: the text is another statement")
	}
	return nil
}

// normal returns a tree without positions, and without marks for SQL.
func normal(n *pg.Node) *pg.Node {
	n = proto.Clone(n).(*pg.Node)
	parser.Walk(n, func(m any) bool {
		node, ok := m.(*pg.Node)
		if !ok {
			return true
		}
		if names := nameList(node.GetColumnRef().GetFields()); len(names) == 1 && strings.HasPrefix(names[0], mark+"s") {
			if tree, err := parser.Parse("SELECT " + strings.Trim(names[0][2:], mark)); err == nil {
				node.Node = tree.Stmts[0].Stmt.GetSelectStmt().TargetList[0].GetResTarget().Val.Node
			}
			return false
		}
		return true
	})
	parser.Walk(n, func(m any) bool {
		if node, ok := m.(*pg.Node); ok {
			unnest(node)
		}
		return true
	})
	plain(n.ProtoReflect())
	return n
}

// unnest makes one node of a chain of AND, or of OR, however it is nested, and replaces a chain of
// one operand by that operand: a text does not tell these apart.
func unnest(n *pg.Node) {
	b := n.GetBoolExpr()
	if b == nil || b.Boolop == pg.BoolExprType_NOT_EXPR {
		return
	}
	var args []*pg.Node
	for _, arg := range b.Args {
		unnest(arg)
		if inner := arg.GetBoolExpr(); inner != nil && inner.Boolop == b.Boolop {
			args = append(args, inner.Args...)
		} else {
			args = append(args, arg)
		}
	}
	if b.Args = args; len(args) == 1 {
		n.Node = args[0].Node
	}
}

// plain clears positions, and sets unset fields to the value that parsing gives them: nodes that
// are made here lack some.
func plain(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Kind() == protoreflect.MessageKind && f.IsList():
			for l, i := v.List(), 0; i < l.Len(); i++ {
				plain(l.Get(i).Message())
			}
		case f.Kind() == protoreflect.MessageKind:
			plain(v.Message())
		case f.Name() == "location":
			m.Clear(f)
		}
		return true
	})
	for _, f := range unset(m.Descriptor()) {
		switch {
		case m.Has(f):
		case f.Kind() == protoreflect.EnumKind:
			m.Set(f, protoreflect.ValueOfEnum(1))
		case f.Name() == "typemod":
			m.Set(f, protoreflect.ValueOfInt32(-1))
		default:
			m.Set(f, protoreflect.ValueOfString("p"))
		}
	}
}

// unsets caches per message the fields that plain sets.
var unsets sync.Map // protoreflect.FullName → []protoreflect.FieldDescriptor

func unset(d protoreflect.MessageDescriptor) []protoreflect.FieldDescriptor {
	if list, ok := unsets.Load(d.FullName()); ok {
		return list.([]protoreflect.FieldDescriptor)
	}
	var list []protoreflect.FieldDescriptor
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		if f.ContainingOneof() == nil && !f.IsList() && (f.Kind() == protoreflect.EnumKind || f.Name() == "typemod" || f.Name() == "relpersistence") {
			list = append(list, f)
		}
	}
	unsets.Store(d.FullName(), list)
	return list
}

// hole notes a part and returns its number.
func (t *template) hole(p plan.Part) int {
	t.holes = append(t.holes, p)
	return len(t.holes) - 1
}

// take replaces constants by marks.
func (t *template) take(n any) {
	parser.Walk(n, func(m any) bool {
		switch m := m.(type) {
		case *pg.TypeName:
			t.modifiers(m)
			return false
		case *pg.MultiAssignRef:
			if m.Colno > 1 {
				return false // the source is written once
			}
		case *pg.CTECycleClause:
			t.exact = true // the grammar has room for constants only
			return false
		case *pg.XmlExpr:
			if m.Op == pg.XmlExprOp_IS_XMLROOT {
				t.exact = true // the deparser wants constants
				t.take(m.Args[0])
				return false
			}
		case *pg.TypeCast:
			// char '…' has no length, but x::char means x::char(1).
			if names := nameList(m.TypeName.GetNames()); len(names) == 2 && names[1] == "bpchar" && len(m.TypeName.Typmods) == 0 {
				m.TypeName.Names = []*pg.Node{pg.MakeStrNode(mark + "spg_catalog.bpchar" + mark)}
			}
		case *pg.Node:
			if c := m.GetAConst(); c != nil {
				if p, ok := t.literal(c); ok {
					m.Node = nameNode(mark + "h" + strconv.Itoa(t.hole(p)) + mark).Node
				}
				return false
			}
		}
		return true
	})
}

// literal returns the hole for a constant of the client's text.
func (t *template) literal(c *pg.A_Const) (plan.Part, bool) {
	if c.Isnull || c.GetBoolval() != nil {
		return plan.Part{}, false
	}
	i, negative, ok := t.text.literalAt(c.Location)
	if !ok {
		return plan.Part{}, false
	}
	switch t.text.literals[i].Kind {
	case parser.UnicodeString, parser.NationalString:
		// The meaning of these literals depends on words beside them, which the tree does not have.
		t.exact = true
		return plan.Part{}, false
	}
	return plan.Part{Kind: plan.Lit, Index: i, Negative: negative}, true
}

// modifiers replaces a type's modifiers by marks.
func (t *template) modifiers(n *pg.TypeName) {
	numbers := false
	if names := nameList(n.Names); len(names) == 2 && names[0] == "pg_catalog" {
		switch names[1] {
		case "timetz", "timestamptz", "interval":
			numbers = true
		}
	}
	for _, m := range n.Typmods {
		c := m.GetAConst()
		if c == nil {
			t.take(m)
			continue
		}
		p, ok := t.literal(c)
		switch {
		case !ok:
		case numbers && c.GetIval() != nil && !p.Negative:
			m.Node = pg.MakeAConstIntNode(int64(markNumber+t.hole(p)), -1).Node
		case numbers:
			t.exact = true
		default:
			m.Node = nameNode(mark + "h" + strconv.Itoa(t.hole(p)) + mark).Node
		}
	}
}

// literalAt finds the literal of the scan that belongs to a constant at a location of the tree.
func (t *text) literalAt(location int32) (i int, negative, ok bool) {
	if t.stored || location < 0 {
		return 0, false, false
	}
	at := t.tree.Offset(location)
	i = sort.Search(len(t.literals), func(i int) bool { return int(t.literals[i].Start) >= at })
	if i == len(t.literals) || at < 0 {
		return 0, false, false
	}
	if start := int(t.literals[i].Start); start > at {
		// The grammar folds signs into a number, and brackets vanish: the constant is then located
		// at the first sign.
		between := t.sql[at:start]
		if between[0] != '-' || strings.Trim(between, "-( \t\n\r\f\v") != "" || strings.Contains(between, "--") {
			return 0, false, false
		}
		negative = strings.Count(between, "-")%2 == 1
	}
	return i, negative, true
}

// cut turns the SQL into parts.
func (t *template) cut(sql string) (plan.Text, error) {
	numbers := make([]string, len(t.holes))
	for i := range numbers {
		numbers[i] = strconv.Itoa(markNumber + i)
	}
	var out plan.Text
	add := func(s string) {
		if s == "" {
			return
		}
		if n := len(out); n > 0 && out[n-1].Kind == plan.SQL {
			out[n-1].SQL += s
			return
		}
		out = append(out, plan.Part{Kind: plan.SQL, SQL: s})
	}
	used := 0
	for {
		before, rest, found := strings.Cut(sql, `"`+mark)
		for before != "" {
			at, hole := firstNumber(before, numbers)
			if hole < 0 {
				add(before)
				break
			}
			add(before[:at])
			out = append(out, t.holes[hole])
			used++
			before = before[at+len(numbers[hole]):]
		}
		if !found {
			break
		}
		name, after, ok := strings.Cut(rest, mark+`"`)
		if !ok {
			return nil, fmt.Errorf("template: a mark does not end")
		}
		sql = after
		p, err := t.part(name)
		switch {
		case err != nil:
			return nil, err
		case p.Kind == plan.SQL:
			add(p.SQL)
		default:
			out = append(out, p)
		}
		if name[0] == 'h' {
			used++
		}
	}
	if used != len(t.holes) {
		return nil, fmt.Errorf("template: %d marks, %d found", len(t.holes), used)
	}
	return out, nil
}

// firstNumber finds the first of some numbers in a text.
func firstNumber(s string, numbers []string) (at, which int) {
	which = -1
	if !strings.Contains(s, strconv.Itoa(markNumber)[:4]) {
		return 0, which
	}
	for i, n := range numbers {
		if j := strings.Index(s, n); j >= 0 && (which < 0 || j < at) {
			at, which = j, i
		}
	}
	return at, which
}

// part returns what a mark stands for.
func (t *template) part(name string) (plan.Part, error) {
	if name == "" {
		return plan.Part{}, fmt.Errorf("template: an empty mark")
	}
	rest := name[1:]
	switch name[0] {
	case 'n':
		return plan.Part{Kind: plan.Now}, nil
	case 'r':
		return plan.Part{Kind: plan.Rest}, nil
	case 'b':
		return plan.Part{Kind: plan.SQL}, nil
	case 's':
		return plan.Part{Kind: plan.SQL, SQL: strings.ReplaceAll(rest, `""`, `"`)}, nil
	case 't':
		piece, column, _ := strings.Cut(rest, ".")
		i, err := strconv.Atoi(piece)
		if err != nil {
			return plan.Part{}, fmt.Errorf("template: %w", err)
		}
		j, err := strconv.Atoi(column)
		return plan.Part{Kind: plan.TypeOf, Index: i, Column: j}, err
	}
	i, err := strconv.Atoi(rest)
	switch {
	case err != nil:
		return plan.Part{}, fmt.Errorf("template: %w", err)
	case name[0] == 'i':
		return plan.Part{Kind: plan.Input, Index: i}, nil
	case name[0] == 'h' && i < len(t.holes):
		return t.holes[i], nil
	}
	return plan.Part{}, fmt.Errorf("template: unknown mark %q", name)
}
