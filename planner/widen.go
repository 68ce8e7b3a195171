package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/catalog"
	"weft/datum"
)

// widens reports whether a key column gets a type of the same values and more, which hash
// as before: a longer varchar, text, or a numeric of the same scale with more digits.
func (ga gatherer) widens(rel *catalog.Relation, c *pg.AlterTableCmd) bool {
	def, col := c.Def.GetColumnDef(), findColumn(rel, c.Name)
	if def == nil || def.RawDefault != nil || def.CollClause != nil || col == nil || col.Type != col.Base { // USING, COLLATE, a domain
		return false
	}
	var mods []int32
	for _, m := range def.TypeName.GetTypmods() {
		i := m.GetAConst().GetIval()
		if i == nil {
			return false
		}
		mods = append(mods, i.Ival)
	}
	plain := proto.Clone(def.TypeName).(*pg.TypeName)
	plain.Typmods = nil
	to := (&level{a: ga.a}).predicates().typeName(plain)
	switch datum.Type(col.Type) {
	case datum.Varchar:
		return to == datum.Text && len(mods) == 0 || to == datum.Varchar && (len(mods) == 0 || len(mods) == 1 && col.Mod >= 0 && mods[0]+4 >= col.Mod)
	case datum.Numeric:
		if to != datum.Numeric || len(mods) > 2 {
			return false
		}
		if len(mods) == 0 {
			return true
		}
		scale := int32(0)
		if len(mods) == 2 {
			scale = mods[1]
		}
		return col.Mod >= 0 && scale == (col.Mod-4)&0x7ff && mods[0] >= (col.Mod-4)>>16
	}
	return false
}
