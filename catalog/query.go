package catalog

import "strings"

// query reads the whole schema in one round trip and one snapshot. Each row begins
// with a letter that says what the row is about. The settings are those that change
// how PostgreSQL writes expressions; they end with the transaction of the query.
//
// PostgreSQL takes longer to plan a join of catalogs than to read them. So rows name most
// objects by OID, and the loader joins them.
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

	// A schema.
	`SELECT 'h', n.oid, n.nspname FROM pg_catalog.pg_namespace n`,

	// A relation.
	`SELECT 'r', c.oid, c.relnamespace, c.relname, c.relkind, pg_catalog.pg_get_userbyid(c.relowner), c.relrowsecurity, c.relforcerowsecurity,
 CASE WHEN c.relkind = 'v' THEN pg_catalog.array_to_string(c.reloptions, ',') END, c.relispartition, c.reltype
FROM pg_catalog.pg_class c WHERE c.oid >= 16384 AND c.relkind <> 't' OR c.relkind IN ('r', 'v')`,

	// A domain or enum.
	`SELECT 'y', t.oid, t.typtype, t.typbasetype, t.typtypmod, t.typnotnull, pg_catalog.pg_get_expr(t.typdefaultbin, 0)
FROM pg_catalog.pg_type t WHERE t.typtype IN ('d', 'e')`,

	// A column.
	busy + `SELECT 'c', a.attrelid, a.attname, a.attnum, a.atttypid, pg_catalog.format_type(a.atttypid, a.atttypmod), a.atttypmod, a.attnotnull,
 CASE WHEN a.atthasdef THEN (SELECT CASE WHEN a.attgenerated = '' THEN pg_catalog.pg_get_expr(d.adbin, 0)
   WHEN a.attrelid NOT IN (SELECT b.oid FROM busy b) THEN pg_catalog.pg_get_expr(d.adbin, a.attrelid) END
  FROM pg_catalog.pg_attrdef d WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum) END,
 a.attidentity, a.attgenerated, a.attcollation,
 CASE WHEN a.attcollation NOT IN (0, 100) THEN (SELECT pg_catalog.concat_ws(pg_catalog.chr(1), l.collnamespace, l.collname, l.collisdeterministic,
   l.collprovider = 'b' OR l.collprovider = 'c' AND l.collcollate IN ('C', 'POSIX'))
  FROM pg_catalog.pg_collation l WHERE l.oid = a.attcollation) END
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'c')
WHERE a.attrelid >= 16384 AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum`,

	// An index.
	`SELECT 'i', i.indexrelid, i.indrelid, i.indisunique, i.indisprimary, i.indisexclusion, NOT (` + WholeIndex + `), i.indnkeyatts, i.indkey,
 NOT i.indimmediate, i.indisunique AND coalesce((pg_catalog.to_jsonb(i) ->> 'indnullsnotdistinct')::boolean, false)
FROM pg_catalog.pg_index i WHERE i.indexrelid >= 16384 AND i.indislive`,

	// A unique index that has more than whole columns.
	derivedQuery,

	// A foreign key.
	`SELECT 'k', k.conname, k.conrelid, k.conkey, k.confrelid, k.confkey, pg_catalog.pg_get_constraintdef(k.oid)
FROM pg_catalog.pg_constraint k WHERE k.contype = 'f' AND k.conparentid = 0`,

	// A trigger.
	`SELECT 't', t.tgrelid, t.tgname, p.pronamespace, p.proname, t.tgtype & 32 <> 0, (t.tgtype & 3) = 3 AND (t.tgtype & 20) <> 0, t.tgenabled,
 CASE WHEN t.tgtype & 1 = 0 AND t.tgenabled <> 'D' THEN t.tgtype & 60 ELSE 0 END, t.tgattr,
 t.tgtype & 61, pg_catalog.encode(t.tgargs, 'hex')
FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid WHERE NOT t.tgisinternal`,

	// Extended statistics.
	`SELECT 's', x.stxrelid, x.stxnamespace, x.stxname FROM pg_catalog.pg_statistic_ext x`,

	// A parent.
	`SELECT 'p', h.inhrelid, h.inhparent FROM pg_catalog.pg_inherits h ORDER BY h.inhrelid, h.inhseqno`,

	// A rule.
	`SELECT 'u', w.oid, w.ev_class FROM pg_catalog.pg_rewrite w WHERE w.rulename <> '_RETURN' AND w.oid >= 16384`,

	// The definition of a view that is not weft's.
	busy + `SELECT 'v', w.ev_class, b.bad, CASE WHEN NOT b.bad THEN pg_catalog.pg_get_viewdef(w.ev_class) END
FROM pg_catalog.pg_rewrite w JOIN pg_catalog.pg_class c ON c.oid = w.ev_class AND c.relpersistence <> 't' AND c.relnamespace <> ` + ownSchema + `
CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM pg_catalog.pg_depend d
 WHERE d.classid = 2618 AND d.objid = w.oid AND d.refclassid = 1259 AND d.refobjid IN (SELECT busy.oid FROM busy)) AS bad OFFSET 0) b
WHERE w.rulename = '_RETURN' AND w.oid >= 16384`,

	// A function.
	busy + `SELECT 'f', p.oid, p.pronamespace, p.proname, p.provolatile, l.lanname, p.prokind, p.prosrc, p.prosqlbody IS NOT NULL, p.proretset,
 CASE WHEN l.lanname IN ('plpgsql', 'sql') THEN (SELECT pg_catalog.string_agg(pg_catalog.concat_ws(' ', CASE p.proargmodes[a.i] WHEN 'o' THEN 'OUT' WHEN 't' THEN 'OUT' WHEN 'b' THEN 'INOUT' WHEN 'v' THEN 'VARIADIC' ELSE 'IN' END,
  pg_catalog.quote_ident(nullif(p.proargnames[a.i], '')), pg_catalog.format_type(a.t, NULL),
  CASE WHEN l.lanname IN ('sql', 'plpgsql') AND p.pronargdefaults > 0 THEN 'DEFAULT ' || pg_catalog.pg_get_function_arg_default(p.oid, a.i::integer) END), ', ' ORDER BY a.i)
  FROM pg_catalog.unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) WITH ORDINALITY a(t, i)) END,
 CASE WHEN p.proretset THEN 'SETOF ' ELSE '' END || pg_catalog.format_type(p.prorettype, NULL),
 p.proisstrict, p.prosecdef, pg_catalog.array_to_string(p.proconfig, pg_catalog.chr(1)),
 p.proacl IS NULL OR EXISTS (SELECT FROM pg_catalog.aclexplode(p.proacl) e WHERE e.grantee = 0 AND e.privilege_type = 'EXECUTE'),
 pg_catalog.array_to_string(coalesce(p.proallargtypes, p.proargtypes::oid[]), ' '), p.prorettype,
 CASE WHEN p.prosqlbody IS NOT NULL AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
  WHERE d.classid = 1255 AND d.objid = p.oid AND d.refclassid = 1259 AND d.refobjid IN (SELECT busy.oid FROM busy)) THEN pg_catalog.pg_get_function_sqlbody(p.oid) END
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang WHERE p.oid >= 16384`,

	// An extension.
	`SELECT 'x', x.oid, x.extname FROM pg_catalog.pg_extension x`,

	// An object of a user, and another object that it uses.
	dependQuery,

	// Other code that the schema stores.
	storedQuery,

	// A policy.
	policyQuery,

	// Whether a user has defined an operator = between built-in types.
	`SELECT 'e', EXISTS (SELECT FROM pg_catalog.pg_operator o WHERE o.oid >= 16384 AND o.oprname = '=' AND o.oprleft < 16384 AND o.oprright < 16384)`,

	// How strings compare by default. Servers before version 15 have no datlocprovider.
	`SELECT 'l', CASE coalesce(pg_catalog.to_jsonb(b) ->> 'datlocprovider', 'c') WHEN 'b' THEN true WHEN 'c' THEN b.datcollate IN ('C', 'POSIX') ELSE false END, pg_catalog.pg_encoding_to_char(b.encoding),
 pg_catalog.current_setting('server_version_num')::integer / 10000
FROM pg_catalog.pg_database b WHERE b.datname = pg_catalog.current_database()`,
}, ";\n")

// lookupQuery returns the lookups. It is not part of query because table weft.lookup
// may not exist.
//
// REINDEX CONCURRENTLY gives an index another OID, and the next DDL command enters that
// OID into weft.lookup. Until then lookupQuery finds the index by its columns or its shape.
//
// A weft before version 6 of the lookups made weft.lookup without the last columns.
const lookupQuery = `SELECT 'w', k.owner, k.name, '{' || pg_catalog.array_to_string(k.columns, ',') || '}', k.single,
 coalesce((SELECT c.relname FROM pg_catalog.pg_class c WHERE c.oid = k.index), (SELECT c.relname FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
  WHERE k.index <> 0 AND i.indisvalid AND ` + LookupIndex + ` ORDER BY i.indexrelid LIMIT 1)), k.state, k.job, coalesce(j.k ->> 'shape', ''), coalesce(j.k ->> 'condition', ''),
 coalesce((SELECT pg_catalog.string_agg(x, pg_catalog.chr(1) ORDER BY n) FROM pg_catalog.jsonb_array_elements_text(j.k -> 'items') WITH ORDINALITY u(x, n)), ''),
 coalesce((SELECT pg_catalog.string_agg(x, pg_catalog.chr(1) ORDER BY n) FROM pg_catalog.jsonb_array_elements_text(j.k -> 'shown') WITH ORDINALITY u(x, n)), ''),
 coalesce((SELECT pg_catalog.string_agg(x, ',' ORDER BY n) FROM pg_catalog.jsonb_array_elements_text(j.k -> 'uses') WITH ORDINALITY u(x, n)), '')
FROM weft.lookup k CROSS JOIN LATERAL (SELECT pg_catalog.to_jsonb(k)) j(k) ORDER BY k.single DESC, k.name`

// ownSchema is the SQL expression for the OID of schema weft, or 0.
const ownSchema = `coalesce(pg_catalog.to_regnamespace('weft')::oid, 0)`

// busy is a WITH query of the relations that another transaction, which may be a
// prepared one, has locked or wants to lock so that reading their definitions would wait.
const busy = `WITH busy AS MATERIALIZED (SELECT l.relation AS oid FROM pg_catalog.pg_locks l
 WHERE l.locktype = 'relation' AND l.mode = 'AccessExclusiveLock' AND l.relation IS NOT NULL AND l.pid IS DISTINCT FROM pg_catalog.pg_backend_pid()
 AND l.database = (SELECT b.oid FROM pg_catalog.pg_database b WHERE b.datname = pg_catalog.current_database()))
`
