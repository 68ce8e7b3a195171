package catalog

import "strings"

// pg_depend says exactly what the expressions stored in a schema use, except for
// built-in functions. storedQuery searches the stored trees for those built-in
// functions that matter.

// plainCast is the subject of a cast between two built-in types. plainOperator ends the name of an operator for values of
// built-in types; no name of an operator has letters.
const (
	plainCast     = "1"
	plainOperator = "plain"
)

// dependQuery returns the rows of pg_depend that tell what users' objects use: the
// class, OID and column of the object, the same of the object that it uses, and how it
// depends.
const dependQuery = `SELECT 'd', d.classid, d.objid, d.objsubid, d.refclassid, d.refobjid, d.refobjsubid, d.deptype FROM pg_catalog.pg_depend d
WHERE d.refobjid >= 16384 AND d.refclassid IN (1255, 1259, 1247, 2617) AND (d.classid = 1255
  OR d.deptype = 'n' AND d.classid IN (1247, 1259, 2604, 2606, 2617, 2618, 2620, 3256)
  OR d.deptype IN ('a', 'i') AND d.classid = 1259 AND d.refclassid = 1259 AND d.refobjsubid > 0)
 OR d.classid = 1255 AND d.objid >= 16384 AND d.refclassid = 3079 AND d.deptype = 'e'`

// storedQuery returns the code that the schema stores: kind, class, OID, subject, name,
// another number that depends on the kind, and flags: n for NOTIFY, l for advisory locks,
// o for running texts. The kinds are those of Run, and v for a view, p for a policy, T
// for a type, A for a type that only has elements, O for an operator, F for a function, C
// for a cast or a support function, E for an event trigger. A trigger with a condition is
// of kind w.
var storedQuery = `SELECT 'g', i.kind, i.class, i.oid, i.subject, i.name, i.more,
 CASE WHEN i.tree ~ (SELECT ':funcid (3036|' || pg_catalog.string_agg(p.oid::text, '|') || ') |\{NOTIFY' FROM pg_catalog.pg_proc p WHERE ` + sought + `)
  THEN pg_catalog.concat(CASE WHEN i.tree ~ ':funcid 3036 |\{NOTIFY' THEN 'n' END, (SELECT pg_catalog.string_agg(DISTINCT CASE WHEN ` + locksAdvisory + ` THEN 'l' ELSE 'o' END, '')
   FROM pg_catalog.pg_proc p WHERE ` + sought + ` AND pg_catalog.strpos(i.tree, ':funcid ' || p.oid::text || ' ') > 0)) END
FROM (SELECT 'd' AS kind, 2604 AS class, d.oid, d.adrelid AS subject, '' AS name, d.adnum::oid AS more, d.adbin::text AS tree FROM pg_catalog.pg_attrdef d
 UNION ALL SELECT CASE WHEN k.contypid <> 0 THEN 'T' WHEN k.contype = 'x' THEN 'x' ELSE 'c' END, 2606, k.oid,
  CASE WHEN k.contypid <> 0 THEN k.contypid ELSE k.conrelid END, k.conname::text, NULL, k.conbin::text
  FROM pg_catalog.pg_constraint k WHERE k.contype IN ('c', 'x') AND k.oid >= 16384
 UNION ALL SELECT 'p', 3256, p.oid, p.polrelid, p.polname::text, NULL, pg_catalog.concat(p.polqual::text, p.polwithcheck::text) FROM pg_catalog.pg_policy p
 UNION ALL SELECT CASE WHEN w.rulename = '_RETURN' THEN 'v' ELSE 'r' END, 2618, w.oid, w.ev_class, w.rulename::text, NULL,
  CASE WHEN c.relnamespace <> ` + ownSchema + ` THEN pg_catalog.concat(w.ev_qual::text, w.ev_action::text) END
  FROM pg_catalog.pg_rewrite w JOIN pg_catalog.pg_class c ON c.oid = w.ev_class AND c.relkind <> 'm' WHERE w.oid >= 16384
 UNION ALL SELECT CASE WHEN t.tgqual IS NULL THEN 't' ELSE 'w' END, 2620, t.oid, t.tgrelid, t.tgname::text, t.tgfoid, t.tgqual::text FROM pg_catalog.pg_trigger t WHERE NOT t.tgisinternal
 UNION ALL SELECT 'x', 1259, i.indexrelid, i.indrelid, '', NULL, pg_catalog.concat(i.indexprs::text, i.indpred::text)
  FROM pg_catalog.pg_index i WHERE i.indexrelid >= 16384 AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)
 UNION ALL SELECT 'x', 1259, t.partrelid, t.partrelid, 'partition key', NULL, t.partexprs::text FROM pg_catalog.pg_partitioned_table t WHERE t.partexprs IS NOT NULL
 UNION ALL SELECT 'O', 2617, o.oid, o.oid, o.oprname::text || CASE WHEN o.oprleft < 16384 AND o.oprright < 16384 THEN '` + plainOperator + `' ELSE '' END, o.oprnamespace, NULL FROM pg_catalog.pg_operator o WHERE o.oid >= 16384
 UNION ALL SELECT CASE WHEN t.typtype IN ('d', 'r', 'm') THEN 'T' ELSE 'A' END, 1247, t.oid, t.typelem, t.typname::text, t.typnamespace, t.typdefaultbin::text
  FROM pg_catalog.pg_type t WHERE t.oid >= 16384 AND (t.typtype IN ('d', 'r', 'm') OR t.typelem >= 16384)
 UNION ALL SELECT 'F', 1255, p.oid, 0, '', NULL, pg_catalog.concat(p.prosqlbody::text, p.proargdefaults::text)
  FROM pg_catalog.pg_proc p WHERE p.oid >= 16384 AND (p.prosqlbody IS NOT NULL OR p.proargdefaults IS NOT NULL)
 UNION ALL SELECT 'C', 0, x.oid, CASE WHEN x.castsource < 16384 AND x.casttarget < 16384 THEN ` + plainCast + ` ELSE 0 END, pg_catalog.concat('the cast from ', pg_catalog.format_type(x.castsource, NULL), ' to ', pg_catalog.format_type(x.casttarget, NULL)), x.castfunc, NULL
  FROM pg_catalog.pg_cast x WHERE x.castfunc >= 16384
 UNION ALL SELECT 'C', 0, x.oid, 0, 'operator family ' || (SELECT f.opfname FROM pg_catalog.pg_opfamily f WHERE f.oid = x.amprocfamily), x.amproc::oid, NULL
  FROM pg_catalog.pg_amproc x WHERE x.amproc::oid >= 16384
 UNION ALL SELECT 'E', 0, x.oid, 0, x.evtname::text, x.evtfoid, NULL FROM pg_catalog.pg_event_trigger x WHERE x.evtenabled <> 'D') i`

// policyQuery returns the policies. The text of WITH CHECK is needed, and read, only if
// the policy reads another table, or its own table in a subquery.
var policyQuery = busy + `SELECT 'q', p.oid, p.polrelid, p.polname, p.polcmd,
 CASE WHEN NOT 0 = ANY (p.polroles) THEN (SELECT pg_catalog.string_agg(pg_catalog.pg_get_userbyid(r), pg_catalog.chr(1)) FROM pg_catalog.unnest(p.polroles) r) END, b.bad,
 CASE WHEN NOT b.bad THEN pg_catalog.pg_get_expr(p.polqual, p.polrelid) END,
 CASE WHEN b.reads AND NOT b.bad THEN pg_catalog.pg_get_expr(p.polwithcheck, p.polrelid) END, p.polpermissive
FROM pg_catalog.pg_policy p
CROSS JOIN LATERAL (SELECT coalesce(bool_or(d.refobjid <> p.polrelid OR d.refobjsubid = 0), false) AS reads, coalesce(bool_or(d.refobjid IN (SELECT busy.oid FROM busy)), false) AS bad
 FROM pg_catalog.pg_depend d WHERE d.classid = 3256 AND d.objid = p.oid AND d.refclassid = 1259 AND d.deptype = 'n' OFFSET 0) b`

// locksAdvisory is the SQL condition that function p takes advisory locks. The index on
// names can answer it.
const locksAdvisory = `(p.proname >= 'pg_advisory' AND p.proname < 'pg_advisorz' OR p.proname >= 'pg_try_advisory' AND p.proname < 'pg_try_advisorz')`

// sought is the SQL condition that built-in function p takes advisory locks or runs a
// text that it is given.
var sought = `p.oid < 16384 AND (` + locksAdvisory + ` OR p.proname IN ('` + strings.Join(runners, "', '") + `'))`
