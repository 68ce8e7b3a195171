package catalog

import "strings"

// pg_depend says exactly what the expressions stored in a schema use, except for
// built-in functions. The queries below search the stored trees for those built-in
// functions that matter.

// storedQuery returns the code that the schema stores, except functions, with a row
// for each object that the code uses: kind, subject, item, the item's name, class and
// OID of the used object (NULL if there is none), and flags: n for NOTIFY, l for
// advisory locks, o for running texts. The name of an operator or type is its schema,
// \x01 and its name.
var storedQuery = `WITH item AS (
 SELECT CASE WHEN a.attgenerated = '' THEN 'd' ELSE 'g' END AS kind, 2604::oid AS class, d.oid, d.adrelid AS subject, a.attname::text AS name, d.adbin::text AS tree
  FROM pg_catalog.pg_attrdef d JOIN pg_catalog.pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
 UNION ALL SELECT CASE WHEN k.contypid <> 0 THEN 'T' WHEN k.contype = 'x' THEN 'x' ELSE 'c' END, 2606, k.oid,
  CASE WHEN k.contypid <> 0 THEN k.contypid ELSE k.conrelid END, k.conname::text, k.conbin::text
  FROM pg_catalog.pg_constraint k WHERE k.contype IN ('c', 'x') AND k.oid >= 16384
 UNION ALL SELECT 'p', 3256, p.oid, p.polrelid, p.polname::text, pg_catalog.concat(p.polqual::text, p.polwithcheck::text) FROM pg_catalog.pg_policy p
 UNION ALL SELECT CASE WHEN w.rulename = '_RETURN' THEN 'v' ELSE 'r' END, 2618, w.oid, w.ev_class, w.rulename::text, pg_catalog.concat(w.ev_qual::text, w.ev_action::text)
  FROM pg_catalog.pg_rewrite w JOIN pg_catalog.pg_class c ON c.oid = w.ev_class AND c.relkind <> 'm' WHERE w.oid >= 16384
 UNION ALL SELECT k.kind, 2620, t.oid, t.tgrelid, t.tgname::text, t.tgqual::text
  FROM pg_catalog.pg_trigger t JOIN (VALUES ('t'), ('w')) k(kind) ON k.kind = 't' OR t.tgqual IS NOT NULL WHERE NOT t.tgisinternal
 UNION ALL SELECT 'x', 1259, i.indexrelid, i.indrelid, c.relname::text, pg_catalog.concat(i.indexprs::text, i.indpred::text)
  FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid WHERE i.indexrelid >= 16384 AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)
 UNION ALL SELECT 'x', 1259, t.partrelid, t.partrelid, 'partition key', t.partexprs::text FROM pg_catalog.pg_partitioned_table t WHERE t.partexprs IS NOT NULL
 UNION ALL SELECT 'O', 2617, o.oid, o.oid, pg_catalog.concat(n.nspname, pg_catalog.chr(1), o.oprname), NULL
  FROM pg_catalog.pg_operator o JOIN pg_catalog.pg_namespace n ON n.oid = o.oprnamespace WHERE o.oid >= 16384
 UNION ALL SELECT 'T', 1247, t.oid, t.oid, pg_catalog.concat(n.nspname, pg_catalog.chr(1), t.typname), t.typdefaultbin::text
  FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace WHERE t.oid >= 16384 AND t.typtype IN ('d', 'r', 'm'))
SELECT DISTINCT 'g', i.kind, i.subject, i.oid::text, i.name, d.refclassid, d.refobjid,
 CASE WHEN i.tree ~ ` + anyTree + ` THEN CASE WHEN i.tree ~ ` + notifyTree + ` THEN 'n' ELSE '' END || CASE WHEN i.tree ~ ` + calledTree(locksAdvisory) + ` THEN 'l' ELSE '' END ||
 CASE WHEN i.tree ~ ` + calledTree(runsText) + ` THEN 'o' ELSE '' END ELSE '' END
FROM item i LEFT JOIN pg_catalog.pg_depend d ON d.classid = i.class AND d.objid = i.oid AND d.refobjid >= 16384 AND d.deptype = 'n'
 AND d.refclassid IN (1255, 1259, 1247, 2617)
 AND (i.kind <> 'w' OR d.refclassid <> 1255 OR d.refobjid NOT IN (SELECT t.tgfoid FROM pg_catalog.pg_trigger t WHERE t.oid = i.oid)) AND (d.refclassid <> 1259 OR i.kind <> 'x' AND (d.refobjid <> i.subject OR i.kind = 'p' AND d.refobjsubid = 0))
UNION ALL SELECT DISTINCT 'g', k.kind, CASE k.kind WHEN 'T' THEN c.reltype ELSE c.oid END, CASE k.kind WHEN 'T' THEN c.reltype::text ELSE pg_catalog.concat(c.oid, '.', d.objsubid) END,
 CASE k.kind WHEN 'T' THEN pg_catalog.concat(n.nspname, pg_catalog.chr(1), c.relname) ELSE a.attname::text END, d.refclassid, d.refobjid, ''
 FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_class c ON c.oid = d.objid AND c.reltype <> 0 JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.objsubid
 CROSS JOIN (VALUES ('T'), ('y')) k(kind)
 WHERE d.classid = 1259 AND d.objsubid > 0 AND d.refclassid = 1247 AND d.refobjid >= 16384
UNION ALL SELECT 'g', 'T', t.oid, t.oid::text, pg_catalog.concat(n.nspname, pg_catalog.chr(1), t.typname), 1247, t.typelem, ''
 FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace WHERE t.typelem >= 16384 AND t.oid >= 16384
UNION ALL SELECT 'g', 'C', x.oid, x.oid::text, pg_catalog.concat('the cast from ', pg_catalog.format_type(x.castsource, NULL), ' to ', pg_catalog.format_type(x.casttarget, NULL)), 1255, x.castfunc, ''
 FROM pg_catalog.pg_cast x WHERE x.castfunc >= 16384
UNION ALL SELECT 'g', 'C', x.oid, x.oid::text, 'operator family ' || f.opfname, 1255, x.amproc::oid, ''
 FROM pg_catalog.pg_amproc x JOIN pg_catalog.pg_opfamily f ON f.oid = x.amprocfamily WHERE x.amproc::oid >= 16384
UNION ALL SELECT 'g', 'E', x.oid, x.oid::text, x.evtname::text, 1255, x.evtfoid, '' FROM pg_catalog.pg_event_trigger x WHERE x.evtenabled <> 'D'`

// policyQuery returns the policies. The text of a policy is needed, and read, only if
// the policy reads another table, or its own table in a subquery.
var policyQuery = busy + `SELECT 'q', p.oid, p.polrelid, p.polname, p.polcmd,
 CASE WHEN NOT 0 = ANY (p.polroles) THEN (SELECT pg_catalog.string_agg(r.rolname, pg_catalog.chr(1)) FROM pg_catalog.pg_roles r WHERE r.oid = ANY (p.polroles)) END, b.bad,
 CASE WHEN b.reads AND NOT b.bad THEN pg_catalog.pg_get_expr(p.polqual, p.polrelid) END,
 CASE WHEN b.reads AND NOT b.bad THEN pg_catalog.pg_get_expr(p.polwithcheck, p.polrelid) END
FROM pg_catalog.pg_policy p
CROSS JOIN LATERAL (SELECT coalesce(bool_or(d.refobjid <> p.polrelid OR d.refobjsubid = 0), false) AS reads, coalesce(bool_or(d.refobjid IN (SELECT busy.oid FROM busy)), false) AS bad
 FROM pg_catalog.pg_depend d WHERE d.classid = 3256 AND d.objid = p.oid AND d.refclassid = 1259 AND d.deptype = 'n' OFFSET 0) b`

// notifyTree matches the stored tree of code that has pg_notify or NOTIFY.
const notifyTree = `':funcid 3036 |\{NOTIFY'`

// locksAdvisory is the SQL condition that function p takes advisory locks. The index on
// names can answer it.
const locksAdvisory = `(p.proname >= 'pg_advisory' AND p.proname < 'pg_advisorz' OR p.proname >= 'pg_try_advisory' AND p.proname < 'pg_try_advisorz')`

// runsText is the SQL condition that function p runs a text that it is given.
var runsText = `p.proname IN ('` + strings.Join(runners, "', '") + `')`

// anyTree matches a tree that notifyTree or one of the patterns of calledTree matches. It
// is tried first, because most trees are long and match none of the patterns.
var anyTree = `(SELECT ':funcid (3036|' || pg_catalog.string_agg(p.oid::text, '|') || ') |\{NOTIFY' FROM pg_catalog.pg_proc p WHERE p.oid < 16384 AND (` + locksAdvisory + ` OR ` + runsText + `))`

// calledTree returns a pattern of trees that call a built-in function p for which
// condition holds.
func calledTree(condition string) string {
	return `(SELECT ':funcid (' || pg_catalog.string_agg(p.oid::text, '|') || ') ' FROM pg_catalog.pg_proc p WHERE p.oid < 16384 AND ` + condition + `)`
}
