package routine

import (
	"slices"
	"strconv"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/parser"
	"weft/program"
)

// PostgreSQL has described the client's statement, so it has found exactly one routine, and does not say which. A candidate
// is left out only for what PostgreSQL would leave it out for as well: the one that is left is the one that is called.

// candidate is a routine that a call may mean.
type candidate struct {
	oid, kind, language string
	settings            string // its SET clauses as JSON
	// allowed: the user may run it. another: it runs with the rights of another role.
	allowed, another bool
	args             []candidateArg
	// inputs are those of args that a call has values for. takes tells which of them takes each argument of the call; expanded: the last one
	// takes all that are left, as elements of an array.
	inputs, takes []int
	expanded      bool
}

// candidateArg is an argument that a routine declares.
type candidateArg struct {
	mode      program.ArgMode
	name      string
	typ, elem declaredType // elem is that of the elements, for VARIADIC
	fallback  string       // the default as SQL, or empty
}

// declaredType is a type that a routine declares.
type declaredType struct {
	oid   uint32
	name  string
	plain bool // a base type and no array: pg_cast tells what is cast to it
	class byte // pg_type.typtype
}

// candidatesQuery has a row for each argument of each routine that a name may mean. Its columns are called as no function of the user's is: a.name may
// be name(a).
const candidatesQuery = `SELECT p.oid, l.lanname, p.prokind, pg_catalog.has_function_privilege(p.oid, 'EXECUTE'),
 p.prosecdef AND p.proowner <> (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = CURRENT_USER),
 pg_catalog.array_to_json(p.proconfig),
 a.weft_n, coalesce(a.weft_mode, 'i'), coalesce(a.weft_name, ''), a.weft_type, pg_catalog.format_type(a.weft_type, -1), t.typtype, t.typcategory,
 e.oid, pg_catalog.format_type(e.oid, -1), e.typtype, e.typcategory, pg_catalog.pg_get_function_arg_default(p.oid, a.weft_n::pg_catalog.int4)
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
 LEFT JOIN LATERAL ROWS FROM (pg_catalog.unnest(coalesce(p.proallargtypes, p.proargtypes::pg_catalog.oid[])), pg_catalog.unnest(p.proargmodes),
  pg_catalog.unnest(p.proargnames)) WITH ORDINALITY a (weft_type, weft_mode, weft_name, weft_n) ON true
 LEFT JOIN pg_catalog.pg_type t ON t.oid = a.weft_type LEFT JOIN pg_catalog.pg_type e ON e.oid = p.provariadic
WHERE p.proname = $1 AND (p.prokind = 'p') = ($3 = 'p') AND CASE WHEN $2 = '' THEN pg_catalog.pg_function_is_visible(p.oid) ELSE n.nspname = $2 END
ORDER BY p.oid, a.weft_n`

// candidates returns the routines that a call may mean by its name, and by the number and names of its arguments.
func (r *Run) candidates(c *call) (out []*candidate, err error) {
	kind := "f"
	if c.procedure {
		kind = "p"
	}
	rows, err := r.ask(candidatesQuery, c.name, c.schema, kind)
	if err != nil {
		return nil, err
	}
	last := ""
	for _, row := range rows {
		if row[0].Text != last {
			last = row[0].Text
			out = append(out, &candidate{
				oid: last, kind: row[2].Text, language: row[1].Text, allowed: row[3].Text == "t", another: row[4].Text == "t", settings: row[5].Text,
			})
		}
		if !row[6].Valid {
			continue // it has no arguments
		}
		k := out[len(out)-1]
		k.args = append(k.args, candidateArg{
			mode: program.ArgMode(row[7].Text[0]), name: row[8].Text, typ: declared(row[9:13]), elem: declared(row[13:17]), fallback: row[17].Text,
		})
	}
	return slices.DeleteFunc(out, func(k *candidate) bool { return !k.fits(c) }), nil
}

// declared reads OID, name, typtype and typcategory of a type.
func declared(row []program.Value) declaredType {
	if !row[0].Valid {
		return declaredType{}
	}
	t := declaredType{oid: oidOf(row[0].Text), name: row[1].Text, class: row[2].Text[0]}
	t.plain = t.class == 'b' && row[3].Text != "A"
	return t
}

func oidOf(s string) uint32 {
	n, _ := strconv.ParseUint(s, 10, 32)
	return uint32(n)
}

// fits gives the routine the arguments of a call, and reports whether it takes them by number and name.
func (k *candidate) fits(c *call) bool {
	k.inputs, k.takes = nil, make([]int, len(c.args))
	variadic := false
	for i, a := range k.args {
		switch a.mode {
		case program.Variadic:
			variadic = !c.f.FuncVariadic
		case program.In, program.InOut:
		default:
			if a.mode != program.Out || !c.procedure {
				continue
			}
		}
		k.inputs = append(k.inputs, i)
	}
	placed := slices.IndexFunc(c.args, func(a callArg) bool { return a.name != "" })
	if placed < 0 {
		placed = len(c.args)
	}
	k.expanded = variadic && placed == len(c.args) && placed >= len(k.inputs)
	if variadic && placed < len(c.args) || placed > len(k.inputs) && !k.expanded {
		return false
	}
	taken := make([]bool, len(k.inputs))
	for i, a := range c.args {
		at := min(i, len(k.inputs)-1)
		if i >= placed {
			at = slices.IndexFunc(k.inputs, func(n int) bool { return k.args[n].name == a.name })
			if at < 0 || taken[at] {
				return false
			}
		}
		k.takes[i], taken[at] = at, true
	}
	for at, n := range k.inputs {
		if !taken[at] && k.args[n].fallback == "" {
			return false
		}
	}
	return true
}

// declares returns the type that an argument of the call is cast to.
func (k *candidate) declares(i int) declaredType {
	a := k.args[k.inputs[k.takes[i]]]
	if k.expanded && k.takes[i] == len(k.inputs)-1 {
		return a.elem
	}
	return a.typ
}

// values returns the values of the inputs as SQL, and the places of those that are evaluated: all but OUT arguments.
func (k *candidate) values(c *call) (items []string, wanted []int) {
	for at, n := range k.inputs {
		if k.args[n].mode == program.Out {
			continue
		}
		var given []string
		for i, a := range c.args {
			if k.takes[i] == at {
				given = append(given, "CAST("+a.sql+" AS "+k.declares(i).name+")")
			}
		}
		item := "CAST(" + k.args[n].fallback + " AS " + k.args[n].typ.name + ")"
		switch {
		case k.expanded && at == len(k.inputs)-1:
			item = "CAST(ARRAY[" + strings.Join(given, ", ") + "] AS " + k.args[n].typ.name + ")"
		case len(given) > 0:
			item = given[0]
		}
		items, wanted = append(items, item), append(wanted, at)
	}
	return items, wanted
}

// resolve finds the routine that PostgreSQL has found for a call. declared are the types of the parameters that the client gave, params those that
// PostgreSQL has found.
func (r *Run) resolve(c *call, declared, params []uint32) (*candidate, error) {
	list, err := r.candidates(c)
	if err == nil && len(list) > 1 {
		list, err = r.byUnknown(c, list, declared, params)
	}
	if err == nil && len(list) > 1 {
		list, err = r.byTypes(c, list, declared, params)
	}
	if err != nil {
		return nil, err
	}
	if len(list) != 1 {
		return nil, refuse("Cast the arguments to the types of the one that is meant: 1::bigint.", "there are several functions %q that take these arguments, and weft cannot tell which one is called", c.name)
	}
	return list[0], nil
}

// untyped reports whether an argument has no type until the routine gives it one. sure is false for a parameter that occurs more than once.
func (c *call) untyped(i int, declared []uint32) (is, sure bool) {
	switch n := c.args[i].node.Node.(type) {
	case *pg_query.Node_AConst:
		return n.AConst.Isnull || n.AConst.GetSval() != nil, true
	case *pg_query.Node_ParamRef:
		at := int(n.ParamRef.Number) - 1
		if at < len(declared) && declared[at] != 0 {
			return false, true
		}
		uses := 0
		parser.Walk(c.f, func(m any) bool {
			if p, ok := m.(*pg_query.ParamRef); ok && int(p.Number) == at+1 {
				uses++
			}
			return true
		})
		return true, uses == 1
	}
	return false, true
}

// byUnknown leaves those candidates that have the types that PostgreSQL gives to literals and parameters without a type. Literals become
// parameters, which resolve to the same routine, and PostgreSQL tells the types of parameters.
func (r *Run) byUnknown(c *call, list []*candidate, declared, params []uint32) ([]*candidate, error) {
	f := proto.Clone(c.f).(*pg_query.FuncCall)
	types := append(append([]uint32(nil), declared...), make([]uint32, max(0, len(params)-len(declared)))...)
	at := map[int]int{} // by argument: the parameter
	for i := range c.args {
		is, sure := c.untyped(i, declared)
		if !is || !sure {
			continue
		}
		if p := c.args[i].node.GetParamRef(); p != nil {
			at[i] = int(p.Number) - 1
			continue
		}
		at[i] = len(types)
		types = append(types, 0)
		n := pg_query.MakeParamRefNode(int32(len(types)), -1)
		if named := f.Args[i].GetNamedArgExpr(); named != nil {
			named.Arg = n
		} else {
			f.Args[i] = n
		}
	}
	if len(at) == 0 {
		return list, nil
	}
	stmt := selectOf(&pg_query.Node{Node: &pg_query.Node_FuncCall{FuncCall: f}})
	if c.procedure {
		stmt = &pg_query.Node{Node: &pg_query.Node_CallStmt{CallStmt: &pg_query.CallStmt{Funccall: f}}}
	}
	sql, err := parser.Deparse(stmt)
	if err != nil {
		return nil, err
	}
	d, err := r.d.describe(&program.Prepared{SQL: sql, Types: types, Handle: r.d.room.name("d")})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(k *candidate) bool {
		for i, n := range at {
			if t := k.declares(i); t.class != 'p' && n < len(d.params) && d.params[n] != t.oid {
				return true
			}
		}
		return false
	}), nil
}

// actualType is the type of an argument, and what it is cast to without being asked.
type actualType struct {
	oid   uint32
	plain bool
	casts []uint32
}

// to reports whether a value can be given for an argument of a type. sure is false if that is not known.
func (t actualType) to(d declaredType) (can, sure bool) {
	switch {
	case t.oid == d.oid, slices.Contains(t.casts, d.oid):
		return true, true
	case t.plain && d.plain:
		return false, true
	}
	return true, false
}

// byTypes leaves out candidates that do not take arguments of these types. Of several, PostgreSQL takes the one that has the most of the types exactly.
func (r *Run) byTypes(c *call, list []*candidate, declared, params []uint32) ([]*candidate, error) {
	actual, err := r.actual(c, declared, params)
	if err != nil {
		return nil, err
	}
	best, most, tie := -1, -1, false
	var left []*candidate
	for _, k := range list {
		exact, can, sure := 0, true, true
		for i := range c.args {
			t, typed := actual[i]
			if !typed {
				_, known := c.untyped(i, declared)
				sure = sure && known
				continue
			}
			d := k.declares(i)
			is, known := t.to(d)
			can, sure = can && is, sure && known
			if t.oid == d.oid {
				exact++
			}
			if d.class == 'd' {
				return list, nil // a value of a domain is told by the type below it
			}
		}
		if !can {
			continue
		}
		switch left = append(left, k); {
		case exact > most:
			most, tie, best = exact, false, -1
			if sure {
				best = len(left) - 1
			}
		case exact == most:
			tie = true
		}
	}
	if len(left) > 1 && best >= 0 && !tie {
		return left[best : best+1], nil
	}
	return left, nil
}

// actual returns the types of the arguments that have one.
func (r *Run) actual(c *call, declared, params []uint32) (map[int]actualType, error) {
	var items []*pg_query.Node
	var at []int
	for i := range c.args {
		if is, _ := c.untyped(i, declared); !is {
			items, at = append(items, c.args[i].node), append(at, i)
		}
	}
	out := map[int]actualType{}
	if len(items) == 0 {
		return out, nil
	}
	sql, err := parser.Deparse(selectOf(items...))
	if err != nil {
		return nil, err
	}
	d, err := r.d.describe(&program.Prepared{SQL: sql, Types: params, Handle: r.d.room.name("d")})
	if err != nil {
		return nil, err
	}
	var oids []string
	for _, col := range d.columns {
		oids = append(oids, strconv.FormatUint(uint64(col.OID), 10))
	}
	rows, err := r.ask(`SELECT t.oid, t.typtype = 'b' AND t.typcategory <> 'A',
 (SELECT pg_catalog.string_agg(c.casttarget::pg_catalog.text, ' ') FROM pg_catalog.pg_cast c WHERE c.castsource = t.oid AND c.castcontext = 'i')
 FROM pg_catalog.pg_type t WHERE t.oid = ANY ($1::pg_catalog.oid[])`, "{"+strings.Join(oids, ",")+"}")
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		t := actualType{oid: oidOf(row[0].Text), plain: row[1].Text == "t"}
		for _, s := range strings.Fields(row[2].Text) {
			t.casts = append(t.casts, oidOf(s))
		}
		for n, col := range d.columns {
			if col.OID == t.oid && n < len(at) {
				out[at[n]] = t
			}
		}
	}
	return out, nil
}
