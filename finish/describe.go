package finish

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/wire"
)

// Describe asks a backend for the types of a text's parameters and columns. params are the types
// that the client has declared, 0 for an undeclared one. The unnamed statement of the backend is
// replaced. After an ErrorResponse the backend is usable, but a transaction block has failed.
func Describe(c *pool.Conn, sql string, params []uint32) ([]uint32, []plan.Column, error) {
	oids := binary.BigEndian.AppendUint16(nil, uint16(len(params)))
	for _, p := range params {
		oids = binary.BigEndian.AppendUint32(oids, p)
	}
	out := wire.AppendParse(nil, "", sql, oids)
	out = wire.AppendDescribe(out, 'S', "")
	out = wire.AppendEmpty(out, wire.Sync)
	c.UnnamedGone()
	if _, err := c.Write(out); err != nil {
		return nil, nil, c.Lost(err)
	}
	var types []uint32
	var cols []plan.Column
	var failed error
	note := func(err error) {
		if failed == nil {
			failed = err
		}
	}
	err := c.UntilReady(func(typ byte, body []byte) {
		var err error
		switch typ {
		case wire.ErrorResponse:
			note(pool.ServerError(body))
		case wire.ParameterDescription:
			types, err = decodeParameters(body)
		case wire.RowDescription:
			cols, err = DecodeColumns(body)
		}
		if err != nil {
			note(fmt.Errorf("%w: %w", pool.ErrLost, err))
		}
	})
	switch {
	case err != nil:
		return nil, nil, err
	case failed != nil:
		return nil, nil, failed
	}
	if err := nameTypes(c, cols); err != nil {
		return nil, nil, err
	}
	return types, cols, nil
}

func decodeParameters(body []byte) ([]uint32, error) {
	if len(body) < 2 || len(body) != 2+4*int(binary.BigEndian.Uint16(body)) {
		return nil, wire.ErrMalformed
	}
	var out []uint32
	for b := body[2:]; len(b) > 0; b = b[4:] {
		out = append(out, binary.BigEndian.Uint32(b))
	}
	return out, nil
}

// DecodeColumns decodes the body of a RowDescription. The fields of plan.Column that a
// RowDescription does not have are left empty.
func DecodeColumns(body []byte) ([]plan.Column, error) {
	if len(body) < 2 {
		return nil, wire.ErrMalformed
	}
	n := int(binary.BigEndian.Uint16(body))
	body = body[2:]
	cols := make([]plan.Column, n)
	for i := range cols {
		name, rest, ok := wire.CString(body)
		if !ok || len(rest) < 18 {
			return nil, wire.ErrMalformed
		}
		cols[i] = plan.Column{
			Name:  string(name),
			Table: binary.BigEndian.Uint32(rest),
			Num:   int16(binary.BigEndian.Uint16(rest[4:])),
			Type:  binary.BigEndian.Uint32(rest[6:]),
			Size:  int16(binary.BigEndian.Uint16(rest[10:])),
			Mod:   int32(binary.BigEndian.Uint32(rest[12:])),
		}
		body = rest[18:]
	}
	return cols, nil
}

// typeKey is a type with a modifier.
type typeKey struct {
	oid uint32
	mod int32
}

// typeName is what a RowDescription does not say of a type: its name in SQL, its array type, and
// whether it can travel in binary form.
type typeName struct {
	sql    string
	array  uint32
	binary bool
}

func (n typeName) fill(c *plan.Column) { c.SQL, c.Array, c.Binary = n.sql, n.array, n.binary }

// firstAssigned is the first OID that a server assigns. Types with lower OIDs are the same in
// every database of every server: their OIDs are fixed in PostgreSQL's sources.
const firstAssigned = 10000

// builtins caches the names of types below firstAssigned.
var builtins struct {
	mu    sync.RWMutex
	names map[typeKey]typeName
}

// maxBuiltins bounds builtins, because clients choose the modifiers.
const maxBuiltins = 4096

// nameTypes fills in what a RowDescription does not say of columns, from builtins or by asking.
func nameTypes(c *pool.Conn, cols []plan.Column) error {
	var keys []typeKey
	var missing []int
	builtins.mu.RLock()
	for i := range cols {
		key := typeKey{cols[i].Type, cols[i].Mod}
		if n, ok := builtins.names[key]; ok {
			n.fill(&cols[i])
		} else {
			missing = append(missing, i)
			if !slices.Contains(keys, key) { // with many keys PostgreSQL would JIT-compile the query
				keys = append(keys, key)
			}
		}
	}
	builtins.mu.RUnlock()
	if len(missing) == 0 {
		return nil
	}
	names, err := askTypes(c, keys)
	if err != nil {
		return err
	}
	for _, i := range missing {
		n, ok := names[typeKey{cols[i].Type, cols[i].Mod}]
		if !ok {
			return pgerr.New(pgerr.UndefinedObject, "type with OID %d does not exist", cols[i].Type)
		}
		n.fill(&cols[i])
	}
	builtins.mu.Lock()
	defer builtins.mu.Unlock()
	if builtins.names == nil {
		builtins.names = map[typeKey]typeName{}
	}
	for key, n := range names {
		if key.oid < firstAssigned && len(builtins.names) < maxBuiltins {
			builtins.names[key] = n
		}
	}
	return nil
}

// askTypes asks for types. Their names mean the same under every search_path: format_type writes
// a schema only if the path does not lead to the type, so askTypes puts the schema before the
// other names, except those that are keywords of the grammar.
//
// A type that no value can be cast to gets no name: pseudo-types, types whose input functions
// refuse everything (pg_node_tree, gtsvector, the types of extended statistics and BRIN
// summaries), and types that contain one of these.
//
// A type has a binary form if all the types inside it have one, that is if there are functions to
// send and receive them. The reg… types send OIDs, and the OIDs of functions, roles and so on
// differ between servers; only regclass and regtype are translated (see catalog.Translation).
// PostgreSQL does not receive what it sends for an empty tsquery, int2vector or oidvector.
func askTypes(c *pool.Conn, keys []typeKey) (map[typeKey]typeName, error) {
	var asked strings.Builder
	for i, k := range keys {
		if i > 0 {
			asked.WriteString(", ")
		}
		fmt.Fprintf(&asked, "('%d'::pg_catalog.oid, '%d'::pg_catalog.int4)", k.oid, k.mod)
	}
	rows, err := c.Exec(`WITH RECURSIVE asked(oid, mod) AS (VALUES ` + asked.String() + `),
inside(root, oid) AS (
 SELECT a.oid, a.oid FROM asked a
 UNION
 SELECT i.root, x.oid FROM inside i JOIN pg_catalog.pg_type t ON t.oid = i.oid CROSS JOIN LATERAL (
  SELECT t.typelem WHERE t.typlen = -1
  UNION ALL SELECT t.typbasetype
  UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range r WHERE t.oid IN (r.rngtypid, r.rngmultitypid)) x(oid)
 WHERE x.oid <> 0),
whole(oid, closed, carried) AS (
 SELECT i.root, pg_catalog.bool_or(t.typtype = 'p' OR t.oid IN (194, 3361, 3402, 3642, 4600, 4601, 5017)), pg_catalog.bool_and(t.typsend <> 0 AND t.typreceive <> 0
  AND t.oid NOT IN (22, 24, 30, 2202, 2203, 2204, 3615, 3734, 3769, 4089, 4096, 4191))
 FROM inside i JOIN pg_catalog.pg_type t ON t.oid = i.oid GROUP BY i.root)
SELECT a.oid, a.mod,
 CASE WHEN w.closed THEN ''
  WHEN pg_catalog.pg_type_is_visible(e.oid)
   AND (e.oid NOT IN (16, 20, 21, 23, 700, 701, 1042, 1043, 1083, 1114, 1184, 1186, 1266, 1560, 1562, 1700) OR e.oid IN (1042, 1560) AND a.mod = -1)
  THEN pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.format_type(a.oid, a.mod)
  ELSE pg_catalog.format_type(a.oid, a.mod) END,
 CASE WHEN t.typlen = -1 AND t.typelem <> 0 THEN 0 ELSE t.typarray END, w.carried
FROM asked a JOIN pg_catalog.pg_type t ON t.oid = a.oid JOIN whole w ON w.oid = a.oid
JOIN pg_catalog.pg_type e ON e.oid = CASE WHEN t.typlen = -1 AND t.typelem <> 0 AND t.oid NOT IN (22, 30) THEN t.typelem ELSE t.oid END
JOIN pg_catalog.pg_namespace n ON n.oid = e.typnamespace`)
	if err != nil {
		return nil, fmt.Errorf("ask for types: %w", err)
	}
	names := make(map[typeKey]typeName, len(rows))
	for _, r := range rows {
		oid, _ := strconv.ParseUint(r[0], 10, 32)
		mod, _ := strconv.ParseInt(r[1], 10, 32)
		array, _ := strconv.ParseUint(r[3], 10, 32)
		names[typeKey{uint32(oid), int32(mod)}] = typeName{r[2], uint32(array), r[4] == "t"}
	}
	return names, nil
}
