package advise

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"weft/catalog"
	"weft/directory"
	"weft/planner"
)

// hypothesis is how tables might be declared.
type hypothesis struct {
	// keys are the columns that tables are sharded by.
	keys map[catalog.Name]string
	// second are the second columns of the keys, nil for none, and bits how many bits of a place the first has then.
	second    map[catalog.Name]string
	bits      int
	reference map[catalog.Name]bool
	// declared are the tables as they are declared now, if the hypothesis is that all stays as it is.
	declared []directory.Table
}

func (h *hypothesis) clone() *hypothesis {
	return &hypothesis{keys: maps.Clone(h.keys), reference: maps.Clone(h.reference), declared: h.declared}
}

// declare makes the first hypothesis for a domain.
func (w *work) declare(d *domain) *hypothesis {
	h := &hypothesis{keys: map[catalog.Name]string{}, reference: map[catalog.Name]bool{}}
	for t, columns := range d.tables() {
		h.keys[t] = columns[0]
	}
	w.refer(h)
	return h
}

// refer makes reference tables of what every shard can have a copy of, and of what sharded tables
// reference: their foreign keys could not be kept otherwise.
func (w *work) refer(h *hypothesis) {
	for _, rel := range w.tables {
		if _, sharded := h.keys[rel.Name]; !sharded && w.small(rel.Name) && w.seldomWritten(rel.Name) {
			h.reference[rel.Name] = true
		}
	}
	for changed := true; changed; {
		changed = false
		for _, rel := range w.tables {
			if _, sharded := h.keys[rel.Name]; !sharded && !h.reference[rel.Name] {
				continue
			}
			for _, fk := range rel.ForeignKeys {
				if _, sharded := h.keys[fk.References]; !sharded && !h.reference[fk.References] {
					h.reference[fk.References], changed = true, true
				}
			}
		}
		// A reference table can reference reference tables only.
		for _, rel := range w.tables {
			if !h.reference[rel.Name] {
				continue
			}
			for _, fk := range rel.ForeignKeys {
				if _, sharded := h.keys[fk.References]; sharded && !w.forced(h, rel) {
					delete(h.reference, rel.Name)
				}
			}
		}
	}
}

// forced reports whether a sharded or reference table references a reference table.
func (w *work) forced(h *hypothesis, rel *catalog.Relation) bool {
	for _, fk := range rel.Referenced {
		if _, sharded := h.keys[fk.Table]; sharded || h.reference[fk.Table] {
			return true
		}
	}
	return false
}

// order returns the declarations in an order in which weft takes them: referenced tables first.
func (w *work) order(h *hypothesis) []directory.Table {
	if h.declared != nil {
		return h.declared
	}
	var out []directory.Table
	done := map[catalog.Name]bool{}
	var visit func(rel *catalog.Relation)
	visit = func(rel *catalog.Relation) {
		if rel == nil || done[rel.Name] {
			return
		}
		done[rel.Name] = true
		for _, fk := range rel.ForeignKeys {
			visit(w.in.Schema.Relation(fk.References))
		}
		d := directory.Table{Database: w.in.Database, Schema: rel.Schema, Name: rel.Name.Name, Kind: directory.Reference}
		if key, ok := h.keys[rel.Name]; ok {
			c := rel.Column(key)
			d.Kind, d.Vindex = directory.Sharded, directory.Vindex{Kind: "hash"}
			d.Columns = []directory.Column{{Name: key, Type: c.Base, TypeName: c.TypeName, Mod: c.Mod}}
			if second := rel.Column(h.second[rel.Name]); second != nil {
				d.Vindex = directory.Vindex{Kind: "composite", Params: map[string]any{"bits": strconv.Itoa(h.bits)}}
				d.Columns = append(d.Columns, directory.Column{Name: second.Name, Type: second.Base, TypeName: second.TypeName, Mod: second.Mod})
			}
		} else if !h.reference[rel.Name] {
			return
		}
		out = append(out, d)
	}
	names := slices.SortedFunc(maps.Keys(w.usage), func(a, b catalog.Name) int { return strings.Compare(a.SQL(), b.SQL()) })
	for _, n := range names {
		visit(w.in.Schema.Relation(n))
	}
	return out
}

// environment is what statements are planned under.
func (w *work) environment(h *hypothesis) *planner.Env {
	snap := w.base.Clone()
	list := w.order(h)
	sharded := map[catalog.Name]int{}
	for i := range list {
		if list[i].Kind == directory.Sharded {
			sharded[catalog.Name{Schema: list[i].Schema, Name: list[i].Name}] = i
		}
	}
	// Foreign keys of home tables on sharded ones are taken off, and what they would check is refused.
	if h.declared == nil {
		for _, rel := range w.tables {
			if _, ok := sharded[rel.Name]; ok || h.reference[rel.Name] {
				continue
			}
			for _, fk := range rel.ForeignKeys {
				if i, ok := sharded[fk.References]; ok {
					list[i].ForeignKeys = append(list[i].ForeignKeys, directory.ForeignKey{
						Schema: rel.Schema, Table: rel.Name.Name, Name: fk.Name, Definition: definition(&fk),
					})
				}
			}
		}
	}
	for _, d := range list {
		snap.PutTable(d)
	}
	return &planner.Env{
		Database: w.in.Database, Path: w.in.Path, Schema: w.in.Schema, Tables: planner.NewTables(snap, w.in.Database), Home: snap.Home, SharedRoles: true,
	}
}

// definition is a foreign key as pg_get_constraintdef writes it.
func definition(fk *catalog.ForeignKey) string {
	if fk.Definition != "" {
		return fk.Definition
	}
	return "FOREIGN KEY (" + strings.Join(fk.Columns, ", ") + ") REFERENCES " + fk.References.Schema + "." + fk.References.Name + "(" + strings.Join(fk.RefColumns, ", ") + ")"
}
