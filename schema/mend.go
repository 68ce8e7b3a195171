package schema

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"weft/catalog"
	"weft/directory"
	"weft/quote"
)

// lookup returns the statement that keeps an index unique over all shards.
func (p *previewing) lookup(u *catalog.Unique) []string {
	return []string{fmt.Sprintf("SELECT weft.create_lookup(%s, %s, is_unique => true); -- after the declaration, if clients choose values themselves",
		quote.Literal(p.req.name()), quote.Literal(strings.Join(u.Columns, ", ")))}
}

// indexColumns is where the columns of an index begin in what pg_get_indexdef writes.
var indexColumns = regexp.MustCompile(` USING \w+ \(`)

// mendUnique returns the statements that put the shard key into an index.
func mendUnique(s *session, rel *catalog.Relation, u *catalog.Unique, key []string) ([]string, error) {
	rows, err := s.Exec(`SELECT pg_get_indexdef(i.indexrelid), coalesce(k.contype::text, ''), coalesce(pg_get_constraintdef(k.oid), '') FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.contype IN ('p', 'u') WHERE i.indrelid = to_regclass(` + quote.Literal(rel.SQL()) + `) AND c.relname = ` + quote.Literal(u.Name))
	if err != nil || len(rows) != 1 {
		return nil, err
	}
	var add []string
	for _, k := range key {
		if !slices.Contains(u.Columns, k) {
			add = append(add, quote.Ident(k))
		}
	}
	columns := strings.Join(add, ", ") + ", "
	if rows[0][1] != "" {
		def := strings.Replace(rows[0][2], "(", "("+columns, 1)
		return []string{fmt.Sprintf("ALTER TABLE %s DROP CONSTRAINT %s, ADD CONSTRAINT %s %s;", rel.SQL(), quote.Ident(u.Name), quote.Ident(u.Name), def)}, nil
	}
	at := indexColumns.FindStringIndex(rows[0][0])
	if at == nil {
		return nil, nil
	}
	index := catalog.Name{Schema: rel.Schema, Name: u.Name}
	return []string{"DROP INDEX " + index.SQL() + ";", rows[0][0][:at[1]] + columns + rows[0][0][at[1]:] + ";"}, nil
}

// references cuts the definition of a foreign key into its parts.
var references = regexp.MustCompile(`^FOREIGN KEY \((.*?)\) REFERENCES (.*?)\((.*?)\)(.*)$`)

// mendForeignKey returns the statements after which a foreign key stays inside a shard: for a table
// that is sharded alike, one that contains the shard keys of both; else the declaration of the
// table that it references.
func (j *judgement) mendForeignKey(fk catalog.ForeignKey, to *directory.Table) []string {
	switch {
	case to == nil:
		return []string{fmt.Sprintf("SELECT weft.reference_table(%s); -- if it is small and seldom written; else shard it by the same key", quote.Literal(display(fk.References)))}
	case !alike(&j.out.table, to):
		return nil
	}
	m := references.FindStringSubmatch(fk.Definition)
	rel := j.schema.Relation(fk.References)
	if m == nil || rel == nil {
		return nil
	}
	var from, refs, names []string
	for i, key := range j.out.table.Columns {
		from, refs, names = append(from, quote.Ident(key.Name)), append(refs, quote.Ident(to.Columns[i].Name)), append(names, to.Columns[i].Name)
	}
	for i, c := range fk.Columns {
		if i < len(fk.RefColumns) && !slices.Contains(names, fk.RefColumns[i]) {
			from, refs, names = append(from, quote.Ident(c)), append(refs, quote.Ident(fk.RefColumns[i])), append(names, fk.RefColumns[i])
		}
	}
	var out []string
	if !slices.ContainsFunc(rel.Unique, func(u catalog.Unique) bool { return !u.Partial && !u.Exclusion && sameSet(u.Columns, names) }) {
		out = append(out, fmt.Sprintf("ALTER TABLE %s ADD UNIQUE (%s);", rel.SQL(), strings.Join(refs, ", ")))
	}
	var own []string
	for _, c := range fk.Columns {
		if !slices.Contains(j.req.Columns, c) {
			own = append(own, quote.Ident(c))
		}
	}
	actions := strings.ReplaceAll(m[4], " SET NULL", " SET NULL ("+strings.Join(own, ", ")+")")
	name := quote.Ident(fk.Name)
	return append(out, fmt.Sprintf("ALTER TABLE %s DROP CONSTRAINT %s, ADD CONSTRAINT %s FOREIGN KEY (%s) REFERENCES %s (%s)%s;",
		fk.Table.SQL(), name, name, strings.Join(from, ", "), rel.SQL(), strings.Join(refs, ", "), actions))
}
