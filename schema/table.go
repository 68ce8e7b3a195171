package schema

import (
	"fmt"
	"strings"

	"weft/catalog"
)

// options returns SQL for reloptions as they stand inside WITH (…).
func options(array, prefix string) string {
	return `(SELECT string_agg(format('%s%I=%L', '` + prefix + `', split_part(x, '=', 1), substr(x, strpos(x, '=') + 1)), ', ') FROM unnest(` + array + `) x)`
}

// sequenceOptions is the SQL for the options of a sequence s of pg_sequence.
const sequenceOptions = `format('START WITH %s INCREMENT BY %s MINVALUE %s MAXVALUE %s CACHE %s NO CYCLE', s.seqstart, s.seqincrement, s.seqmin, s.seqmax, s.seqcache)`

// tables makes the CREATE TABLE statements. A partition is made as a table and
// attached afterwards, so that its columns may be in another order.
func (r *reader) tables() error {
	columns, err := r.Exec(`SELECT a.attrelid, quote_ident(a.attname), concat_ws(' ', quote_ident(a.attname), format_type(a.atttypid, a.atttypmod),
  CASE WHEN a.attcollation <> 0 AND a.attcollation <> t.typcollation THEN 'COLLATE ' || a.attcollation::regcollation END,
  CASE WHEN a.attgenerated = 's' THEN 'GENERATED ALWAYS AS (' || pg_get_expr(d.adbin, d.adrelid) || ') STORED'
       WHEN a.atthasdef THEN 'DEFAULT ' || pg_get_expr(d.adbin, d.adrelid) END,
  CASE WHEN a.attidentity <> '' THEN format('GENERATED %s AS IDENTITY (SEQUENCE NAME %s ', CASE a.attidentity WHEN 'a' THEN 'ALWAYS' ELSE 'BY DEFAULT' END, s.seqrelid::regclass) || ` + sequenceOptions + ` || ')' END,
  CASE WHEN a.attnotnull THEN 'NOT NULL' END), a.attgenerated
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
LEFT JOIN pg_depend p ON a.attidentity <> '' AND p.refclassid = 'pg_class'::regclass AND p.refobjid = a.attrelid AND p.refobjsubid = a.attnum
  AND p.classid = 'pg_class'::regclass AND p.deptype = 'i'
LEFT JOIN pg_sequence s ON s.seqrelid = p.objid
WHERE a.attrelid = ANY(` + r.set() + `) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attrelid, a.attnum`)
	if err != nil {
		return err
	}
	lines := map[string][]string{}
	for _, row := range columns {
		lines[row[0]] = append(lines[row[0]], row[2])
		if row[0] == r.oids[0] && row[3] == "" {
			r.def.Columns = append(r.def.Columns, row[1])
		}
	}
	checks, err := r.Exec(`SELECT conrelid, format('CONSTRAINT %I %s', conname, pg_get_constraintdef(oid)) FROM pg_constraint
WHERE conrelid = ANY(` + r.set() + `) AND contype = 'c' AND convalidated ORDER BY conrelid, conname`)
	if err != nil {
		return err
	}
	for _, row := range checks {
		lines[row[0]] = append(lines[row[0]], row[1])
	}
	rels, err := r.Exec(`SELECT c.oid, CASE c.relpersistence WHEN 'u' THEN 'UNLOGGED ' END,
  concat(' PARTITION BY ' || pg_get_partkeydef(c.oid), CASE WHEN c.relkind = 'r' AND m.amname <> 'heap' THEN format(' USING %I', m.amname) END,
    ' WITH (' || concat_ws(', ', ` + options("c.reloptions", "") + `, ` + options("t.reloptions", "toast.") + `) || ')')
FROM pg_class c LEFT JOIN pg_am m ON m.oid = c.relam LEFT JOIN pg_class t ON t.oid = c.reltoastrelid
WHERE c.oid = ANY(` + r.set() + `) ORDER BY ` + r.order("c.oid"))
	if err != nil {
		return err
	}
	for i, row := range rels {
		r.def.Before = append(r.def.Before, fmt.Sprintf("CREATE %sTABLE %s (\n\t%s\n)%s", row[1], r.def.Relations[i],
			strings.Join(lines[row[0]], ",\n\t"), strings.TrimSuffix(row[2], " WITH ()")))
	}
	// weft gives the values of an identity, as it gives those of a sequence.
	return r.before(`SELECT format('SELECT pg_catalog.setval(%L, %s, true)', s.seqrelid::regclass::text, CASE WHEN s.seqincrement > 0 THEN s.seqmax ELSE s.seqmin END)
FROM pg_depend p JOIN pg_sequence s ON s.seqrelid = p.objid
WHERE p.refclassid = 'pg_class'::regclass AND p.refobjid = ANY(` + r.set() + `) AND p.classid = 'pg_class'::regclass AND p.deptype = 'i' ORDER BY 1`)
}

func (r *reader) attach() error {
	return r.before(`SELECT format('ALTER TABLE ONLY %s ATTACH PARTITION %s %s', i.inhparent::regclass, c.oid::regclass, pg_get_expr(c.relpartbound, c.oid))
FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid WHERE c.oid = ANY(` + r.set() + `) AND c.relispartition AND i.inhparent = ANY(` + r.set() + `) ORDER BY ` + r.order("c.oid"))
}

// sequenceOwners ties sequences to their columns, as serial does. A sequence that no default names
// is not among Needs.
func (r *reader) sequenceOwners() error {
	rows, err := r.Exec(`SELECT n.nspname, c.relname ` + ownedSequences(r.set()) + `
AND NOT EXISTS (SELECT FROM pg_depend d JOIN pg_attrdef f ON f.oid = d.objid WHERE d.classid = 'pg_attrdef'::regclass AND d.refobjid = p.objid AND f.adrelid = ANY(` + r.set() + `))
ORDER BY 1, 2`)
	if err != nil {
		return err
	}
	for _, row := range rows {
		lines, err := sequenceLines(catalog.Name{Schema: row[0], Name: row[1]}, r.Exec)
		if err != nil {
			return err
		}
		r.def.Before = append(r.def.Before, lines...)
	}
	return r.before(`SELECT format('ALTER SEQUENCE %s OWNED BY %s.%I', p.objid::regclass, p.refobjid::regclass, a.attname) ` + ownedSequences(r.set()) + ` ORDER BY 1`)
}

// ownedSequences returns a query for the sequences that columns of tables own, without those of
// identities.
func ownedSequences(tables string) string {
	return `FROM pg_depend p JOIN pg_class c ON c.oid = p.objid AND c.relkind = 'S' JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = p.refobjid AND a.attnum = p.refobjsubid
WHERE p.refclassid = 'pg_class'::regclass AND p.refobjid = ANY(` + tables + `) AND p.classid = 'pg_class'::regclass AND p.deptype = 'a'`
}

func (r *reader) columnDetails() error {
	return r.before(`SELECT unnest(ARRAY[
  CASE WHEN a.attstorage <> t.typstorage THEN format('ALTER TABLE ONLY %s ALTER COLUMN %I SET STORAGE %s', a.attrelid::regclass, a.attname,
    CASE a.attstorage WHEN 'p' THEN 'PLAIN' WHEN 'e' THEN 'EXTERNAL' WHEN 'm' THEN 'MAIN' ELSE 'EXTENDED' END) END,
  CASE WHEN to_jsonb(a)->>'attcompression' IN ('p', 'l') THEN format('ALTER TABLE ONLY %s ALTER COLUMN %I SET COMPRESSION %s', a.attrelid::regclass, a.attname,
    CASE to_jsonb(a)->>'attcompression' WHEN 'p' THEN 'pglz' ELSE 'lz4' END) END,
  CASE WHEN a.attstattarget >= 0 THEN format('ALTER TABLE ONLY %s ALTER COLUMN %I SET STATISTICS %s', a.attrelid::regclass, a.attname, a.attstattarget) END,
  CASE WHEN a.attoptions IS NOT NULL THEN format('ALTER TABLE ONLY %s ALTER COLUMN %I SET (%s)', a.attrelid::regclass, a.attname, ` + options("a.attoptions", "") + `) END])
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = ANY(` + r.set() + `) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY ` + r.order("a.attrelid") + `, a.attnum`)
}

// owners gives the tables to their owners; the sequences that a table owns follow.
func (r *reader) owners() error {
	return r.before(`SELECT format('ALTER TABLE %s OWNER TO %I', oid::regclass, pg_get_userbyid(relowner)) FROM pg_class
WHERE oid = ANY(` + r.set() + `) ORDER BY ` + r.order("oid"))
}

func (r *reader) grants() error {
	if err := r.before(grantsOf("TABLE", "c.oid::regclass", "(SELECT * FROM pg_class WHERE oid = ANY("+r.set()+")) c", "c.relowner", "c.relacl")); err != nil {
		return err
	}
	// Sequences of identity columns are not among Needs.
	if err := r.before(grantsOf("SEQUENCE", "c.oid::regclass", `(SELECT q.* FROM pg_class q JOIN pg_depend p ON p.objid = q.oid AND p.classid = 'pg_class'::regclass
WHERE q.relkind = 'S' AND p.refclassid = 'pg_class'::regclass AND p.refobjid = ANY(`+r.set()+`) AND p.deptype = 'i') c`, "c.relowner", "c.relacl")); err != nil {
		return err
	}
	return r.before(`SELECT format('GRANT %s (%I) ON TABLE %s TO %s%s', x.privilege_type, a.attname, a.attrelid::regclass,
  CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(x.grantee)) END, CASE WHEN x.is_grantable THEN ' WITH GRANT OPTION' END)
FROM pg_attribute a, aclexplode(a.attacl) x WHERE a.attrelid = ANY(` + r.set() + `) AND NOT a.attisdropped ORDER BY 1`)
}

func (r *reader) comments() error {
	return r.before(`SELECT CASE d.objsubid WHEN 0 THEN format('COMMENT ON TABLE %s IS %L', d.objoid::regclass, d.description)
  ELSE format('COMMENT ON COLUMN %s.%I IS %L', d.objoid::regclass, a.attname, d.description) END
FROM pg_description d LEFT JOIN pg_attribute a ON a.attrelid = d.objoid AND a.attnum = d.objsubid
WHERE d.classoid = 'pg_class'::regclass AND d.objoid = ANY(` + r.set() + `) ORDER BY ` + r.order("d.objoid") + `, d.objsubid`)
}
