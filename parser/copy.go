package parser

import (
	pg_query "github.com/pganalyze/pg_query_go/v6"
)

func (c *collector) copy(n *pg_query.CopyStmt) {
	if n.IsFrom {
		c.add(Writes)
	}
	if n.Filename == "" && !n.IsProgram && !c.copiesFile() {
		if n.IsFrom {
			c.add(CopyIn)
		} else {
			c.add(CopyOut)
		}
	}
	c.run(n)
}

// copiesFile reports whether COPY names a file, if only ”, which the tree does not tell from none.
func (c *collector) copiesFile() bool {
	toks := c.statementTokens()
	depth := 0
	for i, tok := range toks {
		switch tok.Token {
		case pg_query.Token_ASCII_40:
			depth++
		case pg_query.Token_ASCII_41:
			depth--
		case pg_query.Token_FROM, pg_query.Token_TO:
			if depth == 0 && i+1 < len(toks) && toks[i+1].Token == pg_query.Token_SCONST {
				return true
			}
		}
	}
	return false
}
