package parser

import pg_query "github.com/pganalyze/pg_query_go/v6"

// Parse is pg_query.Parse made safe: a text whose tree could be too deep for pg_query is refused instead of ending the
// process. It reads text as if standard_conforming_strings were on. Positions in the tree are offsets in text.
func Parse(text string) (*pg_query.ParseResult, error) {
	tree, _, err := parse(text, Options{})
	return tree, err
}

// Walk visits a message of a parse tree and, where visit returns true, everything below it, in the order of the fields.
func Walk(message any, visit func(message any) bool) { walk(message, visit) }
