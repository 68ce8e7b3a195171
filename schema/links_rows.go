package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"weft/catalog"
	"weft/pgerr"
	"weft/quote"
)

// probe is a session on which rows are looked at, and the condition for those that count.
type probe struct {
	s     *session
	where string
}

// offence is a foreign key whose rows reference no row of their own shard key.
type offence struct {
	fk       *catalog.ForeignKey
	rows     int64
	examples []string
	query    string // finds all of the rows
}

// countable reports whether offenders compares columns of a foreign key as PostgreSQL does: operators of other types
// than the built-in ones are not found by their names. PostgreSQL names the first row of those when the constraint is made.
func countable(schema *catalog.Schema, fk *catalog.ForeignKey) bool {
	const firstNormal = 16384 // the first OID that a server gives away
	rel := schema.Relation(fk.Table)
	return rel != nil && !slices.ContainsFunc(fk.Columns, func(name string) bool {
		c := rel.Column(name)
		return c == nil || c.Base >= firstNormal
	})
}

// offenders counts the rows that reference no row of their own shard key. Rows that the user may not read are left alone:
// PostgreSQL names the first one when the constraint is made.
func offenders(fk *catalog.ForeignKey, probes []probe) ([]offence, error) {
	if strings.HasSuffix(fk.Definition, " NOT VALID") {
		return nil, nil
	}
	var filled, same, columns []string
	for i, c := range fk.Columns {
		columns = append(columns, "r."+quote.Ident(c))
		filled = append(filled, columns[i]+" IS NOT NULL")
		same = append(same, "o."+quote.Ident(fk.RefColumns[i])+" = "+columns[i])
	}
	where := strings.Join(filled, " AND ") + " AND NOT EXISTS (SELECT FROM " + fk.References.SQL() + " o WHERE " + strings.Join(same, " AND ") + ")"
	found := offence{fk: fk, query: "SELECT * FROM " + fk.Table.SQL() + " r WHERE " + where}
	for _, p := range probes {
		from := " FROM (SELECT * FROM " + fk.Table.SQL() + " WHERE " + p.where + ") r WHERE " + where
		if err := p.s.run("SAVEPOINT weft_links", "SET LOCAL row_security = off"); err != nil {
			return nil, err
		}
		n, err := p.s.one("SELECT count(*)" + from)
		var rows [][]string
		if err == nil && n != "0" {
			rows, err = p.s.Exec("SELECT '(' || concat_ws(', ', " + strings.Join(columns, ", ") + ") || ')'" + from + " LIMIT 5")
		}
		var e *pgerr.Error
		if err != nil && (!errors.As(err, &e) || e.Code != pgerr.InsufficientPrivilege) {
			return nil, err
		}
		if err := p.s.run("ROLLBACK TO weft_links"); err != nil {
			return nil, err
		}
		found.rows += number(n)
		for _, r := range rows {
			found.examples = append(found.examples, r[0])
		}
	}
	if found.rows == 0 {
		return nil, nil
	}
	return []offence{found}, nil
}

// refuseOffences words rows that new foreign keys would not allow as one refusal.
func refuseOffences(list []offence) error {
	if len(list) == 0 {
		return nil
	}
	var details, queries []string
	for _, o := range list {
		details = append(details, fmt.Sprintf("Foreign key %q: %d rows of %s with (%s) = %s", o.fk.Name, o.rows, display(o.fk.Table),
			strings.Join(o.fk.Columns, ", "), strings.Join(o.examples[:min(5, len(o.examples))], ", ")))
		if o.rows > 5 {
			details[len(details)-1] += " and others"
		}
		queries = append(queries, o.query+";")
	}
	fk := list[0].fk
	return refuse(pgerr.ForeignKeyViolation, "rows of %q reference no row of %q that has their shard key", display(fk.Table), display(fk.References)).
		WithDetail("%s", strings.Join(details, ".\n")+".").
		WithHint("Change or delete these rows, and declare the table again. They are found by: %s", strings.Join(queries, " "))
}
