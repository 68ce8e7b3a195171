package catalog

import (
	"fmt"
	"strconv"
)

// firstOID is the first OID that may differ from server to server. PostgreSQL's source
// fixes the OIDs below it.
const firstOID = 10000

// Types has the types and relations of one database on one shard, and how to find
// OIDs inside values of the types. It is immutable.
type Types struct {
	types     map[uint32]*typeShape
	names     map[Name]*typeShape // without array types
	relations map[uint32]Name
	oids      map[Name]uint32 // the OIDs of relations
}

// shapeKind says how a type's binary values are built.
type shapeKind uint8

const (
	flat       shapeKind = iota // a value without OIDs inside
	array                       // an array of elem
	record                      // fields with their types
	domain                      // a domain over elem
	rangeOf                     // a range of elem
	multirange                  // a multirange of elem, which is a range type
	regclass                    // the OID of a relation
	regtype                     // the OID of a type
)

// typeShape is one type.
type typeShape struct {
	name  Name
	oid   uint32
	array uint32
	kind  shapeKind
	elem  uint32
	// fields are the types of a composite's columns, without types that never have
	// OIDs inside. Nil for an anonymous record.
	fields []uint32
}

// builtinShapes are the built-in types with OIDs inside their binary values. Type oid
// is not among them, because it is not known what such a value is the OID of.
var builtinShapes = map[uint32]*typeShape{
	2205: {name: Name{"pg_catalog", "regclass"}, oid: 2205, kind: regclass},
	2206: {name: Name{"pg_catalog", "regtype"}, oid: 2206, kind: regtype},
	2210: {name: Name{"pg_catalog", "_regclass"}, oid: 2210, kind: array, elem: 2205},
	2211: {name: Name{"pg_catalog", "_regtype"}, oid: 2211, kind: array, elem: 2206},
	2249: {name: Name{"pg_catalog", "record"}, oid: 2249, kind: record},
	2287: {name: Name{"pg_catalog", "_record"}, oid: 2287, kind: array, elem: 2249},
	2277: {name: Name{"pg_catalog", "anyarray"}, oid: 2277, kind: array},
}

// typesQuery returns the types that are not arrays of other types, the columns of
// composite types that may have OIDs inside, and the relations. statement_timeout is
// off, because the query is not the client's statement.
const typesQuery = `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;
SET LOCAL statement_timeout = 0;
SET LOCAL jit = off;
SET LOCAL client_encoding = 'UTF8';
SELECT 't', t.oid, n.nspname, t.typname, t.typtype, t.typarray, t.typbasetype, r.rngsubtype, m.rngtypid
FROM pg_catalog.pg_type t
JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace AND n.nspname !~ '^pg_(toast|temp)'
LEFT JOIN pg_catalog.pg_range r ON r.rngtypid = t.oid
LEFT JOIN pg_catalog.pg_range m ON m.rngmultitypid = t.oid
WHERE t.oid >= 10000 AND NOT EXISTS (SELECT FROM pg_catalog.pg_type e WHERE e.typarray = t.oid);
SELECT 'a', c.reltype, a.atttypid
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid AND c.reltype >= 10000
WHERE a.attnum > 0 AND NOT a.attisdropped AND (a.atttypid >= 10000 OR a.atttypid IN (2205, 2206, 2210, 2211, 2249, 2277, 2287))
ORDER BY a.attrelid, a.attnum;
SELECT 'r', c.oid, n.nspname, c.relname
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace AND n.nspname !~ '^pg_(toast|temp)'
WHERE c.oid >= 10000`

// LoadTypes reads the types of a database; run is as for Load.
func LoadTypes(run func(sql string) ([][]string, error)) (*Types, error) {
	rows, err := run(typesQuery)
	if err != nil {
		return nil, fmt.Errorf("load types: %w", err)
	}
	t := &Types{
		types: map[uint32]*typeShape{}, names: map[Name]*typeShape{},
		relations: map[uint32]Name{}, oids: map[Name]uint32{},
	}
	for _, r := range rows {
		if err := t.row(r); err != nil {
			return nil, fmt.Errorf("load types: row %.200q: %w", r, err)
		}
	}
	return t, nil
}

func (t *Types) row(r []string) error {
	switch {
	case len(r) == 9 && r[0] == "t":
		return t.typ(r)
	case len(r) == 3 && r[0] == "a":
		oids, err := parseOIDs(r[1:])
		if err != nil {
			return err
		}
		if s := t.types[oids[0]]; s != nil {
			s.fields = append(s.fields, oids[1])
		}
	case len(r) == 4 && r[0] == "r":
		oids, err := parseOIDs(r[1:2])
		if err != nil {
			return err
		}
		n := Name{r[2], r[3]}
		t.relations[oids[0]] = n
		t.oids[n] = oids[0]
	default:
		return fmt.Errorf("unexpected")
	}
	return nil
}

func (t *Types) typ(r []string) error {
	oids, err := parseOIDs([]string{r[1], r[5], r[6], r[7], r[8]})
	if err != nil {
		return err
	}
	s := &typeShape{name: Name{r[2], r[3]}, oid: oids[0], array: oids[1]}
	switch r[4] {
	case "c":
		s.kind, s.fields = record, []uint32{}
	case "d":
		s.kind, s.elem = domain, oids[2]
	case "r":
		s.kind, s.elem = rangeOf, oids[3]
	case "m":
		s.kind, s.elem = multirange, oids[4]
	}
	t.types[s.oid] = s
	t.names[s.name] = s
	if s.array != 0 {
		t.types[s.array] = &typeShape{name: Name{s.name.Schema, s.name.Name + "[]"}, oid: s.array, kind: array, elem: s.oid}
	}
	return nil
}

// parseOIDs reads OIDs. An empty text is 0.
func parseOIDs(texts []string) ([]uint32, error) {
	out := make([]uint32, len(texts))
	for i, s := range texts {
		if s == "" {
			continue
		}
		n, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			return nil, err
		}
		out[i] = uint32(n)
	}
	return out, nil
}
