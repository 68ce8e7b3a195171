package parser

import (
	"strings"

	"weft/quote"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// bodyPasswords finds the passwords in the body of DO.
func bodyPasswords(text string, tree *Tree, literals []Literal, do *pg_query.DoStmt, opt Options) ([]RolePassword, error) {
	body, at := "", 0
	for _, arg := range do.Args {
		if d := arg.GetDefElem(); d.GetDefname() == "as" {
			body = d.Arg.GetString_().GetSval()
			start, end := literalAfter(text, literals, tree.Offset(d.Location))
			if start < end && text[start] == '$' { // else quotes may be doubled
				at = start + strings.IndexByte(text[start+1:], '$') + 2
			}
		}
	}
	create, err := Deparse(&pg_query.Node{Node: &pg_query.Node_DoStmt{DoStmt: do}})
	if err != nil {
		return nil, err
	}
	list, err := EmbeddedSQL(create)
	if err != nil {
		return nil, nil // nothing is known of the body; its planner finds the same
	}
	var found []RolePassword
	for _, e := range list {
		sql := e.SQL
		if e.Dynamic {
			var constant bool
			if sql, constant = constantText(sql); !constant {
				continue
			}
		}
		inner, err := RolePasswords(sql, opt)
		if err != nil {
			continue
		}
		for _, p := range inner {
			where, from := sql, p.Start
			if e.Dynamic {
				where, from = quote.Double(sql[p.Start:p.End]), 0
			}
			length := p.End - p.Start
			if e.Dynamic {
				length, p.Doubled = len(where), true
			}
			p.Start, p.End = 0, 0
			if at > 0 && strings.Count(body, where) == 1 && strings.HasPrefix(text[at:], body) {
				p.Start = at + strings.Index(body, where) + from
				p.End = p.Start + length
			}
			found = append(found, p)
		}
	}
	return found, nil
}

// constantText is the value of SELECT 'text'.
func constantText(sql string) (string, bool) {
	tree, err := Parse(sql)
	if err != nil || len(tree.Stmts) != 1 {
		return "", false
	}
	list := tree.Stmts[0].Stmt.GetSelectStmt().GetTargetList()
	if len(list) != 1 || list[0].GetResTarget().GetVal().GetAConst().GetSval() == nil {
		return "", false
	}
	return list[0].GetResTarget().GetVal().GetAConst().GetSval().Sval, true
}
