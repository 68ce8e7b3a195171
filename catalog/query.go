package catalog

import (
	"strconv"
	"strings"
)

// query reads the whole schema in one round trip and one snapshot. Each row begins
// with a letter that says what the row is about. The settings are those that change
// how PostgreSQL writes expressions; they end with the transaction of the query.
//
// No statement here may wait for a lock: otherwise an idle transaction that has altered
// one table would keep all proxies from learning about other tables. PostgreSQL takes a
// lock to write out a view or a generated column, so one that names a relation which
// another transaction is changing is left out. A lock taken between this check and
// the reading can make it wait; lock_timeout bounds that. statement_timeout is off,
// because a client whose own timeout is too short for this query could never get a
// schema.
var query = strings.Join([]string{
	`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY`,
	`SET LOCAL search_path = pg_catalog, pg_temp`,
	`SET LOCAL lock_timeout = '3s'`,
	`SET LOCAL statement_timeout = 0`,
	`SET LOCAL jit = off`,
	`SET LOCAL client_encoding = 'UTF8'`, // the client's encoding may lack characters of names
	`SET LOCAL quote_all_identifiers = off`,
	`SET LOCAL datestyle = 'ISO'`,
	`SET LOCAL intervalstyle = 'postgres'`,
	`SET LOCAL extra_float_digits = 1`,

	// A relation.
	`SELECT 'r', c.oid, n.nspname, c.relname, c.relkind, pg_catalog.pg_get_userbyid(c.relowner), c.relrowsecurity,
 ` + viewOption("security_barrier") + `, ` + viewOption("security_invoker") + `, c.relforcerowsecurity
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE ` + userSchema + ` AND c.relkind <> 't'
 OR n.nspname IN ('pg_catalog', 'information_schema') AND c.relkind IN ('r', 'v')`,

	// A domain or enum.
	`SELECT 'y', t.oid, t.typtype, t.typbasetype, t.typtypmod, t.typnotnull, pg_catalog.pg_get_expr(t.typdefaultbin, 0),
 (SELECT d.refobjid FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_class s ON s.oid = d.refobjid AND s.relkind = 'S'
  WHERE d.classid = 1247 AND d.objid = t.oid AND d.refclassid = 1259 LIMIT 1)
FROM pg_catalog.pg_type t WHERE t.typtype IN ('d', 'e')`,

	// A column.
	busy + `SELECT 'c', a.attrelid, a.attname, a.attnum, a.atttypid, pg_catalog.format_type(a.atttypid, a.atttypmod), a.atttypmod,
 a.attnotnull, CASE WHEN a.attgenerated = '' THEN pg_catalog.pg_get_expr(d.adbin, 0)
  WHEN a.attrelid NOT IN (SELECT b.oid FROM busy b) THEN pg_catalog.pg_get_expr(d.adbin, a.attrelid) END,
 a.attidentity, a.attgenerated, co.nspname, co.collname, co.collisdeterministic,
 CASE WHEN a.attcollation = 100 THEN 'd' WHEN co.bytewise THEN 'b' END
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_class c ON c.oid = a.attrelid AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'c')
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace AND ` + userSchema + `
LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
LEFT JOIN (SELECT l.oid, l.collname, l.collisdeterministic, m.nspname, l.collprovider = 'b' OR l.collprovider = 'c' AND l.collcollate IN ('C', 'POSIX') AS bytewise
 FROM pg_catalog.pg_collation l JOIN pg_catalog.pg_namespace m ON m.oid = l.collnamespace) co ON co.oid = a.attcollation AND co.oid <> 100
WHERE a.attrelid >= 16384 AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum`,

	// A default that names a sequence.
	`SELECT 'n', ad.adrelid, ad.adnum, d.refobjid
FROM pg_catalog.pg_depend d
JOIN pg_catalog.pg_class s ON s.oid = d.refobjid AND s.relkind = 'S'
JOIN pg_catalog.pg_attrdef ad ON ad.oid = d.objid
WHERE d.classid = 2604 AND d.refclassid = 1259`,

	// A sequence that a column owns.
	`SELECT 'o', d.objid, d.refobjid, d.refobjsubid, d.deptype
FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_class s ON s.oid = d.objid AND s.relkind = 'S'
WHERE d.classid = 1259 AND d.refclassid = 1259 AND d.refobjsubid > 0 AND d.deptype IN ('a', 'i')`,

	// An index.
	`SELECT 'i', i.indexrelid, i.indrelid, i.indisunique, i.indisprimary, i.indisexclusion, NOT (` + WholeIndex + `), i.indnkeyatts, i.indkey,
 NOT i.indimmediate, coalesce((pg_catalog.to_jsonb(i) ->> 'indnullsnotdistinct')::boolean, false)
FROM pg_catalog.pg_index i WHERE i.indexrelid >= 16384 AND i.indislive`,

	// A foreign key.
	`SELECT 'k', k.conname, k.conrelid, k.conkey, k.confrelid, k.confkey, pg_catalog.pg_get_constraintdef(k.oid)
FROM pg_catalog.pg_constraint k WHERE k.contype = 'f' AND k.conparentid = 0`,

	// A trigger.
	`SELECT 't', t.tgrelid, t.tgname, n.nspname, p.proname, t.tgtype & 32 <> 0, (t.tgtype & 3) = 3 AND (t.tgtype & 20) <> 0, t.tgenabled,
 CASE WHEN t.tgtype & 1 = 0 AND t.tgenabled <> 'D' THEN t.tgtype & 60 ELSE 0 END, t.tgattr
FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
WHERE NOT t.tgisinternal AND (n.nspname <> 'weft' OR p.proname = 'strayed')`,

	// Extended statistics.
	`SELECT 's', x.stxrelid, n.nspname, x.stxname FROM pg_catalog.pg_statistic_ext x JOIN pg_catalog.pg_namespace n ON n.oid = x.stxnamespace`,

	// A parent.
	`SELECT 'p', h.inhrelid, h.inhparent, c.relispartition
FROM pg_catalog.pg_inherits h JOIN pg_catalog.pg_class c ON c.oid = h.inhrelid AND c.relkind IN ('r', 'p', 'f')
ORDER BY h.inhrelid, h.inhseqno`,

	// A relation with rules, and what they name.
	`SELECT DISTINCT 'u', w.ev_class, d.refclassid = 1259, coalesce(cn.nspname, pn.nspname), coalesce(c.relname, p.proname)
FROM pg_catalog.pg_rewrite w
LEFT JOIN pg_catalog.pg_depend d ON d.classid = 2618 AND d.objid = w.oid AND d.refclassid IN (1259, 1255) AND d.refobjid <> w.ev_class AND d.refobjid >= 16384
LEFT JOIN pg_catalog.pg_class c ON d.refclassid = 1259 AND c.oid = d.refobjid LEFT JOIN pg_catalog.pg_namespace cn ON cn.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_proc p ON d.refclassid = 1255 AND p.oid = d.refobjid LEFT JOIN pg_catalog.pg_namespace pn ON pn.oid = p.pronamespace
WHERE w.rulename <> '_RETURN' AND w.oid >= 16384 ORDER BY 4, 5`,

	// A view's definition.
	busy + `SELECT 'v', c.oid, b.bad, CASE WHEN NOT b.bad THEN pg_catalog.pg_get_viewdef(c.oid) END
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace AND ` + userSchema + `
JOIN pg_catalog.pg_rewrite w ON w.ev_class = c.oid AND w.rulename = '_RETURN'
CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM pg_catalog.pg_depend d JOIN busy ON busy.oid = d.refobjid
 WHERE d.classid = 2618 AND d.objid = w.oid AND d.refclassid = 1259) AS bad OFFSET 0) b
WHERE c.relkind IN ('v', 'm')`,

	// A function, unless it came with a range type. Defaults of its arguments run with it.
	`SELECT 'f', p.oid, n.nspname, p.proname, p.provolatile, l.lanname, p.prokind, e.extname, p.prosrc,
 (p.prosqlbody IS NOT NULL OR p.proargdefaults IS NOT NULL) AND EXISTS (SELECT FROM pg_catalog.pg_proc q
  WHERE q.proname IN ('` + strings.Join(runners, "', '") + `') AND pg_catalog.strpos(pg_catalog.concat(p.prosqlbody::text, p.proargdefaults::text), ':funcid ' || q.oid::text || ' ') > 0),
 p.prosqlbody IS NOT NULL, p.proretset,
 CASE WHEN l.lanname = 'plpgsql' THEN (SELECT pg_catalog.string_agg(pg_catalog.concat_ws(' ', CASE p.proargmodes[a.i] WHEN 'o' THEN 'OUT' WHEN 't' THEN 'OUT' WHEN 'b' THEN 'INOUT' WHEN 'v' THEN 'VARIADIC' ELSE 'IN' END,
  pg_catalog.quote_ident(nullif(p.proargnames[a.i], '')), pg_catalog.format_type(a.t, NULL)), ', ' ORDER BY a.i)
  FROM pg_catalog.unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) WITH ORDINALITY a(t, i)) END,
 CASE WHEN p.proretset THEN 'SETOF ' ELSE '' END || pg_catalog.format_type(p.prorettype, NULL),
 pg_catalog.concat(p.prosqlbody::text, p.proargdefaults::text) ~ ` + notifyTree + `, pg_catalog.concat(p.prosqlbody::text, p.proargdefaults::text) ~ ` + calledTree(locksAdvisory) + `
FROM pg_catalog.pg_proc p
JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
JOIN pg_catalog.pg_language l ON l.oid = p.prolang
LEFT JOIN pg_catalog.pg_depend d ON d.classid = 1255 AND d.objid = p.oid AND d.refclassid = 3079 AND d.deptype = 'e'
LEFT JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid
WHERE p.oid >= 16384
AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend i WHERE i.classid = 1255 AND i.objid = p.oid AND i.refclassid = 1247 AND i.deptype = 'i')`,

	// An object that a function's parsed body or its arguments name: a relation,
	// function, type or operator.
	`SELECT DISTINCT 'd', d.objid, d.refclassid, d.refobjid
FROM pg_catalog.pg_depend d
WHERE d.classid = 1255 AND d.objid >= 16384 AND d.refobjid >= 16384 AND d.refclassid IN (1255, 1259, 1247, 2617)`,

	// Other code that the schema stores, and an object that it uses.
	storedQuery,

	// A policy.
	policyQuery,

	// Whether a user has defined an operator = between built-in types.
	`SELECT 'e', EXISTS (SELECT FROM pg_catalog.pg_operator o WHERE o.oid >= 16384 AND o.oprname = '=' AND o.oprleft < 16384 AND o.oprright < 16384)`,

	// How strings compare by default. Servers before version 15 have no datlocprovider.
	`SELECT 'l', CASE coalesce(pg_catalog.to_jsonb(b) ->> 'datlocprovider', 'c') WHEN 'b' THEN true WHEN 'c' THEN b.datcollate IN ('C', 'POSIX') ELSE false END, pg_catalog.pg_encoding_to_char(b.encoding),
 pg_catalog.current_setting('server_version_num')::integer / 10000
FROM pg_catalog.pg_database b WHERE b.datname = pg_catalog.current_database()`,

	// The built-in functions of a server whose version is not builtinVersion.
	builtinQuery(`pg_catalog.current_setting('server_version_num')::integer / 10000 <> ` + strconv.Itoa(builtinVersion)),
}, ";\n")

// lookupQuery returns the lookups. It is not part of query because table weft.lookup
// may not exist.
//
// REINDEX CONCURRENTLY gives an index another OID, and the next DDL command enters that
// OID into weft.lookup. Until then lookupQuery finds the index by its columns.
const lookupQuery = `SELECT 'w', k.owner, k.name, '{' || pg_catalog.array_to_string(k.columns, ',') || '}', k.single,
 coalesce((SELECT c.relname FROM pg_catalog.pg_class c WHERE c.oid = k.index), (SELECT c.relname FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
  WHERE k.index <> 0 AND i.indisvalid AND ` + LookupIndex + ` ORDER BY i.indexrelid LIMIT 1)), k.state, k.job
FROM weft.lookup k ORDER BY k.single DESC, k.name`

// viewOption returns the SQL condition that view c has the option and that it is on.
func viewOption(name string) string {
	return `c.relkind = 'v' AND c.reloptions IS NOT NULL AND EXISTS (SELECT FROM pg_catalog.pg_options_to_table(c.reloptions) o
  WHERE o.option_name = '` + name + `' AND o.option_value::boolean)`
}

// userSchema is the SQL condition that schema n is not PostgreSQL's.
const userSchema = `n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'`

// busy is a WITH query of the relations that another transaction, which may be a
// prepared one, has locked or wants to lock so that reading their definitions would wait.
const busy = `WITH busy AS MATERIALIZED (SELECT l.relation AS oid FROM pg_catalog.pg_locks l
 WHERE l.locktype = 'relation' AND l.mode = 'AccessExclusiveLock' AND l.relation IS NOT NULL AND l.pid IS DISTINCT FROM pg_catalog.pg_backend_pid()
 AND l.database = (SELECT b.oid FROM pg_catalog.pg_database b WHERE b.datname = pg_catalog.current_database()))
`
