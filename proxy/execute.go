package proxy

import (
	"bytes"
	"slices"
	"strings"

	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/quote"
	"weft/wire"
)

// A statement made by SQL's PREPARE is on a backend of the home shard. If it names sharded
// tables, it cannot be executed there: weft then replaces EXECUTE by the statement's text with
// the arguments in it, which goes where it belongs. Arguments that are more than constants are
// evaluated first (execute_ask.go). Tables may have been declared since PREPARE,
// so this is found out at each EXECUTE. Where the text cannot be replaced, because EXECUTE is
// part of something else, EXECUTE is refused.

// scattered reports whether a prepared statement cannot be executed by SQL on the home shard
// alone, and returns the statement's text.
func (ps *prepared) scattered(st *statement) (body string, yes bool, err error) {
	if !ps.s.route.refresh() {
		return "", false, nil
	}
	text := st.original
	if text == "" {
		text = st.server.SQL
	}
	if err := ps.s.record.mayRead([]byte(text), st.planned.read); err != nil {
		return "", false, err
	}
	r := ps.s.srv.memory.routers.Get().(*router)
	defer ps.s.srv.memory.routers.Put(r)
	oids := []byte(st.server.OIDs)
	if st.server.ViaSQL {
		f := ps.s.route.read(r, []byte(text))
		if len(f.Prepared) != 1 {
			return "", true, nil
		}
		text, oids = text[f.Prepared[0].BodyStart:f.Prepared[0].BodyEnd], nil
	}
	ps.s.route.read(r, []byte(text))
	p, err := ps.s.route.plan(r, []byte(text), oids)
	switch {
	case err != nil:
		return "", false, err
	case p.Route == plan.Refused && p.Refusal != nil:
		return "", false, p.Refusal
	}
	return text, p.Route != plan.Home && p.Route != plan.Any && p.Route != plan.AnyCopy, nil
}

// mayExecuteHere refuses a text that executes a scattered statement by SQL.
func (ps *prepared) mayExecuteHere(f *parser.Facts) error {
	if f.Effects&parser.Executes == 0 {
		return nil
	}
	for _, p := range f.Prepared {
		st := ps.named[p.Name]
		if p.Kind != parser.Execute || st == nil {
			continue
		}
		switch _, yes, err := ps.scattered(st); {
		case err != nil:
			return err
		case yes:
			return notExecutable(st)
		}
	}
	return nil
}

func notExecutable(st *statement) *pgerr.Error {
	return pgerr.New(pgerr.FeatureNotSupported, "EXECUTE of %q, which is on sharded tables, is not supported here", st.name).
		WithHint("Send EXECUTE as a statement of its own, or the statement itself.")
}

// execution is an EXECUTE of a scattered statement, which its text replaces.
type execution struct {
	ps    *prepared
	st    *statement
	read  parser.Execution
	body  string   // the text of the statement
	types []string // of its parameters
	// before is what stands before EXECUTE: EXPLAIN, CREATE TABLE AS.
	before    string
	text      string // the client's
	name, end int    // where the name of the statement is in it
}

// execution returns how a text that is an EXECUTE of a scattered statement is carried out. It returns nil for
// other texts.
func (ps *prepared) execution(text []byte, f *parser.Facts) (*execution, error) {
	if f.Statements != 1 || len(f.Prepared) != 1 || f.Prepared[0].Kind != parser.Execute {
		return nil, nil
	}
	x := &execution{ps: ps, st: ps.named[f.Prepared[0].Name], name: f.Prepared[0].NameStart, end: f.Prepared[0].NameEnd}
	if x.st == nil {
		return nil, nil
	}
	var yes, ok bool
	var err error
	if x.body, yes, err = ps.scattered(x.st); err != nil || !yes {
		return nil, err
	}
	x.text = string(text)
	x.read, ok = parser.ReadExecute(x.text, ps.s.record.scanOptions())
	if !ok || !x.st.server.ViaSQL {
		return nil, notExecutable(x.st)
	}
	if x.types, err = ps.parameterTypes(x.st); err != nil {
		return nil, err
	}
	if err := ps.sameResult(x.st); err != nil {
		return nil, err
	}
	if len(x.types) != 0 && len(x.types) != x.read.Count {
		return nil, pgerr.New(pgerr.SyntaxError, "wrong number of parameters for prepared statement %q", x.st.name).
			WithDetail("Expected %d parameters but got %d.", len(x.types), x.read.Count)
	}
	if x.read.MakesTable && !yieldsRows(x.body) {
		return nil, pgerr.New(pgerr.WrongObjectType, "prepared statement is not a SELECT")
	}
	if x.before, ok = beforeExecute(x.text[:x.name], x.read.MakesTable); !ok {
		return nil, notExecutable(x.st)
	}
	return x, nil
}

// yieldsRows reports whether a text of one statement is a query, of which CREATE TABLE AS can make a table.
func yieldsRows(text string) bool {
	tree, err := parser.ParseTree(text, parser.Options{})
	return err == nil && len(tree.Statements) == 1 && tree.Statements[0].Stmt.GetSelectStmt() != nil
}

// ready reports whether the arguments are constants which a cast gives the values that EXECUTE gives them. Other
// arguments are evaluated first.
func (x *execution) ready() bool {
	if len(x.types) == 0 {
		return true // PostgreSQL ignores the arguments
	}
	for i := range x.read.Arguments {
		if !assignable(x.read.Arguments[i].Type, x.types[i]) {
			return false // a cast would accept what EXECUTE refuses
		}
	}
	return x.read.Constant
}

// replacement returns the text that replaces the EXECUTE, with arguments of the types of the parameters.
func (x *execution) replacement(args []parser.Argument) (string, error) {
	if len(x.types) == 0 {
		args = nil
	}
	sql, ok := parser.WithArguments(x.body, x.ps.s.record.scanOptions(), args, x.types)
	if !ok {
		return "", notExecutable(x.st)
	}
	if x.read.Empty {
		sql = "SELECT * FROM (" + sql + "\n) AS execute LIMIT 0" // the tag is that of a query
	}
	return x.before + sql, nil
}

// parsed is replacement for an EXECUTE that comes in the extended protocol, where arguments would have to be evaluated each time it
// is executed.
func (x *execution) parsed() (string, error) {
	if !x.ready() {
		return "", pgerr.New(pgerr.FeatureNotSupported, "EXECUTE of %q, which is on sharded tables, with expressions as arguments is not supported in extended messages", x.st.name).
			WithHint("Send it as a simple query, or give constants of the parameters' types.")
	}
	return x.replacement(x.read.Arguments)
}

// run runs an EXECUTE of a scattered statement, for a simple query of n bytes.
func (x *execution) run(n int) error {
	s := x.ps.s
	if !x.ready() {
		s.client.Consume(wire.HeaderLen + n)
		return x.ask()
	}
	sql, err := x.replacement(x.read.Arguments)
	if err != nil {
		return s.route.refuseQuery(err, n)
	}
	s.client.Consume(wire.HeaderLen + n)
	return s.tx.runPart([]byte(sql))
}

// sameResult refuses to execute a statement whose result has changed since it was prepared,
// because the schema has changed.
func (ps *prepared) sameResult(st *statement) error {
	was := st.server.Description.Load()
	if was == nil || st.server.Generation == ps.s.db.Generation.Load() {
		return nil
	}
	f := ps.s.facts([]byte(st.original))
	const name = "\x01z"
	_, err := ps.s.route.askBy(ps.s.lane, func(c *pool.Conn) ([][]string, error) {
		if _, err := askHere(c, st.original[:f.Prepared[0].NameStart]+quote.Ident(name)+st.original[f.Prepared[0].NameEnd:f.Prepared[0].BodyEnd]); err != nil {
			return nil, err
		}
		is, err := c.DescribeStatement(name)
		if err == nil {
			_, err = askHere(c, "DEALLOCATE "+quote.Ident(name))
		}
		if err == nil && !bytes.Equal(is, *was) {
			err = resultHasChanged()
		}
		return nil, err
	})
	return err
}

// beforeExecute returns what comes before EXECUTE in a text that ends before the name: nothing,
// an EXPLAIN with its options, or CREATE TABLE AS.
func beforeExecute(text string, makesTable bool) (before string, ok bool) {
	text = strings.TrimRight(text, " \t\r\n\"")
	const word = "execute"
	at := len(text) - len(word)
	if at < 0 || !strings.EqualFold(text[at:], word) {
		return "", false // a comment stands between EXECUTE and the name
	}
	if before = text[:at]; !makesTable && !strings.Contains(strings.ToLower(before), "explain") {
		before = "" // only blanks and comments come before
	}
	return before, true
}

// assignable reports whether EXECUTE takes a constant of one type for a parameter of another. If
// it does, a cast gives the same value. from is a type of parser.Argument, to one of
// parameterTypes.
func assignable(from, to string) bool {
	to = strings.Trim(to[strings.LastIndexByte(to, '.')+1:], `"`) // "numeric" is a keyword
	text := []string{"text", "varchar", "bpchar"}
	if from == "" || from == to || slices.Contains(text, to) {
		return true
	}
	for _, family := range [][]string{
		text, {"int2", "int4", "int8", "numeric", "float4", "float8"}, {"date", "timestamp", "timestamptz"},
	} {
		if slices.Contains(family, from) {
			return slices.Contains(family, to)
		}
	}
	return false
}

// parseExecuted is parseFor for the EXECUTE of a scattered statement: the statement's text with
// the arguments in it replaces the client's.
func (ps *prepared) parseExecuted(p wire.ParseBody, sql string, st *statement, bind []byte) error {
	name := string(p.Name) // p is about to be overwritten
	ps.s.pipe.kept.keep(wire.AppendParse(nil, name, sql, nil)[wire.HeaderLen:])
	if err := ps.parseFor(bind); err != nil || ps.s.pipe.isSkipping() {
		return err
	}
	if name == "" {
		ps.unnamed.planned.executes = st
	} else if made := ps.named[name]; made != nil {
		made.planned.executes = st
	}
	return nil
}

// stillExecutes refuses to bind the text that has replaced an EXECUTE if the name of the
// executed statement has another meaning by now.
func (ps *prepared) stillExecutes(pl *planned) error {
	st := pl.executes
	if st == nil {
		return nil
	}
	switch ps.named[st.name] {
	case st:
		return nil
	case nil:
		return pgerr.New(pgerr.InvalidSQLStatementName, "prepared statement %q does not exist", st.name)
	}
	return notExecutable(st)
}

// parameterTypes returns the types of a statement's parameters as the home shard sees them now.
func (ps *prepared) parameterTypes(st *statement) ([]string, error) {
	f := ps.s.facts([]byte(st.original))
	const name = "\x01y"
	prepare := st.original[:f.Prepared[0].NameStart] + quote.Ident(name) + st.original[f.Prepared[0].NameEnd:f.Prepared[0].BodyEnd]
	rows, err := ps.s.route.askHome(prepare + ";\nSELECT pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(t.typname) " +
		"FROM pg_catalog.pg_prepared_statements p, LATERAL pg_catalog.unnest(p.parameter_types) WITH ORDINALITY a (type, place) " +
		"JOIN pg_catalog.pg_type t ON t.oid = a.type JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace " +
		"WHERE p.name = " + quote.Literal(name) + " ORDER BY a.place;\nDEALLOCATE " + quote.Ident(name))
	if err != nil {
		return nil, err
	}
	types := make([]string, len(rows))
	for i, r := range rows {
		types[i] = strings.Clone(r[0])
	}
	return types, nil
}
