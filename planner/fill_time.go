package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/catalog"
	"weft/plan"
)

// ALTER TABLE gives existing rows the default of a new column. The time of the transaction is the
// same for all of them: the other shards get it as a constant, and then the default, for future
// rows.

// fillTimes gives the columns that a command adds or rewrites the time of the transaction as a
// constant.
func (ck clock) fillTimes(n *pg.AlterTableStmt, rel *catalog.Relation) {
	var timed []int
	for i, c := range n.Cmds {
		cmd := c.GetAlterTableCmd()
		if value := filled(cmd, rel); value != nil && *value != nil && ck.a.copying().steadiness(*value) != 'v' && ck.asksTime(*value) {
			timed = append(timed, i)
		}
	}
	if len(timed) == 0 {
		return
	}
	node := proto.Clone(&pg.Node{Node: &pg.Node_AlterTableStmt{AlterTableStmt: n}}).(*pg.Node)
	stmt := node.GetAlterTableStmt()
	for _, i := range timed {
		cmd := stmt.Cmds[i].GetAlterTableCmd()
		value := filled(cmd, rel)
		if cmd.Subtype == pg.AlterTableType_AT_AddColumn {
			stmt.Cmds = append(stmt.Cmds, &pg.Node{Node: &pg.Node_AlterTableCmd{AlterTableCmd: &pg.AlterTableCmd{
				Subtype: pg.AlterTableType_AT_ColumnDefault, Name: cmd.Def.GetColumnDef().Colname,
				Def: proto.Clone(*value).(*pg.Node), Behavior: pg.DropBehavior_DROP_RESTRICT,
			}}})
		}
		ck.times(*value)
	}
	text, err := ck.a.gatherer().render(node)
	if err != nil {
		ck.a.unsupported("Add the column without it, UPDATE the rows, and then set the default.", "the time of the transaction cannot be put into this statement")
		return
	}
	ck.a.commands().change().Timed, ck.a.out.Exact = ck.spelled(text), true
}

// filled returns where a command says what rows get, DEFAULT or USING. It returns nil for commands
// that fill nothing; the expression itself may be nil.
func filled(c *pg.AlterTableCmd, rel *catalog.Relation) **pg.Node {
	d := c.GetDef().GetColumnDef()
	switch {
	case d == nil:
		return nil
	case c.Subtype == pg.AlterTableType_AT_AlterColumnType:
		return &d.RawDefault
	case c.Subtype != pg.AlterTableType_AT_AddColumn,
		slices.ContainsFunc(rel.Columns, func(col catalog.Column) bool { return col.Name == d.Colname }): // IF NOT EXISTS, or an error
		return nil
	}
	for _, n := range d.Constraints {
		if def := n.GetConstraint(); def.GetContype() == pg.ConstrType_CONSTR_DEFAULT {
			return &def.RawExpr
		}
	}
	return nil
}

// spelled puts the client's literals into a text that holds for the client's very text only.
func (ck clock) spelled(text plan.Text) plan.Text {
	for i := range text {
		if p := &text[i]; p.Kind == plan.Lit {
			l := ck.a.client.literals[p.Index]
			sql := ck.a.client.sql[l.Start:l.End]
			if p.Negative {
				sql = "(-" + sql + ")"
			}
			*p = plan.Part{Kind: plan.SQL, SQL: sql}
		}
	}
	return text
}
