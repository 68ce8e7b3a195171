package planner

import (
	"fmt"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/catalog"
	"weft/datum"
	"weft/plan"
)

// retyped returns what a key column becomes if the type that it gets leaves all rows where they are,
// else nil: another integer type, a longer varchar, text or varchar for each other, or a numeric of
// the same scale. Values of these types that are equal hash alike, and none becomes another. A
// numeric without a scale is not among them: a row that is stored while the type changes would be
// placed by what is rounded.
func (df definitions) retyped(rel *catalog.Relation, t *table, c *pg.AlterTableCmd) *plan.ColumnType {
	def, col := c.Def.GetColumnDef(), findColumn(rel, c.Name)
	if def == nil || t.Lookup != "" || def.CollClause != nil || col == nil || col.Type != col.Base || !sameValue(def, c.Name) { // COLLATE, a domain, USING
		return nil
	}
	var mods []int32
	for _, m := range def.TypeName.GetTypmods() {
		i := m.GetAConst().GetIval()
		if i == nil {
			return nil
		}
		mods = append(mods, i.Ival)
	}
	plain := proto.Clone(def.TypeName).(*pg.TypeName)
	plain.Typmods = nil
	to := (&level{a: df.a}).predicates().typeName(plain)
	out := &plan.ColumnType{Table: nameOf(t.name()), Column: c.Name, Type: uint32(to), Name: to.String(), Mod: -1}
	switch from := datum.Type(col.Type); {
	case isInteger(from) && isInteger(to) && len(mods) == 0:
		return out
	case from == datum.Varchar || from == datum.Text:
		switch {
		case (to == datum.Text || to == datum.Varchar) && len(mods) == 0:
			return out
		case to == datum.Varchar && len(mods) == 1 && from == datum.Varchar && col.Mod >= 0 && mods[0]+4 >= col.Mod:
			out.Name, out.Mod = fmt.Sprintf("%s(%d)", to, mods[0]), mods[0]+4
			return out
		}
	case from == datum.Numeric && to == datum.Numeric && len(mods) > 0 && len(mods) <= 2 && col.Mod >= 0:
		scale := int32(0)
		if len(mods) == 2 {
			scale = mods[1]
		}
		if scale == (col.Mod-4)&0x7ff {
			out.Name, out.Mod = fmt.Sprintf("%s(%d,%d)", to, mods[0], scale), mods[0]<<16|scale+4
			return out
		}
	}
	return nil
}

func isInteger(t datum.Type) bool { return t == datum.Int2 || t == datum.Int4 || t == datum.Int8 }

// sameValue reports whether the new values of a column are its old ones: without USING, or with a
// USING that names the column or casts it to the very type, as tools write it.
func sameValue(def *pg.ColumnDef, column string) bool {
	v := def.RawDefault
	if v == nil {
		return true
	}
	if c := v.GetTypeCast(); c != nil {
		to, want := proto.Clone(c.TypeName).(*pg.TypeName), proto.Clone(def.TypeName).(*pg.TypeName)
		for _, n := range []*pg.TypeName{to, want} {
			n.Location = 0
			for _, m := range n.Typmods {
				if a := m.GetAConst(); a != nil {
					a.Location = 0
				}
			}
		}
		if !proto.Equal(to, want) {
			return false
		}
		v = c.Arg
	}
	names := nameList(v.GetColumnRef().GetFields())
	return len(names) == 1 && names[0] == column
}
