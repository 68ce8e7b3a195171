package parser

import (
	"errors"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

var errName = errors.New("cannot find the statement's name in the text")

func (c *collector) prepare(n *pg_query.PrepareStmt) {
	c.add(Prepares)
	toks := c.statementTokens()
	p := Prepared{Kind: Prepare, Name: n.Name}
	p.NameStart, p.NameEnd = c.nameAt(toks, 1)

	// The body begins after the AS that stands outside the parentheses of the types.
	depth := 0
	for i, tok := range toks {
		switch tok.Token {
		case pg_query.Token_ASCII_40:
			depth++
		case pg_query.Token_ASCII_41:
			depth--
		}
		if depth == 0 && i > 1 && tok.Token == pg_query.Token_AS && i+1 < len(toks) {
			p.BodyStart, p.BodyEnd = c.clientOffset(int(toks[i+1].Start)), c.clientOffset(int(toks[len(toks)-1].End))
			break
		}
	}
	if p.BodyEnd == 0 {
		c.err = errName
	}

	body := collector{facts: &Facts{Statements: 1}, text: c.text, edits: c.edits, start: c.start, end: c.end, tokens: c.tokens}
	body.statement(n.Query)
	p.Body = body.facts
	c.keep(p)
}

// execute takes EXECUTE, alone or under EXPLAIN or CREATE TABLE AS; runs is false under an EXPLAIN that does not analyse.
func (c *collector) execute(n *pg_query.ExecuteStmt, runs bool, name [2]int) {
	c.add(Executes)
	c.keep(Prepared{Kind: Execute, Name: n.Name, NameStart: name[0], NameEnd: name[1]})
	for _, param := range n.Params {
		if runs {
			c.run(param)
		} else {
			c.name(param)
		}
	}
}

func (c *collector) deallocate(n *pg_query.DeallocateStmt) {
	c.add(Deallocates)
	if n.Isall {
		c.keep(Prepared{Kind: DeallocateAll})
		return
	}
	toks := c.statementTokens()
	i := 1
	if len(toks) > 2 && toks[1].Token == pg_query.Token_PREPARE {
		i = 2 // DEALLOCATE PREPARE name; alone, prepare is the name
	}
	p := Prepared{Kind: Deallocate, Name: n.Name}
	p.NameStart, p.NameEnd = c.nameAt(toks, i)
	c.keep(p)
}

func (c *collector) keep(p Prepared) {
	c.facts.Exact = true // it has offsets
	c.facts.Prepared = append(c.facts.Prepared, p)
}

// executeName finds the name after EXECUTE: the first one outside parentheses, or, for CREATE TABLE AS, where EXECUTE may
// also be the table's name, the one after AS.
func (c *collector) executeName(afterAs bool) [2]int {
	toks := c.statementTokens()
	depth := 0
	for i, tok := range toks {
		switch tok.Token {
		case pg_query.Token_ASCII_40:
			depth++
		case pg_query.Token_ASCII_41:
			depth--
		case pg_query.Token_EXECUTE:
			if depth == 0 && (!afterAs || i > 0 && toks[i-1].Token == pg_query.Token_AS) {
				start, end := c.nameAt(toks, i+1)
				return [2]int{start, end}
			}
		}
	}
	c.err = errName
	return [2]int{}
}

// nameAt returns where in the client's text the name is that token i begins.
func (c *collector) nameAt(toks []*pg_query.ScanToken, i int) (start, end int) {
	if i >= len(toks) {
		c.err = errName
		return 0, 0
	}
	last := toks[i]
	if last.Token == pg_query.Token_UIDENT && i+2 < len(toks) && toks[i+1].Token == pg_query.Token_UESCAPE {
		last = toks[i+2]
	}
	return c.clientOffset(int(toks[i].Start)), c.clientOffset(int(last.End))
}

// statementTokens returns the tokens of the statement at hand without comments.
func (c *collector) statementTokens() []*pg_query.ScanToken {
	if c.tokens == nil {
		scan, err := pg_query.Scan(c.text)
		if err != nil {
			c.err = err
			return nil
		}
		c.tokens = scan.Tokens
	}
	var out []*pg_query.ScanToken
	for _, tok := range c.tokens {
		if int(tok.Start) >= c.start && int(tok.End) <= c.end &&
			tok.Token != pg_query.Token_C_COMMENT && tok.Token != pg_query.Token_SQL_COMMENT && tok.Token != pg_query.Token_ASCII_59 {
			out = append(out, tok)
		}
	}
	return out
}

func (c *collector) clientOffset(off int) int { return c.edits.clientOffset(off) }
