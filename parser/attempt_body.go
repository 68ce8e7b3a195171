package parser

import (
	"slices"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// attemptReader reads the body of an Attempt's function, token by token: pg_query's reader of PL/pgSQL does not
// know which types are rows.
type attemptReader struct {
	*Attempt
	text   string
	tokens []*pg_query.ScanToken
	at     int
}

// word returns the token at hand as a name: in lower case, or without its quotes.
func (r *attemptReader) word(i int) string {
	if i >= len(r.tokens) {
		return ""
	}
	w := r.text[r.tokens[i].Start:r.tokens[i].End]
	if strings.HasPrefix(w, `"`) && len(w) > 1 {
		return strings.ReplaceAll(w[1:len(w)-1], `""`, `"`)
	}
	return strings.ToLower(w)
}

// take goes on if the next tokens are these.
func (r *attemptReader) take(words ...string) bool {
	for i, w := range words {
		if r.word(r.at+i) != w {
			return false
		}
	}
	r.at += len(words)
	return true
}

// parameter takes the name of a parameter.
func (r *attemptReader) parameter() (string, bool) {
	name := r.word(r.at)
	r.at++
	return name, r.isParameter(name)
}

func (r *attemptReader) isParameter(name string) bool {
	return slices.ContainsFunc(r.parameters, func(p attemptParameter) bool { return p.name == name })
}

// block takes the whole body.
func (r *attemptReader) block() bool {
	if !r.take("begin") || !r.insert() {
		return false
	}
	if r.take("exception") && !r.handler() {
		return false
	}
	if !r.take("end") {
		return false
	}
	r.take(";")
	return r.at == len(r.tokens)
}

// insert takes the INSERT and what it is returned into.
func (r *attemptReader) insert() bool {
	first, depth, returning, into := r.at, 0, -1, -1
	if r.word(first) != "insert" {
		return false
	}
	for ; r.at < len(r.tokens); r.at++ {
		switch tok := r.tokens[r.at]; tok.Token {
		case pg_query.Token_ASCII_40:
			depth++
		case pg_query.Token_ASCII_41:
			depth--
		case pg_query.Token_PARAM:
			return false
		case pg_query.Token_RETURNING:
			if depth == 0 {
				returning = r.at
			}
		case pg_query.Token_INTO:
			if depth == 0 && returning >= 0 && into < 0 {
				into = r.at
			}
		case pg_query.Token_ASCII_59:
			if depth == 0 {
				return r.returned(first, returning, into)
			}
		default:
			if into < 0 && r.isParameter(r.word(r.at)) {
				return false // a variable, where the statement may mean a column
			}
		}
	}
	return false
}

// returned takes what stands between RETURNING and the semicolon.
func (r *attemptReader) returned(first, returning, into int) bool {
	end := r.at
	r.at++
	if returning < 0 {
		r.Insert = r.text[r.tokens[first].Start:r.tokens[end].Start]
		return true
	}
	if into < 0 {
		return false
	}
	r.Insert = r.text[r.tokens[first].Start:r.tokens[into].Start]
	var names []string
	for i := into + 1; i < end; i += 2 {
		if name := r.word(i); r.isParameter(name) && !slices.Contains(names, name) && (i+1 == end || r.word(i+1) == ",") {
			names = append(names, name)
			continue
		}
		return false
	}
	if into == returning+2 && r.word(returning+1) == "*" {
		if len(names) != 1 {
			return false
		}
		r.Whole = names[0]
		return true
	}
	r.Into = names
	return len(names) > 0
}

// caughtStates are the conditions that an INSERT is tried for.
var caughtStates = map[string]string{
	"integrity_constraint_violation": "23", "unique_violation": "23505", "foreign_key_violation": "23503",
	"not_null_violation": "23502", "check_violation": "23514", "exclusion_violation": "23P01",
}

// toldFields are the fields of an error that can be asked for.
var toldFields = map[string]byte{
	"pg_exception_detail": 'D', "message_text": 'M', "returned_sqlstate": 'C', "constraint_name": 'n', "table_name": 't',
	"schema_name": 's', "column_name": 'c', "pg_datatype_name": 'd', "pg_exception_hint": 'H',
}

// handler takes what stands behind EXCEPTION.
func (r *attemptReader) handler() bool {
	if !r.take("when") {
		return false
	}
	for {
		state, ok := caughtStates[r.word(r.at)]
		if !ok {
			return false
		}
		r.Caught = append(r.Caught, state)
		if r.at++; !r.take("or") {
			break
		}
	}
	if !r.take("then") {
		return false
	}
	for {
		switch {
		case r.take("null", ";"):
		case r.take("get", "stacked", "diagnostics"):
			if !r.diagnostics() {
				return false
			}
		default:
			return true
		}
	}
}

func (r *attemptReader) diagnostics() bool {
	for {
		name, ok := r.parameter()
		if !ok || !r.take("=") && !r.take(":=") {
			return false
		}
		field, ok := toldFields[r.word(r.at)]
		if !ok {
			return false
		}
		r.Told[name] = field
		if r.at++; r.take(";") {
			return true
		}
		if !r.take(",") {
			return false
		}
	}
}
