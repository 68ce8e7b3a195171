package program

import (
	"errors"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"

	"weft/pgerr"
)

// token is a token of PL/pgSQL, read by PostgreSQL's own scanner.
type token struct {
	kind       pg_query.Token
	start, end int
	// word is an identifier or keyword as PostgreSQL sees it; empty for anything else.
	word   string
	quoted bool
	text   string
}

// scan cuts a text into tokens. A token of kind NUL ends the list.
func scan(text string) ([]token, error) {
	res, err := pg_query.Scan(text)
	if err != nil {
		return nil, pgerr.New(pgerr.SyntaxError, "%s", err.Error())
	}
	out := make([]token, 0, len(res.Tokens)+1)
	for _, t := range res.Tokens {
		if t.Token == pg_query.Token_SQL_COMMENT || t.Token == pg_query.Token_C_COMMENT {
			continue
		}
		tok := token{kind: t.Token, start: int(t.Start), end: int(t.End), text: text[t.Start:t.End]}
		switch {
		case t.Token == pg_query.Token_IDENT && tok.text[0] == '"':
			tok.quoted = true
			tok.word = strings.ReplaceAll(tok.text[1:len(tok.text)-1], `""`, `"`)
		case t.Token == pg_query.Token_IDENT || t.KeywordKind != pg_query.KeywordKind_NO_KEYWORD:
			tok.word = lower(tok.text)
		case t.Token == pg_query.Token_UIDENT:
			return nil, refuse("an identifier with Unicode escapes").WithHint(`Write the identifier without U&.`)
		}
		if len(tok.word) > 63 {
			return nil, refuse("an identifier of more than 63 bytes")
		}
		out = append(out, tok)
	}
	return append(out, token{start: len(text), end: len(text)}), nil
}

// lower is PostgreSQL's downcase_identifier for a multibyte encoding: ASCII letters only.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// errOurs is the cause of errors that PostgreSQL would not have raised. No EXCEPTION of a program catches them: what
// the program did then would not be what it does in PostgreSQL.
var errOurs = errors.New("raised by weft")

// refuse is the error for what PL/pgSQL has and weft does not run.
func refuse(what string) *pgerr.Error {
	return pgerr.New(pgerr.FeatureNotSupported, "weft does not run %s in a function over sharded tables", what).
		WithHint("Write it in another way, or let the application send the statements.").WithCause(errOurs)
}

// is reports whether a token is this keyword or this punctuation.
func (t token) is(s string) bool {
	return t.word == s && !t.quoted && t.word != "" || t.word == "" && t.text == s
}

// reserved words cannot be names of variables without quotes.
var reserved = map[string]bool{
	"all": true, "begin": true, "by": true, "case": true, "declare": true, "else": true, "end": true, "execute": true,
	"for": true, "foreach": true, "from": true, "if": true, "in": true, "into": true, "loop": true, "not": true, "null": true,
	"or": true, "strict": true, "then": true, "to": true, "using": true, "when": true, "while": true,
}

// isName reports whether a token can be a name.
func (t token) isName() bool { return t.word != "" && (t.quoted || !reserved[t.word]) }
