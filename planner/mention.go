package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
)

// mentions are the names of columns in a statement. A column that is not among them is not needed.
// The names are collected without resolving them, so that a name never gets another meaning because
// a column is left out.
type mentions struct {
	bare      map[string]bool
	qualified map[string]map[string]bool // by qualifier
	starred   map[string]bool            // t.*
	joins     map[string]bool            // names of joins, which may qualify columns of any table
	// all are the tables all of whose columns are needed, because a * or the order of columns
	// depends on them.
	all map[*pg.RangeVar]bool
}

func mentionsOf(n *pg.Node) *mentions {
	m := &mentions{
		bare: map[string]bool{}, qualified: map[string]map[string]bool{}, starred: map[string]bool{},
		joins: map[string]bool{}, all: map[*pg.RangeVar]bool{},
	}
	parser.Walk(n, func(x any) bool {
		switch x := x.(type) {
		case *pg.ColumnRef:
			m.reference(x)
		case *pg.SelectStmt:
			for _, t := range x.TargetList {
				if v := t.GetResTarget().GetVal(); isStar(v) && len(v.GetColumnRef().Fields) == 1 {
					m.tables(x.FromClause)
				}
			}
		case *pg.UpdateStmt:
			m.returned(x.ReturningList, x.FromClause)
		case *pg.DeleteStmt:
			m.returned(x.ReturningList, x.UsingClause)
		case *pg.JoinExpr:
			for _, name := range nameList(x.UsingClause) {
				m.bare[name] = true
			}
			if x.IsNatural || x.Alias != nil {
				m.tables([]*pg.Node{x.Larg, x.Rarg})
			}
			for _, alias := range []*pg.Alias{x.Alias, x.JoinUsingAlias} {
				if alias != nil {
					m.joins[alias.Aliasname] = true
				}
			}
		case *pg.RangeVar:
			if len(x.Alias.GetColnames()) > 0 {
				m.all[x] = true
			}
		}
		return true
	})
	return m
}

// returned notes what RETURNING * needs.
func (m *mentions) returned(list, from []*pg.Node) {
	for _, t := range list {
		if v := t.GetResTarget().GetVal(); isStar(v) && len(v.GetColumnRef().Fields) == 1 {
			m.tables(from)
		}
	}
}

func (m *mentions) reference(ref *pg.ColumnRef) {
	names := nameList(ref.Fields)
	switch {
	case len(names) == 0:
	case len(names) < len(ref.Fields):
		m.starred[names[len(names)-1]] = true
	case len(names) == 1:
		m.bare[names[0]] = true
	default:
		q := names[len(names)-2]
		if m.qualified[q] == nil {
			m.qualified[q] = map[string]bool{}
		}
		m.qualified[q][names[len(names)-1]] = true
	}
}

// tables notes that all columns of the tables in FROM are needed.
func (m *mentions) tables(from []*pg.Node) {
	for _, n := range from {
		switch v := n.GetNode().(type) {
		case *pg.Node_RangeVar:
			m.all[v.RangeVar] = true
		case *pg.Node_RangeTableSample:
			m.tables([]*pg.Node{v.RangeTableSample.Relation})
		case *pg.Node_JoinExpr:
			m.tables([]*pg.Node{v.JoinExpr.Larg, v.JoinExpr.Rarg})
		}
	}
}

// column reports whether a name in the statement may mean a column of a table.
func (m *mentions) column(table, column string) bool {
	if m.bare[column] || m.qualified[table][column] {
		return true
	}
	for j := range m.joins {
		if m.qualified[j][column] {
			return true
		}
	}
	return false
}

// named reports whether a name occurs anywhere in the statement.
func (m *mentions) named(name string) bool {
	if m.bare[name] {
		return true
	}
	for _, names := range m.qualified {
		if names[name] {
			return true
		}
	}
	return false
}
