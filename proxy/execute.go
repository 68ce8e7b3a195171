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
// the arguments in it, which goes where it belongs. Tables may have been declared since PREPARE,
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
		WithHint("Send EXECUTE as a statement of its own, with constants; or the statement itself.")
}

// executedText returns the text that replaces an EXECUTE of a scattered statement. ok is false
// for other texts.
func (ps *prepared) executedText(text []byte, f *parser.Facts) (sql string, ok bool, err error) {
	if f.Statements != 1 || len(f.Prepared) != 1 || f.Prepared[0].Kind != parser.Execute {
		return "", false, nil
	}
	st := ps.named[f.Prepared[0].Name]
	if st == nil {
		return "", false, nil
	}
	body, yes, err := ps.scattered(st)
	if err != nil || !yes {
		return "", false, err
	}
	args, constant := parser.ExecuteArguments(string(text), ps.s.record.scanOptions())
	if !constant || !st.server.ViaSQL {
		return "", false, notExecutable(st)
	}
	types, err := ps.parameterTypes(st)
	if err != nil {
		return "", false, err
	}
	if err := ps.sameResult(st); err != nil {
		return "", false, err
	}
	if len(types) == 0 {
		args = nil // PostgreSQL ignores the arguments
	}
	if len(types) != len(args) {
		return "", false, pgerr.New(pgerr.SyntaxError, "wrong number of parameters for prepared statement %q", st.name).
			WithDetail("Expected %d parameters but got %d.", len(types), len(args))
	}
	for i, a := range args {
		if !assignable(a.Type, types[i]) {
			return "", false, notExecutable(st) // a cast would accept what EXECUTE refuses
		}
	}
	before, ok := beforeExecute(string(text[:f.Prepared[0].NameStart]))
	if ok {
		sql, ok = parser.WithArguments(body, ps.s.record.scanOptions(), args, types)
	}
	if !ok {
		return "", false, notExecutable(st)
	}
	return before + sql, true, nil
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
// or an EXPLAIN with its options.
func beforeExecute(text string) (before string, ok bool) {
	text = strings.TrimRight(text, " \t\r\n\"")
	const word = "execute"
	at := len(text) - len(word)
	if at < 0 || !strings.EqualFold(text[at:], word) {
		return "", false // a comment stands between EXECUTE and the name
	}
	if before = text[:at]; !strings.Contains(strings.ToLower(before), "explain") {
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
