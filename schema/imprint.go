package schema

import (
	"slices"

	"weft/catalog"
)

// Imprint lists what a shard has: each object by kind and name, with a sum of its definition. Two
// imprints of a shard tell what a transaction has changed there; those of two shards tell whether
// the change is the same. Objects are compared by name, never by OID.
type Imprint map[string]string

// imprintQuery lists the user's objects. It asks what every role may ask, and takes no
// locks on tables.
const imprintQuery = `WITH own AS (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname !~ '^(pg_|weft$|weft_gate$|information_schema$)'),
rel AS (SELECT c.oid, c.relkind, n.nspname, c.relname, pg_catalog.concat_ws(' ', c.relkind, pg_catalog.pg_get_userbyid(c.relowner), c.relrowsecurity, c.relforcerowsecurity, c.relispartition,
    c.reloptions, (SELECT pg_catalog.string_agg(x::text, ',' ORDER BY x::text) FROM pg_catalog.unnest(c.relacl) x), pg_catalog.obj_description(c.oid, 'pg_class')) AS face
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.oid IN (SELECT oid FROM own) AND c.relkind <> 't'),
col AS (SELECT a.attrelid AS oid, pg_catalog.string_agg(pg_catalog.concat_ws(' ', a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated, a.attacl,
    pg_catalog.pg_get_expr(d.adbin, d.adrelid), pg_catalog.col_description(a.attrelid, a.attnum)), ',' ORDER BY a.attnum) AS text
  FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
  WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attrelid IN (SELECT oid FROM rel) GROUP BY 1),
con AS (SELECT conrelid AS oid, contypid AS type, pg_catalog.string_agg(pg_catalog.concat_ws(' ', conname, pg_catalog.pg_get_constraintdef(oid), convalidated), ',' ORDER BY conname) AS text
  FROM pg_catalog.pg_constraint WHERE connamespace IN (SELECT oid FROM own) GROUP BY 1, 2),
trg AS (SELECT tgrelid AS oid, pg_catalog.string_agg(pg_catalog.concat_ws(' ', pg_catalog.pg_get_triggerdef(oid), tgenabled), ',' ORDER BY tgname) AS text FROM pg_catalog.pg_trigger WHERE NOT tgisinternal GROUP BY 1),
pol AS (SELECT polrelid AS oid, pg_catalog.string_agg(pg_catalog.concat_ws(' ', polname, polcmd, polpermissive, (SELECT pg_catalog.string_agg(pg_catalog.pg_get_userbyid(x), ',' ORDER BY 1) FROM pg_catalog.unnest(polroles) x),
    pg_catalog.pg_get_expr(polqual, polrelid), pg_catalog.pg_get_expr(polwithcheck, polrelid)), ',' ORDER BY polname) AS text FROM pg_catalog.pg_policy GROUP BY 1),
ext AS (SELECT classid, objid FROM pg_catalog.pg_depend WHERE deptype = 'e')
SELECT key, pg_catalog.md5(value) FROM (
SELECT pg_catalog.concat('relation ', rel.nspname, '.', rel.relname) AS key, pg_catalog.concat_ws('; ', rel.face, col.text, con.text, trg.text, pol.text,
    CASE WHEN rel.relkind IN ('i', 'I') THEN pg_catalog.pg_get_indexdef(rel.oid) END) AS value
  FROM rel LEFT JOIN col USING (oid) LEFT JOIN con USING (oid) LEFT JOIN trg USING (oid) LEFT JOIN pol USING (oid)
UNION ALL SELECT pg_catalog.format('type %I.%I', n.nspname, t.typname), pg_catalog.concat_ws('; ', t.typtype, pg_catalog.pg_get_userbyid(t.typowner), pg_catalog.format_type(NULLIF(t.typbasetype, 0), t.typtypmod), t.typnotnull, t.typdefault,
    t.typacl, con.text, pg_catalog.obj_description(t.oid, 'pg_type'), (SELECT pg_catalog.string_agg(enumlabel, ',' ORDER BY enumsortorder) FROM pg_catalog.pg_enum WHERE enumtypid = t.oid))
  FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace LEFT JOIN con ON con.type = t.oid AND t.oid <> 0 WHERE n.oid IN (SELECT oid FROM own) AND t.typtype IN ('e', 'd', 'r', 'm', 'c')
UNION ALL SELECT pg_catalog.format('function %I.%I(%s)', n.nspname, p.proname, pg_catalog.pg_get_function_identity_arguments(p.oid)), pg_catalog.concat_ws('; ', p.prokind, p.prosrc, p.proconfig, p.provolatile, p.prosecdef, p.proisstrict,
    p.proleakproof, p.proparallel, pg_catalog.pg_get_function_arguments(p.oid), pg_catalog.pg_get_function_result(p.oid), pg_catalog.pg_get_userbyid(p.proowner), p.proacl, pg_catalog.obj_description(p.oid, 'pg_proc'))
  FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE n.oid IN (SELECT oid FROM own)
UNION ALL SELECT pg_catalog.format('schema %I', nspname), pg_catalog.concat_ws('; ', pg_catalog.pg_get_userbyid(nspowner), nspacl, pg_catalog.obj_description(oid, 'pg_namespace')) FROM pg_catalog.pg_namespace WHERE oid IN (SELECT oid FROM own)
UNION ALL SELECT pg_catalog.format('extension %I', extname), extversion FROM pg_catalog.pg_extension
UNION ALL SELECT pg_catalog.format('operator %s', oid::pg_catalog.regoperator), pg_catalog.concat_ws('; ', oprcode::pg_catalog.regprocedure, pg_catalog.pg_get_userbyid(oprowner)) FROM pg_catalog.pg_operator WHERE oprnamespace IN (SELECT oid FROM own)
UNION ALL SELECT pg_catalog.format('collation %s', oid::pg_catalog.regcollation), pg_catalog.concat_ws('; ', collprovider, collcollate, pg_catalog.pg_get_userbyid(collowner)) FROM pg_catalog.pg_collation WHERE collnamespace IN (SELECT oid FROM own)
UNION ALL SELECT pg_catalog.format('cast %s', (pg_catalog.pg_identify_object('pg_catalog.pg_cast'::pg_catalog.regclass, oid, 0)).identity), castcontext::text FROM pg_catalog.pg_cast WHERE oid >= 16384
UNION ALL SELECT pg_catalog.format('%s %s', i.type, i.identity), '' FROM (SELECT 'pg_catalog.pg_ts_config'::pg_catalog.regclass AS class, oid FROM pg_catalog.pg_ts_config WHERE oid >= 16384
    UNION ALL SELECT 'pg_catalog.pg_ts_dict'::pg_catalog.regclass, oid FROM pg_catalog.pg_ts_dict WHERE oid >= 16384 UNION ALL SELECT 'pg_catalog.pg_opclass'::pg_catalog.regclass, oid FROM pg_catalog.pg_opclass WHERE oid >= 16384
    UNION ALL SELECT 'pg_catalog.pg_statistic_ext'::pg_catalog.regclass, oid FROM pg_catalog.pg_statistic_ext UNION ALL SELECT 'pg_catalog.pg_publication'::pg_catalog.regclass, oid FROM pg_catalog.pg_publication) o
  CROSS JOIN LATERAL pg_catalog.pg_identify_object(o.class, o.oid, 0) i
UNION ALL SELECT pg_catalog.format('role %I', rolname), pg_catalog.concat_ws('; ', rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolbypassrls, rolconnlimit, rolvaliduntil,
    (SELECT pg_catalog.string_agg(pg_catalog.concat_ws(' ', g.rolname, m.admin_option), ',' ORDER BY g.rolname) FROM pg_catalog.pg_auth_members m JOIN pg_catalog.pg_roles g ON g.oid = m.roleid WHERE m.member = r.oid)) FROM pg_catalog.pg_roles r WHERE rolname !~ '^pg_'
UNION ALL SELECT pg_catalog.format('settings of %I', pg_catalog.pg_get_userbyid(setrole)), (SELECT pg_catalog.string_agg(x, ',' ORDER BY x) FROM pg_catalog.unnest(setconfig) x) FROM pg_catalog.pg_db_role_setting
  WHERE setdatabase IN (0, (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()))
UNION ALL SELECT pg_catalog.format('database %I', datname), pg_catalog.concat_ws('; ', pg_catalog.pg_get_userbyid(datdba), datacl, datconnlimit) FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()
UNION ALL SELECT pg_catalog.format('default privileges of %I on %s in %s', pg_catalog.pg_get_userbyid(defaclrole), defaclobjtype, NULLIF(defaclnamespace, 0)::pg_catalog.regnamespace), defaclacl::text FROM pg_catalog.pg_default_acl
) o ORDER BY 1, 2`

// ReadImprint asks a shard for its imprint.
func ReadImprint(ask func(sql string) ([][]string, error)) (Imprint, error) {
	rows, err := ask(imprintQuery)
	if err != nil {
		return nil, err
	}
	out := Imprint{}
	for _, r := range rows {
		out[r[0]] += r[1]
	}
	return out, nil
}

// Has reports whether there is a relation of that name.
func (i Imprint) Has(n catalog.Name) bool {
	_, ok := i["relation "+n.Schema+"."+n.Name]
	return ok
}

// Unlike returns an object that two shards have changed differently, or "" if there is none.
// Objects that only one of the shards had before are not compared.
func Unlike(before, after, beforeThere, afterThere Imprint) string {
	var found []string
	note := func(key string) {
		was, had := before[key]
		is, has := after[key]
		wasThere, hadThere := beforeThere[key]
		isThere, hasThere := afterThere[key]
		switch {
		case had != hadThere:
		case has != hasThere, (was != is) != (wasThere != isThere), was == wasThere && is != isThere:
			found = append(found, key)
		}
	}
	for _, m := range []Imprint{before, after, afterThere} {
		for key := range m {
			note(key)
		}
	}
	if len(found) == 0 {
		return ""
	}
	slices.Sort(found)
	return found[0]
}
