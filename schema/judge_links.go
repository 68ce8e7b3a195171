package schema

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/planner"
	"weft/quote"
)

// declared returns the declaration of a table, or of the partitioned table that it is a part of.
// The table that is being declared counts too.
func (j *judgement) declared(n catalog.Name) *directory.Table {
	for r := j.schema.Relation(n); r != nil; r = r.Parent {
		if r.Name == j.req.Table {
			return &j.out.table
		}
		if t := j.snap.Table(j.req.Database, r.Schema, r.Name.Name); t != nil && t.State == directory.Active {
			return t
		}
	}
	return nil
}

// outgoing judges the table's foreign keys on other tables, and the foreign keys that are to be
// restored.
func (j *judgement) outgoing() error {
	if err := j.keyWaiting(); err != nil {
		return err
	}
	for _, rel := range tree(j.rel) {
		for _, fk := range rel.ForeignKeys {
			if err := j.foreignKey(fk, &j.out.table, j.declared(fk.References)); err != nil {
				return err
			}
		}
	}
	for _, fk := range j.out.restored {
		parsed, err := parseForeignKey(fk)
		if err != nil {
			return err
		}
		if err := j.foreignKey(parsed, &j.out.table, j.declared(parsed.References)); err != nil {
			return err
		}
	}
	return nil
}

// name is an identifier as PostgreSQL writes it.
const name = `(?:"(?:[^"]|"")+"|[^\s",.()]+)`

var (
	foreignKeyText = regexp.MustCompile(`^FOREIGN KEY \(((?:` + name + `(?:, )?)+)\) REFERENCES (` + name + `)\.(` + name + `)\(((?:` + name + `(?:, )?)+)\)`)
	oneName        = regexp.MustCompile(name)
)

// parseForeignKey parses what pg_get_constraintdef returned for a constraint that has been dropped
// since.
func parseForeignKey(fk directory.ForeignKey) (catalog.ForeignKey, error) {
	m := foreignKeyText.FindStringSubmatch(fk.Definition)
	if m == nil {
		return catalog.ForeignKey{}, fmt.Errorf("foreign key %q: cannot read %q", fk.Name, fk.Definition)
	}
	list := func(s string) []string {
		var out []string
		for _, n := range oneName.FindAllString(s, -1) {
			out = append(out, unquote(n))
		}
		return out
	}
	return catalog.ForeignKey{
		Name: fk.Name, Table: catalog.Name{Schema: fk.Schema, Name: fk.Table}, Columns: list(m[1]),
		References: catalog.Name{Schema: unquote(m[2]), Name: unquote(m[3])}, RefColumns: list(m[4]), Definition: fk.Definition,
	}, nil
}

func unquote(s string) string {
	if len(s) < 2 || s[0] != '"' {
		return s
	}
	return strings.ReplaceAll(s[1:len(s)-1], `""`, `"`)
}

// foreignKey judges one constraint between declared tables.
func (j *judgement) foreignKey(fk catalog.ForeignKey, from, to *directory.Table) error {
	about := func(why string, args ...any) *pgerr.Error {
		return refuse(pgerr.InvalidForeignKey, "foreign key %q of %q on %q would cross shards: "+why,
			append([]any{fk.Name, display(fk.Table), display(fk.References)}, args...)...)
	}
	switch {
	case to == nil:
		return about("%s is on the home shard alone", display(fk.References)).WithHint("%s", j.firstHint(&fk))
	case to.Kind == directory.Reference:
		return rekeys(fk, from, false)
	case from.Kind == directory.Reference:
		return about("%s is a reference table, whose rows are on every shard, and %s is sharded", display(fk.Table), display(fk.References)).
			WithHint("A reference table can reference reference tables only.")
	case !alike(from, to):
		return about("%s is %s with vindex %s, %s is %s with vindex %s", display(fk.Table), describe(from), from.Vindex, display(fk.References), describe(to), to.Vindex).
			WithHint("Shard both by the same vindex and key.")
	}
	if mine, theirs := keyColumns(from), keyColumns(to); !fk.Contains(mine, theirs) {
		return about("it does not match the shard key (%s) with that of %s (%s)", strings.Join(mine, ", "), display(fk.References), strings.Join(theirs, ", ")).
			WithHint("%s", j.keyedHint(&fk, mine, theirs))
	}
	if err := rekeys(fk, from, true); err != nil || from.Group == to.Group {
		return err
	}
	return offline("Use online => false: the table is locked while its rows are copied. Tables that foreign keys tie together go online together, with cascade => true.",
		"%q cannot be declared online: its foreign key %q references %q, which is sharded already", display(fk.Table), fk.Name, display(fk.References))
}

// firstHint tells how to declare the table that a foreign key references, and what the foreign key must contain then.
func (j *judgement) firstHint(fk *catalog.ForeignKey) string {
	name := quote.Literal(display(fk.References))
	small := fmt.Sprintf("SELECT weft.reference_table(%s) if it is small and seldom written", name)
	if j.kind == directory.Reference {
		return "A reference table can reference reference tables only: " + small + "."
	}
	// The other table has the same key if the foreign key matches its columns, or if it has columns of the same names.
	mine, theirs := keyColumns(&j.out.table), []string(nil)
	other := j.schema.Relation(fk.References)
	for _, key := range mine {
		switch at := slices.Index(fk.Columns, key); {
		case at >= 0 && at < len(fk.RefColumns):
			theirs = append(theirs, fk.RefColumns[at])
		case other != nil && other.Column(key) != nil:
			theirs = append(theirs, key)
		}
	}
	if len(theirs) != len(mine) {
		return fmt.Sprintf("Declare %s first: %s. To shard it beside %s it needs the shard key (%s) as columns of its own, and the foreign key must contain it.",
			display(fk.References), small, display(fk.Table), strings.Join(mine, ", "))
	}
	hint := fmt.Sprintf("Declare %s first: SELECT weft.shard_table(%s, %s), or %s.", display(fk.References), name, quote.Literal(strings.Join(theirs, ", ")), small)
	if !fk.Contains(mine, theirs) {
		hint += " " + j.keyedHint(fk, mine, theirs)
	}
	return hint
}

// keyedHint tells how a foreign key can contain the shard key.
func (j *judgement) keyedHint(fk *catalog.ForeignKey, mine, theirs []string) string {
	if j.req.Links == "" && fk.Table == j.req.Table {
		return planner.OptionHint(j.schema, fk, mine, theirs)
	}
	return planner.UnkeyedHint(j.schema, fk, mine, theirs)
}

// keyColumns returns the names of a sharded table's key columns.
func keyColumns(t *directory.Table) []string {
	var out []string
	for _, c := range t.Columns {
		out = append(out, c.Name)
	}
	return out
}

// rekeys refuses a foreign key whose actions would change the shard key of rows: actions run inside
// a shard, and the rows would stay there.
func rekeys(fk catalog.ForeignKey, from *directory.Table, colocated bool) error {
	if from.Kind != directory.Sharded {
		return nil
	}
	how := fk.Rekeys(keyColumns(from), colocated)
	if how == "" {
		return nil
	}
	return refuse(pgerr.FeatureNotSupported, "foreign key %q of %q would change its shard key: %s", fk.Name, display(fk.Table), how).
		WithDetail("The action runs inside a shard, so the rows would stay where nobody looks for that key.").
		WithHint("Drop the constraint and add it without that action: ON DELETE CASCADE, NO ACTION, or SET NULL of other columns than the key (SET NULL (column), since PostgreSQL 15).")
}

// incoming judges other tables' foreign keys on the table.
func (j *judgement) incoming() error {
	for _, rel := range tree(j.rel) {
		for _, fk := range rel.Referenced {
			from := j.declared(fk.Table)
			switch {
			case from == &j.out.table: // judged by outgoing
			case from != nil:
				if err := j.foreignKey(fk, from, &j.out.table); err != nil {
					return err
				}
			case j.kind == directory.Sharded:
				j.out.incoming = append(j.out.incoming, fk)
			}
		}
	}
	return nil
}

// code judges what the table's triggers, defaults, checks and policies do. It reports all obstacles
// at once: later the table's rows would have moved, and every statement on the table would be
// refused.
func (j *judgement) code() error {
	found := j.obstacles()
	switch len(found) {
	case 0:
		return nil
	case 1:
		return found[0]
	}
	return j.codeError(found)
}

// obstacles returns what code refuses, one by one.
func (j *judgement) obstacles() []*pgerr.Error {
	var found []*pgerr.Error
	for _, n := range j.def.Uses {
		found = addRefusal(found, j.reads("A policy, default, check or trigger of the table", n))
	}
	for i := range j.def.Bodies {
		found = addRefusal(found, j.bodies(j.def.Bodies[i:i+1]))
	}
	for _, e := range planner.Obstacles(j.schema, j.snap, j.out.table) {
		found = addRefusal(found, e)
	}
	return found
}

// codeError words several obstacles as one refusal.
func (j *judgement) codeError(found []*pgerr.Error) error {
	var lines []string
	for _, e := range found {
		line := e.Message
		if e.Detail != "" {
			line += ". " + e.Detail
		}
		lines = append(lines, line)
	}
	return refuse(pgerr.FeatureNotSupported, "%q cannot be declared: %s, and %d more obstacles", j.req.name(), found[0].Message, len(found)-1).
		WithDetail("%s", strings.Join(lines, "\n")).WithHint("%s", found[0].Hint)
}

// addRefusal adds an error to a list, unless the list has an equal one.
func addRefusal(list []*pgerr.Error, err error) []*pgerr.Error {
	var e *pgerr.Error
	if !errors.As(err, &e) || slices.ContainsFunc(list, func(o *pgerr.Error) bool { return o.Message == e.Message }) {
		return list
	}
	return append(list, e)
}

// bodies judges what functions read.
func (j *judgement) bodies(list []Body) error {
	for _, body := range list {
		for _, f := range j.schema.Functions(body.Name.Name) {
			if f.Name != body.Name {
				continue
			}
			if f.Opaque {
				return refuse(pgerr.FeatureNotSupported, "function %s, which %q uses, runs statements that weft cannot read", body.Function, j.req.name()).
					WithDetail("On a shard it would see a part of the rows only.").
					WithHint("Name the tables in the function's text instead of building statements at run time, or drop what calls it.")
			}
			for _, n := range f.Mentions {
				if err := j.reads("Function "+body.Function, n); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// reads refuses a relation that is not present, or not complete, where the table's rows will be.
func (j *judgement) reads(who string, n catalog.Name) error {
	r := j.schema.Relation(n)
	if r == nil || r.System() {
		return nil
	}
	switch r.Kind {
	case catalog.Table, catalog.PartitionedTable, catalog.View, catalog.MaterializedView, catalog.ForeignTable:
	default:
		return nil
	}
	t := j.declared(n)
	switch {
	case t != nil && (t == &j.out.table || t.Kind == directory.Reference || colocated(t, &j.out.table)):
		return nil
	case t == nil:
		return refuse(pgerr.FeatureNotSupported, "%q uses %q, which is on the home shard alone", j.req.name(), display(n)).
			WithDetail("%s names it.", who).
			WithHint("Declare %s first, as a reference table or sharded like %s; or drop what names it.", display(n), j.req.name())
	}
	return refuse(pgerr.FeatureNotSupported, "%q uses %q, whose rows are on other shards than its own", j.req.name(), display(n)).
		WithDetail("%s names it. It is %s with vindex %s.", who, describe(t), t.Vindex).
		WithHint("Shard both by the same vindex and key.")
}
