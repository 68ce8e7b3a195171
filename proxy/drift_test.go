package proxy

import (
	"testing"

	"weft/directory"
	"weft/pgerr"
)

// TestLacked: a table that the directory knows is missing on a shard, whatever language the shard speaks.
func TestLacked(t *testing.T) {
	declared := []directory.Table{{Schema: "public", Name: "orders"}}
	for message, want := range map[string]bool{
		`relation "orders" does not exist`:        true,
		`relation "public.orders" does not exist`: true,
		`Relation »orders« existiert nicht`:       true,
		`relation "order" does not exist`:         false,
		`relation "orders2" does not exist`:       false,
	} {
		if got := lacked(pgerr.New(pgerr.UndefinedTable, "%s", message), declared, nil); got != want {
			t.Errorf("%s: %v", message, got)
		}
	}
	if lacked(pgerr.New(pgerr.UndefinedColumn, `column "v" does not exist`), declared, nil) {
		t.Error("a column is missing though the schema of the home shard is not known")
	}
}
