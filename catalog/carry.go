package catalog

import (
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
	"weft/quote"
)

// A transaction that has notified cannot be prepared. So the copies of functions on shards
// other than home call weft.pg_notify instead of notifying themselves. weft.pg_notify notifies if
// the transaction is on one shard only, and otherwise leaves a note for weft. Clients do not see
// the copies: the home shard, which they see, has the originals.

// carrier is the function that copies of functions call instead of pg_notify.
const carrier = "weft.pg_notify"

// Carried returns the statement that makes a function on a shard other than home: text,
// but with carrier in the place of NOTIFY and pg_notify. All other statements stay as they are.
func Carried(text string) string {
	if !strings.Contains(strings.ToLower(text), "notify") {
		return text
	}
	tree, err := parser.Parse(text)
	if err != nil || len(tree.Stmts) != 1 {
		return text
	}
	f := tree.Stmts[0].Stmt.GetCreateFunctionStmt()
	if f == nil {
		return text
	}
	if f.SqlBody != nil {
		return carry("sql", text)
	}
	language, body := "sql", (*pg_query.String)(nil)
	for _, o := range f.Options {
		switch e := o.GetDefElem(); e.GetDefname() {
		case "language":
			language = lower(e.GetArg().GetString_().GetSval())
		case "as":
			if items := e.GetArg().GetList().GetItems(); len(items) == 1 {
				body = items[0].GetString_()
			}
		}
	}
	if body == nil || language != "sql" && language != "plpgsql" {
		return text
	}
	old := body.Sval
	body.Sval = carry(language, old)
	switch {
	case body.Sval == old:
		return text
	case strings.Count(text, old) == 1 && !strings.Contains(old, "'"):
		return strings.Replace(text, old, body.Sval, 1)
	case strings.Count(text, "$"+old+"$") == 1: // in dollar quotes
		return strings.Replace(text, old, body.Sval, 1)
	}
	if deparsed, err := parser.Deparse(tree.Stmts[0].Stmt); err == nil {
		return deparsed
	}
	return text
}

// carry rewrites calls of pg_notify, and NOTIFY, in the body of a function.
func carry(language, text string) string {
	scanned, err := pg_query.Scan(text)
	if err != nil {
		return text
	}
	c := carrying{text: text, language: language}
	for _, t := range scanned.Tokens {
		if t.Token != pg_query.Token_SQL_COMMENT && t.Token != pg_query.Token_C_COMMENT {
			c.tokens = append(c.tokens, t)
		}
	}
	for i := range c.tokens {
		if c.at > i {
			continue
		}
		c.call(i)
		c.command(i)
	}
	c.out.WriteString(text[c.copied:])
	return c.out.String()
}

// carrying is the state of rewriting one text.
type carrying struct {
	text, language string
	tokens         []*pg_query.ScanToken
	at             int // the first token that is not done
	copied         int // how many bytes of the text are in out, or replaced
	out            strings.Builder
}

// word returns token i as the name that PostgreSQL reads it as, or "" if there is no token i.
func (c *carrying) word(i int) string {
	if i < 0 || i >= len(c.tokens) {
		return ""
	}
	t := c.text[c.tokens[i].Start:c.tokens[i].End]
	if strings.HasPrefix(t, `"`) && len(t) >= 2 {
		return cut(strings.ReplaceAll(t[1:len(t)-1], `""`, `"`), nameLength-1)
	}
	return cut(lower(t), nameLength-1)
}

// replace puts text in the place of the tokens from from to to.
func (c *carrying) replace(from, to int, text string) {
	c.out.WriteString(c.text[c.copied:c.tokens[from].Start])
	c.out.WriteString(text)
	c.copied, c.at = int(c.tokens[to].End), to+1
}

// call rewrites pg_notify(…).
func (c *carrying) call(i int) {
	if c.word(i) != "pg_notify" || c.word(i+1) != "(" {
		return
	}
	first := i
	if c.word(i-1) == "." {
		if c.word(i-2) != "pg_catalog" || c.word(i-3) == "." {
			return
		}
		first = i - 2
	}
	c.replace(first, i, carrier)
}

// command rewrites NOTIFY channel, 'payload'.
func (c *carrying) command(i int) {
	if c.tokens[i].Token != pg_query.Token_NOTIFY || i+1 >= len(c.tokens) {
		return
	}
	switch c.word(i - 1) { // where a statement can begin
	case "", ";", "begin", "then", "else", "loop", ">>", "atomic":
	default:
		return
	}
	payload, last := "''", i+1
	if c.word(i+2) == "," && i+3 < len(c.tokens) {
		if c.tokens[i+3].Token != pg_query.Token_SCONST {
			return
		}
		payload, last = c.text[c.tokens[i+3].Start:c.tokens[i+3].End], i+3
	}
	if end := c.word(last + 1); end != ";" && end != "" {
		return
	}
	verb := "SELECT "
	if c.language == "plpgsql" {
		verb = "PERFORM "
	}
	channel := quote.Literal(c.word(i + 1))
	c.replace(i, last, verb+carrier+"("+channel+", "+payload+")")
}
