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

// ErrDeep is the error of a text that is not parsed because its tree could be too deep. The server may well accept it.
var ErrDeep = errDeep

// Tree is a parsed text, under whatever settings it was read.
type Tree struct {
	Statements []*pg_query.RawStmt

	edits Edits
}

// ParseTree is Parse for a text that is read under opt.
func ParseTree(text string, opt Options) (*Tree, error) {
	tree, edits, err := parse(text, opt)
	if err != nil {
		return nil, err
	}
	return &Tree{Statements: tree.Stmts, edits: edits}, nil
}

// Offset returns where in the text that was parsed a location of the tree is, in bytes. (With
// standard_conforming_strings off, pg_query has read an edited text.)
func (t *Tree) Offset(location int32) int {
	if len(t.edits) == 0 {
		return int(location)
	}
	return t.edits.clientOffset(int(location))
}

// Split returns where in the text that was parsed each of its statements is, in bytes, without the semicolon behind
// it. What stands before a statement, such as comments, is part of it.
func (t *Tree) Split(length int) []Span {
	parts := make([]Span, len(t.Statements))
	for i, st := range t.Statements {
		parts[i] = Span{Start: t.Offset(st.StmtLocation), End: length}
		if st.StmtLen > 0 {
			parts[i].End = t.Offset(st.StmtLocation + st.StmtLen)
		}
	}
	return parts
}

// Span is a part of a text, in bytes.
type Span struct{ Start, End int }

// SplitStatements returns the statements of a text one by one, without the semicolons behind them, also if some of
// them do not parse: those end at the next semicolon.
func SplitStatements(text string) []string {
	var out []string
	if tree, err := ParseTree(text, Options{}); err == nil {
		for _, s := range tree.Split(len(text)) {
			out = append(out, text[s.Start:s.End])
		}
		return out
	}
	parts, err := pg_query.SplitWithScanner(text, true)
	if err != nil {
		return []string{text} // such as a string that does not end
	}
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return out
}
