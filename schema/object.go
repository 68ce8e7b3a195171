package schema

import (
	"regexp"
	"strings"

	"weft/catalog"
	"weft/quote"
)

// objectQueries return the statements that create an object of a kind, one a row, by the name that
// pg_identify_object gives. The same query on another shard tells whether that shard has the
// object, and an equal one. No row means that there is no such object.
var objectQueries = map[string]string{
	"schema": `SELECT format('CREATE SCHEMA %I', nspname) FROM pg_namespace WHERE quote_ident(nspname) = $name OR nspname = $name`,

	"extension": `SELECT format('CREATE EXTENSION %I WITH SCHEMA %I', extname, n.nspname)
FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = $name OR quote_ident(extname) = $name`,

	"type": `SELECT CASE t.typtype
  WHEN 'e' THEN format('CREATE TYPE %s AS ENUM (%s)', t.oid::regtype, (SELECT string_agg(quote_literal(enumlabel), ', ' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid))
  WHEN 'c' THEN format('CREATE TYPE %s AS (%s)', t.oid::regtype, (SELECT string_agg(format('%I %s%s', attname, format_type(atttypid, atttypmod),
      CASE WHEN attcollation <> 0 AND attcollation <> y.typcollation THEN ' COLLATE ' || attcollation::regcollation END), ', ' ORDER BY attnum)
      FROM pg_attribute JOIN pg_type y ON y.oid = atttypid WHERE attrelid = t.typrelid AND attnum > 0 AND NOT attisdropped))
  WHEN 'r' THEN (SELECT format('CREATE TYPE %s AS RANGE (SUBTYPE = %s, SUBTYPE_OPCLASS = %I.%I%s%s%s)', t.oid::regtype, rngsubtype::regtype, n.nspname, o.opcname,
      CASE WHEN rngcollation <> 0 AND rngcollation <> y.typcollation THEN ', COLLATION = ' || rngcollation::regcollation END,
      CASE WHEN rngsubdiff <> 0 THEN ', SUBTYPE_DIFF = ' || rngsubdiff::regproc END,
      CASE WHEN to_jsonb(g)->>'rngmultitypid' IS NOT NULL THEN ', MULTIRANGE_TYPE_NAME = ' || ((to_jsonb(g)->>'rngmultitypid')::oid)::regtype END)
      FROM pg_range g JOIN pg_opclass o ON o.oid = rngsubopc JOIN pg_namespace n ON n.oid = o.opcnamespace JOIN pg_type y ON y.oid = rngsubtype
      WHERE rngtypid = t.oid AND rngcanonical = 0)
END FROM pg_type t WHERE t.oid = to_regtype($name) AND t.typtype IN ('e', 'c', 'r')`,

	"domain": `SELECT format('CREATE DOMAIN %s AS %s%s%s%s', t.oid::regtype, format_type(t.typbasetype, t.typtypmod),
  CASE WHEN t.typcollation <> 0 AND t.typcollation <> b.typcollation THEN ' COLLATE ' || t.typcollation::regcollation END,
  ' DEFAULT ' || pg_get_expr(t.typdefaultbin, 0), CASE WHEN t.typnotnull THEN ' NOT NULL' END)
FROM pg_type t JOIN pg_type b ON b.oid = t.typbasetype WHERE t.oid = to_regtype($name) AND t.typtype = 'd'
UNION ALL SELECT * FROM (SELECT format('ALTER DOMAIN %s ADD CONSTRAINT %I %s', contypid::regtype, conname, pg_get_constraintdef(oid))
FROM pg_constraint WHERE contypid = to_regtype($name) AND contypid <> 0 AND contype = 'c' ORDER BY conname) c`,

	"collation": `SELECT format('CREATE COLLATION %s (PROVIDER = %s, DETERMINISTIC = %s, %s)', c.oid::regcollation,
  CASE collprovider WHEN 'i' THEN 'icu' WHEN 'b' THEN 'builtin' ELSE 'libc' END, collisdeterministic::text,
  CASE WHEN collprovider = 'c' THEN format('LC_COLLATE = %L, LC_CTYPE = %L', collcollate, collctype)
    ELSE format('LOCALE = %L', coalesce(to_jsonb(c)->>'colliculocale', to_jsonb(c)->>'colllocale', collcollate)) END)
FROM pg_collation c WHERE c.oid = to_regcollation($name)`,

	"function": `SELECT pg_get_functiondef(oid) FROM pg_proc WHERE oid = to_regprocedure($name) AND prokind IN ('f', 'p', 'w')`,

	// Values of a sequence are drawn on the home shard alone, until triggers need a lot (package proxy/lot). On the other shards the sequence is
	// used up, so that a DEFAULT that weft did not fill in fails instead of giving an id twice.
	"sequence": `SELECT unnest(ARRAY[format('CREATE SEQUENCE %s AS %s INCREMENT BY %s MINVALUE %s MAXVALUE %s START WITH %s CACHE %s NO CYCLE',
  seqrelid::regclass, seqtypid::regtype, seqincrement, seqmin, seqmax, seqstart, seqcache),
  format('SELECT pg_catalog.setval(%L, %s, true)', seqrelid::regclass::text, CASE WHEN seqincrement > 0 THEN seqmax ELSE seqmin END)])
FROM pg_sequence WHERE seqrelid = to_regclass($name)`,

	"view": `SELECT format('CREATE VIEW %s%s AS %s', c.oid::regclass, ' WITH (' || ` + options("c.reloptions", "") + ` || ')', rtrim(pg_get_viewdef(c.oid), ';'))
FROM pg_class c WHERE c.oid = to_regclass($name) AND c.relkind = 'v'`,

	"operator": `SELECT format('CREATE OPERATOR %I.%s (FUNCTION = %s%s%s%s%s%s%s%s%s)', n.nspname, o.oprname, o.oprcode::regproc,
  CASE WHEN o.oprleft <> 0 THEN ', LEFTARG = ' || format_type(o.oprleft, NULL) END, CASE WHEN o.oprright <> 0 THEN ', RIGHTARG = ' || format_type(o.oprright, NULL) END,
  ', COMMUTATOR = ' || (SELECT format('OPERATOR(%I.%s)', m.nspname, c.oprname) FROM pg_operator c JOIN pg_namespace m ON m.oid = c.oprnamespace WHERE c.oid = o.oprcom),
  ', NEGATOR = ' || (SELECT format('OPERATOR(%I.%s)', m.nspname, c.oprname) FROM pg_operator c JOIN pg_namespace m ON m.oid = c.oprnamespace WHERE c.oid = o.oprnegate),
  CASE WHEN o.oprrest <> 0 THEN ', RESTRICT = ' || o.oprrest::regproc END, CASE WHEN o.oprjoin <> 0 THEN ', JOIN = ' || o.oprjoin::regproc END,
  CASE WHEN o.oprcanhash THEN ', HASHES' END, CASE WHEN o.oprcanmerge THEN ', MERGES' END)
FROM pg_operator o JOIN pg_namespace n ON n.oid = o.oprnamespace WHERE o.oid = to_regoperator($name) AND o.oprcode <> 0`,

	"aggregate": `SELECT format('CREATE AGGREGATE %I.%I(%s) (SFUNC = %s, STYPE = %s%s)', n.nspname, p.proname, coalesce(nullif(pg_get_function_arguments(p.oid), ''), '*'), a.aggtransfn::regproc, format_type(a.aggtranstype, NULL), concat(
  CASE WHEN a.aggtransspace <> 0 THEN ', SSPACE = ' || a.aggtransspace::text END,
  CASE WHEN a.aggfinalfn <> 0 THEN ', FINALFUNC = ' || a.aggfinalfn::regproc END, CASE WHEN a.aggfinalextra THEN ', FINALFUNC_EXTRA' END,
  CASE WHEN a.aggfinalfn <> 0 THEN ', FINALFUNC_MODIFY = ' || CASE a.aggfinalmodify WHEN 'r' THEN 'READ_ONLY' WHEN 's' THEN 'SHAREABLE' ELSE 'READ_WRITE' END END,
  CASE WHEN a.aggcombinefn <> 0 THEN ', COMBINEFUNC = ' || a.aggcombinefn::regproc END,
  CASE WHEN a.aggserialfn <> 0 THEN ', SERIALFUNC = ' || a.aggserialfn::regproc END, CASE WHEN a.aggdeserialfn <> 0 THEN ', DESERIALFUNC = ' || a.aggdeserialfn::regproc END,
  ', INITCOND = ' || quote_literal(a.agginitval),
  CASE WHEN a.aggmtransfn <> 0 THEN concat(', MSFUNC = ', a.aggmtransfn::regproc, ', MINVFUNC = ', a.aggminvtransfn::regproc, ', MSTYPE = ', format_type(a.aggmtranstype, NULL),
    CASE WHEN a.aggmtransspace <> 0 THEN ', MSSPACE = ' || a.aggmtransspace::text END, CASE WHEN a.aggmfinalfn <> 0 THEN ', MFINALFUNC = ' || a.aggmfinalfn::regproc END,
    CASE WHEN a.aggmfinalextra THEN ', MFINALFUNC_EXTRA' END, ', MINITCOND = ' || quote_literal(a.aggminitval)) END,
  ', SORTOP = ' || (SELECT format('OPERATOR(%I.%s)', m.nspname, o.oprname) FROM pg_operator o JOIN pg_namespace m ON m.oid = o.oprnamespace WHERE o.oid = a.aggsortop),
  CASE WHEN p.proparallel <> 'u' THEN ', PARALLEL = ' || CASE p.proparallel WHEN 's' THEN 'SAFE' ELSE 'RESTRICTED' END END,
  CASE WHEN a.aggkind = 'h' THEN ', HYPOTHETICAL' END))
FROM pg_aggregate a JOIN pg_proc p ON p.oid = a.aggfnoid JOIN pg_namespace n ON n.oid = p.pronamespace WHERE p.oid = to_regprocedure($name)`,

	"cast": `SELECT format('CREATE CAST (%s AS %s) %s%s', format_type(c.castsource, NULL), format_type(c.casttarget, NULL),
  CASE c.castmethod WHEN 'f' THEN 'WITH FUNCTION ' || c.castfunc::regprocedure WHEN 'i' THEN 'WITH INOUT' ELSE 'WITHOUT FUNCTION' END,
  CASE c.castcontext WHEN 'a' THEN ' AS ASSIGNMENT' WHEN 'i' THEN ' AS IMPLICIT' END)
FROM pg_cast c WHERE (pg_identify_object('pg_cast'::regclass, c.oid, 0)).identity = $name`,

	"language":                  `SELECT '' FROM pg_language WHERE lanname = $name`,
	"base type":                 `SELECT '' FROM pg_type WHERE oid = to_regtype($name)`,
	"text search configuration": `SELECT '' FROM pg_ts_config c WHERE (pg_identify_object('pg_ts_config'::regclass, c.oid, 0)).identity = $name`,
	"text search dictionary":    `SELECT '' FROM pg_ts_dict c WHERE (pg_identify_object('pg_ts_dict'::regclass, c.oid, 0)).identity = $name`,
	"operator class":            `SELECT '' FROM pg_opclass c WHERE (pg_identify_object('pg_opclass'::regclass, c.oid, 0)).identity = $name`,
	"operator family":           `SELECT '' FROM pg_opfamily c WHERE (pg_identify_object('pg_opfamily'::regclass, c.oid, 0)).identity = $name`,
	"access method":             `SELECT '' FROM pg_am WHERE amname = $name`,
}

// dressQueries return the statements that give an object its owner, grants and comment.
var dressQueries = map[string]string{
	"schema":    dress("SCHEMA", "quote_ident(o.nspname)", "pg_namespace o", "quote_ident(o.nspname) = $name OR o.nspname = $name", "nspowner", "nspacl", "pg_namespace"),
	"type":      dress("TYPE", "o.oid::regtype::text", "pg_type o", "o.oid = to_regtype($name)", "typowner", "typacl", "pg_type"),
	"domain":    dress("DOMAIN", "o.oid::regtype::text", "pg_type o", "o.oid = to_regtype($name)", "typowner", "typacl", "pg_type"),
	"function":  dress("ROUTINE", "o.oid::regprocedure::text", "pg_proc o", "o.oid = to_regprocedure($name)", "proowner", "proacl", "pg_proc"),
	"aggregate": dress("ROUTINE", "o.oid::regprocedure::text", "pg_proc o", "o.oid = to_regprocedure($name)", "proowner", "proacl", "pg_proc"),
	"operator":  dress("OPERATOR", "(pg_identify_object('pg_operator'::regclass, o.oid, 0)).identity", "pg_operator o", "o.oid = to_regoperator($name)", "oprowner", "NULL::aclitem[]", "pg_operator"),
	"collation": dress("COLLATION", "o.oid::regcollation::text", "pg_collation o", "o.oid = to_regcollation($name)", "collowner", "NULL::aclitem[]", "pg_collation"),
	"sequence":  dress("SEQUENCE", "o.oid::regclass::text", "pg_class o", "o.oid = to_regclass($name)", "relowner", "relacl", "pg_class"),
	"view":      dress("VIEW", "o.oid::regclass::text", "pg_class o", "o.oid = to_regclass($name)", "relowner", "relacl", "pg_class"),
}

// dress returns a query that writes ALTER … OWNER, GRANT and COMMENT of an object.
func dress(keyword, name, from, where, owner, acl, class string) string {
	return `WITH o AS (SELECT ` + name + ` AS name, o.oid, ` + owner + ` AS owner, ` + acl + ` AS acl FROM ` + from + ` WHERE ` + where + `)
SELECT format('ALTER ` + keyword + ` %s OWNER TO %I', name, pg_get_userbyid(owner)) FROM o
UNION ALL ` + grantsOf(keyword, "name", "o", "owner", "acl") + `
UNION ALL SELECT format('COMMENT ON ` + keyword + ` %s IS %L', name, obj_description(oid, '` + class + `')) FROM o WHERE obj_description(oid, '` + class + `') IS NOT NULL`
}

// grantsOf returns a query that writes an access list as REVOKE and GRANT. A list of NULL is the
// default and stays so.
func grantsOf(keyword, name, from, owner, acl string) string {
	switch keyword { // the words of GRANT differ from those of CREATE
	case "DOMAIN":
		keyword = "TYPE"
	case "VIEW":
		keyword = "TABLE"
	}
	return `SELECT format('REVOKE ALL ON ` + keyword + ` %s FROM PUBLIC, %I', ` + name + `, pg_get_userbyid(` + owner + `)) FROM ` + from + ` WHERE ` + acl + ` IS NOT NULL
UNION ALL SELECT format('GRANT %s ON ` + keyword + ` %s TO %s%s', string_agg(x.privilege_type, ', '), ` + name + `,
  CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(x.grantee)) END, CASE WHEN x.is_grantable THEN ' WITH GRANT OPTION' END)
FROM ` + from + `, aclexplode(` + acl + `) x GROUP BY ` + name + `, x.grantee, x.is_grantable`
}

// readObject returns the statements that make an object, or nil if the shard has no such object.
func readObject(s *session, kind, name string) (*Object, error) {
	query, known := objectQueries[kind]
	if !known {
		return &Object{Kind: kind, Name: name}, nil
	}
	rows, err := s.Exec(named(query, name))
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	o := &Object{Kind: kind, Name: name}
	for _, row := range rows {
		if row[0] != "" {
			o.Create = append(o.Create, catalog.Carried(row[0]))
		}
	}
	if query, ok := dressQueries[kind]; ok {
		rows, err := s.Exec(named(query, name))
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			o.Dress = append(o.Dress, row[0])
		}
	}
	return o, nil
}

var placeholder = regexp.MustCompile(`\$name\b`)

func named(query, name string) string {
	return placeholder.ReplaceAllLiteralString(query, quote.Literal(name))
}

// ReadSequence returns the statements that make a sequence on another shard, whatever search_path
// is there. The sequence is used up there: values are drawn on the home shard alone.
func ReadSequence(n catalog.Name, ask func(sql string) ([][]string, error)) (string, error) {
	lines, err := sequenceLines(n, ask)
	return strings.Join(lines, "; "), err
}

func sequenceLines(n catalog.Name, ask func(sql string) ([][]string, error)) ([]string, error) {
	name := quote.Literal(n.SQL())
	rows, err := ask(`SELECT pg_catalog.unnest(ARRAY[pg_catalog.format('CREATE SEQUENCE %s AS %s INCREMENT BY %s MINVALUE %s MAXVALUE %s START WITH %s CACHE %s NO CYCLE',
  ` + name + `, pg_catalog.format_type(seqtypid, NULL), seqincrement, seqmin, seqmax, seqstart, seqcache),
  pg_catalog.format('SELECT pg_catalog.setval(%L, %s, true)', ` + name + `, CASE WHEN seqincrement > 0 THEN seqmax ELSE seqmin END),
  pg_catalog.format('ALTER SEQUENCE %s OWNER TO %I', ` + name + `, pg_catalog.pg_get_userbyid(o.relowner))])
FROM pg_catalog.pg_sequence JOIN pg_catalog.pg_class o ON o.oid = seqrelid WHERE seqrelid = ` + name + `::pg_catalog.regclass
UNION ALL ` + grantsOf("SEQUENCE", "o.name", "(SELECT "+name+"::pg_catalog.text AS name, relowner, relacl FROM pg_catalog.pg_class WHERE oid = "+name+"::pg_catalog.regclass) o", "o.relowner", "o.relacl"))
	return first(rows), err
}
