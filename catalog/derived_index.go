package catalog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Derived describes a unique index that has more than whole columns: expressions, or a part of the rows.
type Derived struct {
	// Types are the types of the items, below their domains. A type that is not known is 0.
	Types []uint32
	// Items are the items as PostgreSQL's messages show them. Empty if reading them would have waited for a lock.
	Items []string
	// Uses are the columns that the items and the predicate use.
	Uses []string
	// Cause is the part of the index that no lookup can take over. Empty for none.
	Cause string
	// Shape is equal for indexes that keep the same values unique, on one server.
	Shape string
	// Inherited: the index belongs to an index of the partitioned table.
	Inherited bool
}

// IndexShape is the SQL expression for the shape of index i of pg_index: what the index keeps unique. Indexes with the same shape keep the
// same values unique. The expression reads stored trees, and so takes no lock. Lengths of types and places in the statement do not count.
const IndexShape = `pg_catalog.md5(pg_catalog.concat_ws('/', i.indrelid, pg_catalog.array_to_string((pg_catalog.string_to_array(i.indkey::pg_catalog.text, ' '))[1:i.indnkeyatts], ' '),
  pg_catalog.regexp_replace(pg_catalog.concat_ws('/', i.indexprs::pg_catalog.text, i.indpred::pg_catalog.text), ' :(location|[a-z]*typmod) -?[0-9]+', '', 'g'),
  CASE WHEN ` + citextIndex + ` THEN 'citext' END, CASE WHEN ` + nullsIndex + ` THEN 'nulls' END))`

// nullsIndex is the SQL condition that for index i of pg_index NULL is equal to NULL (NULLS NOT DISTINCT).
const nullsIndex = `coalesce((pg_catalog.to_jsonb(i) ->> 'indnullsnotdistinct')::pg_catalog.bool, false)`

// nullsTypes are the OIDs of types whose values a lookup can tell from NULL: equal values get equal texts. See weft.lookup_derive.
const nullsTypes = `16, 20, 21, 23, 25, 1042, 1043, 1082, 1114, 1184, 1700, 2950`

// citextIndex is the SQL condition that index i of pg_index has keys of the type citext, whose equal values need not have equal texts.
const citextIndex = `EXISTS (SELECT FROM pg_catalog.unnest(pg_catalog.string_to_array(i.indclass::pg_catalog.text, ' ')::pg_catalog.oid[]) u
  JOIN pg_catalog.pg_opclass c ON c.oid = u AND u >= 16384 JOIN pg_catalog.pg_type t ON t.oid = c.opcintype AND t.typname = 'citext'
  JOIN pg_catalog.pg_depend e ON e.classid = 1247 AND e.objid = t.oid AND e.deptype = 'e')`

// IndexUses is the SQL expression for the numbers of the columns that index i of pg_index uses, apart from those it only includes.
const IndexUses = `ARRAY(SELECT DISTINCT n::pg_catalog.int2 FROM (SELECT pg_catalog.unnest((pg_catalog.string_to_array(i.indkey::pg_catalog.text, ' '))[1:i.indnkeyatts])
  UNION ALL SELECT m[1] FROM pg_catalog.regexp_matches(pg_catalog.concat_ws(' ', i.indexprs::pg_catalog.text, i.indpred::pg_catalog.text), ':varattno ([0-9]+)', 'g') m) u(n)
  WHERE n <> '0' ORDER BY 1)`

// IndexCause is the SQL expression for the part of index i of pg_index that no lookup can take over, or ”. The functions of a lookup run as a
// superuser. So they may only evaluate expressions that call nothing which another role has made: functions and operators of PostgreSQL, and
// those of an extension that a superuser owns, which are immutable and whose parameters have fixed types. The owner of a trusted extension can add
// functions to it, but these belong to that owner. A function of an extension with a parameter of any type could be displaced by a
// user's function with a better matching one. A domain runs its CHECK, so a value may not become one.
const IndexCause = `coalesce(
  (SELECT pg_catalog.format('what calls the function %s, which is neither built in nor an immutable function of an extension', p.oid::pg_catalog.regprocedure)
    FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_proc p ON p.oid = d.refobjid
    WHERE d.classid = 1259 AND d.objid = i.indexrelid AND d.refclassid = 1255 AND p.oid >= 16384 AND NOT (p.provolatile = 'i'
      AND EXISTS (SELECT FROM pg_catalog.pg_depend e WHERE e.classid = 1255 AND e.objid = p.oid AND e.deptype = 'e')
      AND EXISTS (SELECT FROM pg_catalog.pg_roles o WHERE o.oid = p.proowner AND o.rolsuper)
      AND NOT EXISTS (SELECT FROM pg_catalog.unnest(p.proargtypes::pg_catalog.oid[]) a JOIN pg_catalog.pg_type t ON t.oid = a WHERE t.typtype = 'p')) LIMIT 1),
  (SELECT pg_catalog.format('what calls the operator %s, which is neither built in nor an immutable operator of an extension', r.oid::pg_catalog.regoperator)
    FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_operator r ON r.oid = d.refobjid JOIN pg_catalog.pg_proc p ON p.oid = r.oprcode
    WHERE d.classid = 1259 AND d.objid = i.indexrelid AND d.refclassid = 2617 AND r.oid >= 16384 AND NOT (p.provolatile = 'i'
      AND EXISTS (SELECT FROM pg_catalog.pg_depend e WHERE e.classid = 2617 AND e.objid = r.oid AND e.deptype = 'e')
      AND EXISTS (SELECT FROM pg_catalog.pg_roles o WHERE o.oid = r.oprowner AND o.rolsuper)
      AND (p.oid < 16384 OR EXISTS (SELECT FROM pg_catalog.pg_depend e WHERE e.classid = 1255 AND e.objid = p.oid AND e.deptype = 'e'))
      AND EXISTS (SELECT FROM pg_catalog.pg_roles o WHERE o.oid = p.proowner AND o.rolsuper)
      AND NOT EXISTS (SELECT FROM pg_catalog.unnest(p.proargtypes::pg_catalog.oid[]) a JOIN pg_catalog.pg_type t ON t.oid = a WHERE t.typtype = 'p')) LIMIT 1),
  (SELECT pg_catalog.format('values of the type %s in an expression', t.oid::pg_catalog.regtype)
    FROM pg_catalog.regexp_matches(pg_catalog.concat_ws(' ', i.indexprs::pg_catalog.text, i.indpred::pg_catalog.text), ':([a-z_]*typ(?:e|id|eid)) ([0-9]+)', 'gi') m
    JOIN pg_catalog.pg_type t ON t.oid = m[2]::pg_catalog.oid
    LEFT JOIN pg_catalog.pg_type x ON x.oid = CASE WHEN m[1] = 'vartype' AND t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
    WHERE t.oid >= 16384 AND x.oid >= 16384 AND x.typtype <> 'e' AND NOT EXISTS (SELECT FROM pg_catalog.pg_type l WHERE l.oid = x.typelem AND l.typtype = 'e')
      AND NOT (x.typtype <> 'd' AND EXISTS (SELECT FROM pg_catalog.pg_depend e WHERE e.classid = 1247 AND e.objid = x.oid AND e.deptype = 'e')
        AND EXISTS (SELECT FROM pg_catalog.pg_roles o WHERE o.oid = x.typowner AND o.rolsuper)) LIMIT 1),
  (SELECT 'an expression with objects that are not built in'::pg_catalog.text FROM pg_catalog.pg_depend d
    WHERE d.classid = 1259 AND d.objid = i.indexrelid AND d.refobjid >= 16384 AND d.refclassid NOT IN (1259, 2606, 1255, 2617, 1247, 3456, 2616) LIMIT 1),
  (SELECT 'a nondeterministic collation'::pg_catalog.text FROM pg_catalog.pg_collation c
    WHERE c.oid = ANY (pg_catalog.string_to_array(i.indcollation::pg_catalog.text, ' ')::pg_catalog.oid[]) AND NOT c.collisdeterministic LIMIT 1),
  (SELECT 'an operator class of its own'::pg_catalog.text FROM pg_catalog.pg_opclass c
    WHERE c.oid = ANY (pg_catalog.string_to_array(i.indclass::pg_catalog.text, ' ')::pg_catalog.oid[]) AND NOT c.opcdefault AND NOT (c.oid < 16384 AND c.opcname LIKE '%pattern_ops') LIMIT 1),
  '')`

// derivedQuery returns the unique indexes that have more than whole columns. PostgreSQL takes a lock on the table to write the items out.
const derivedQuery = busy + `SELECT 'n', i.indexrelid, i.indrelid,
 (SELECT pg_catalog.string_agg(CASE WHEN b.typname = 'citext' AND ` + citextIndex + ` OR ` + nullsIndex + ` AND b.oid IN (` + nullsTypes + `) THEN 25 ELSE b.oid END::pg_catalog.text, ',' ORDER BY a.attnum) FROM pg_catalog.pg_attribute a
  JOIN pg_catalog.pg_type t ON t.oid = a.atttypid JOIN pg_catalog.pg_type b ON b.oid = CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END WHERE a.attrelid = i.indexrelid AND a.attnum <= i.indnkeyatts),
 CASE WHEN i.indrelid NOT IN (SELECT b.oid FROM busy b) THEN pg_catalog.array_to_string(ARRAY(SELECT pg_catalog.pg_get_indexdef(i.indexrelid, n, true)
  FROM pg_catalog.generate_series(1, i.indnkeyatts::integer) n), pg_catalog.chr(1)) END,
 pg_catalog.array_to_string(` + IndexUses + `, ','), ` + IndexCause + `, ` + IndexShape + `,
 EXISTS (SELECT FROM pg_catalog.pg_inherits h WHERE h.inhrelid = i.indexrelid)
FROM pg_catalog.pg_index i WHERE i.indexrelid >= 16384 AND i.indislive AND i.indisunique AND NOT i.indisexclusion AND ` + derived

// derived is the SQL condition that unique index i of pg_index has more than whole columns that are equal if their texts are, and different if they are NULL.
const derived = `(i.indexprs IS NOT NULL OR NOT ` + WholeIndex + ` OR ` + citextIndex + ` OR ` + nullsIndex + `)`

// derivedIndex completes a unique index.
func (l *loader) derivedIndex(r []string) error {
	index, rel := l.relations[r[1]], l.relations[r[2]]
	if index == nil || rel == nil {
		return nil
	}
	at := slices.IndexFunc(rel.Unique, func(u Unique) bool { return u.Name == index.Name.Name })
	if at < 0 {
		return nil
	}
	d := &Derived{Uses: l.names(rel, r[2], r[5]), Cause: r[6], Shape: r[7], Inherited: r[8] == "t"}
	for text := range strings.SplitSeq(r[3], ",") {
		oid, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return fmt.Errorf("types of index %s: %w", index.Name.Name, err)
		}
		d.Types = append(d.Types, uint32(oid))
	}
	if r[4] != "" {
		d.Items = strings.Split(r[4], "\x01")
	}
	rel.Unique[at].Derived = d
	return nil
}
