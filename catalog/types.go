package catalog

import (
	"fmt"
	"strconv"
)

// firstOID is the first that may differ from server to server. Below are those
// written in PostgreSQL's source.
const firstOID = 10000

// Types are the types and relations of one database on one shard, with what is
// needed to find OIDs inside values. It is immutable.
type Types struct {
	types     map[uint32]*typeShape
	names     map[Name]*typeShape // without arrays
	relations map[uint32]Name
	oids      map[Name]uint32 // of relations
}

// shapeKind says how a type's binary values are built.
type shapeKind uint8

const (
	flat       shapeKind = iota // no OIDs in it
	array                       // of elem
	record                      // fields with their types
	domain                      // over elem
	rangeOf                     // of elem
	multirange                  // of elem, a range
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
	// fields are the types of a composite's columns, without those that
	// certainly have no OIDs in them. Nil for an anonymous record.
	fields []uint32
}

// builtinShapes are the built-in types with OIDs in their binary values. Plain
// oid is not among them: nobody knows what it is the OID of.
var builtinShapes = map[uint32]*typeShape{
	2205: {name: Name{"pg_catalog", "regclass"}, oid: 2205, kind: regclass},
	2206: {name: Name{"pg_catalog", "regtype"}, oid: 2206, kind: regtype},
	2210: {name: Name{"pg_catalog", "_regclass"}, oid: 2210, kind: array, elem: 2205},
	2211: {name: Name{"pg_catalog", "_regtype"}, oid: 2211, kind: array, elem: 2206},
	2249: {name: Name{"pg_catalog", "record"}, oid: 2249, kind: record},
	2287: {name: Name{"pg_catalog", "_record"}, oid: 2287, kind: array, elem: 2249},
	2277: {name: Name{"pg_catalog", "anyarray"}, oid: 2277, kind: array},
}

// typesQuery asks for the types that are no arrays of others, the columns of
// composite types that may have OIDs in them, and the relations. However long that
// takes, it is none of the client's statement.
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

// parseOIDs reads OIDs; an empty text is 0.
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
