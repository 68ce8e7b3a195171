package schema

import (
	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
)

// Judge returns the reasons for which a table would not be declared as d, as far as the schema tells
// without asking a server. snap has the declarations before d.
func Judge(schema *catalog.Schema, snap *directory.Snapshot, d directory.Table) []*pgerr.Error {
	j := newJudgement(schema, snap, d)
	var out []*pgerr.Error
	for i, step := range []func() error{j.table, j.key, j.unique, j.outgoing, j.incoming, j.code} {
		err := step()
		if out = addRefusal(out, err); err != nil && i < 2 {
			break // the other steps need the table and its vindex
		}
	}
	return out
}
