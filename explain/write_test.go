package explain

import (
	"fmt"
	"strings"
	"testing"

	"weft/plan"
)

// TestShapesOfWrites: what EXPLAIN says of a write of each shape.
func TestShapesOfWrites(t *testing.T) {
	in := []plan.Instance{{Name: "a", Keys: [][]plan.Set{{{{Kind: plan.Param}}}}}}
	run := plan.Statement{Text: text(sql("T"))}
	split := &plan.Split{Table: &plan.Table{Name: "a"}}
	var b strings.Builder
	for _, shape := range []plan.Shape{
		&plan.Rows{Head: text(sql("H")), Rows: []plan.Row{{Text: text(sql("(1)"))}, {Text: text(sql("(2)"))}}, Tail: text(sql("R"))},
		&plan.Stream{Text: run.Text, Split: split, Query: plan.Query{Gather: &plan.Gather{}}},
		&plan.Stream{Text: run.Text, Split: &plan.Split{}, Query: plan.Query{Gather: &plan.Gather{}}},
		&plan.Local{Statement: run, Instances: in},
		&plan.AtHome{Statement: run},
		&plan.Share{Statement: run, Split: split},
		&plan.Copies{Statement: run},
		&plan.Own{Text: run.Text, Instances: in},
		&plan.Own{Text: run.Text},
		&plan.Whole{},
		&plan.Locking{Query: plan.Query{Text: run.Text, Gather: &plan.Gather{}}},
	} {
		c := NewChange(example(), &plan.Write{Verb: "UPDATE", Shape: shape}, nil).Change
		fmt.Fprintf(&b, "%T | %s | %s | %s\n", shape, c.SQL, strings.Join(c.Shards, " "), strings.Join(c.Why, "; "))
	}
	want := `
*plan.Rows | H (1), (2) R |  | each row goes to its own shard
*plan.Stream | T |  | each row that is read goes to the shard of its key in a
*plan.Stream | T | s0 | its table is on the home shard
*plan.Local | T |  | a: key 1 = $1
*plan.AtHome | T | s0 | its table is on the home shard
*plan.Share | T |  | each row that is read goes to the shard of its key in a
*plan.Copies | T |  | 
*plan.Own | T |  | a: key 1 = $1
*plan.Own | T | s0 | its table is on the home shard
*plan.Whole |  |  | one shard runs the statement as it is
*plan.Locking |  |  | 
`
	if got := "\n" + b.String(); got != want {
		t.Errorf("got%s", got)
	}
}
