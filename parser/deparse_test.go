package parser

import (
	"errors"
	"testing"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

func TestDeparse(t *testing.T) {
	tree, err := Parse("SELECT a, 1 FROM t WHERE b = 'x'")
	if err != nil {
		t.Fatal(err)
	}
	sql, err := Deparse(tree.Stmts[0].Stmt)
	if err != nil || sql != "SELECT a, 1 FROM t WHERE b = 'x'" {
		t.Fatalf("%q, %v", sql, err)
	}
}

// TestDeparseDeep: a tree that is too deep is refused, and one that is just not does not end the process.
func TestDeparseDeep(t *testing.T) {
	nested := func(n int) *pg_query.Node {
		x := pg_query.MakeColumnRefNode([]*pg_query.Node{pg_query.MakeStrNode("a")}, 0)
		for range n {
			x = pg_query.MakeAExprNode(pg_query.A_Expr_Kind_AEXPR_OP, []*pg_query.Node{pg_query.MakeStrNode("+")}, x, pg_query.MakeAConstIntNode(1, 0), 0)
		}
		return &pg_query.Node{Node: &pg_query.Node_SelectStmt{SelectStmt: &pg_query.SelectStmt{TargetList: []*pg_query.Node{pg_query.MakeResTargetNodeWithVal(x, 0)}}}}
	}
	if _, err := Deparse(nested(maxTree / 2)); !errors.Is(err, ErrDeep) {
		t.Errorf("deep: %v", err)
	}
	if _, err := Deparse(nested(maxTree/2 - 10)); err != nil {
		t.Errorf("just not too deep: %v", err)
	}
}
