package catalog

import "fmt"

// Translation makes one shard's messages look as if the home shard had sent
// them, and gives the client's messages the OIDs of that shard. Types and tables
// that users make have other OIDs on every shard; clients know only the OIDs of the
// home shard.
//
// How to use a Translation t for a statement that runs on a shard other than home:
//
//	Parse                 t.ParseOIDs of the declared types
//	Bind                  t.Bind of what follows the names, with the parameters' types as the client knows them
//	ParameterDescription  t.ParameterDescription, in place
//	RowDescription        rows, err := t.RowDescription, in place; keep rows with the statement or portal
//	  … of a statement    rows = rows.Formats(the result formats of each Bind), as the description has none
//	DataRow               if rows.Deep() { t.DataRow(body, rows) }, in place
//	CopyData              t.Fields of each row of a binary COPY FROM, in place
//
// All methods may be called on a nil Translation, which says that nothing
// differs and changes nothing. Every OID has four bytes, so no message changes its
// length. Nothing is allocated if nothing can change.
//
// Binary values of some types have OIDs inside, and these are translated: arrays,
// composites, anonymous records, ranges and domains over those, regclass and regtype.
// A value of type oid stays as it is, because it is not known what the OID is of. So
// do values in text, where regclass and regtype are names, and values of the other
// reg* types, whose objects belong to the server or are rarely asked for.
//
// An OID without a counterpart is an *UnknownOID. A malformed message is
// wire.ErrMalformed, and may have been changed in part.
//
// A Translation is immutable and safe for concurrent use.
type Translation struct {
	toHome, toShard direction
}

// NewTranslation compares a shard with the home shard. It returns nil if there is
// nothing to translate: the home shard has all types and relations of the shard,
// under the same OIDs.
func NewTranslation(home, shard *Types) *Translation {
	t := &Translation{
		toHome:  newDirection(shard),
		toShard: newDirection(home),
	}
	differ := false
	pair := func(h, s uint32) {
		t.toHome.types[s], t.toShard.types[h] = h, s
		differ = differ || h != s
	}
	for n, h := range home.names {
		s := shard.names[n]
		if s == nil || s.kind != h.kind {
			continue
		}
		pair(h.oid, s.oid)
		if h.array != 0 && s.array != 0 {
			pair(h.array, s.array)
		}
	}
	for n, h := range home.oids {
		if s, ok := shard.oids[n]; ok {
			t.toHome.relations[s], t.toShard.relations[h] = h, s
			differ = differ || h != s
		}
	}
	// A type or relation that only the shard has must not be taken for one of the
	// home shard's that happens to have the same OID.
	for oid := range shard.types {
		if _, ok := t.toHome.types[oid]; !ok {
			differ = true
		}
	}
	for oid := range shard.relations {
		if _, ok := t.toHome.relations[oid]; !ok {
			differ = true
		}
	}
	if !differ {
		return nil
	}
	t.toHome.findDeep()
	t.toShard.findDeep()
	return t
}

// UnknownOID is a type or relation that the other side does not have.
type UnknownOID struct {
	What string // type or relation
	Name Name   // empty if the OID is unknown on its own server too
	OID  uint32
}

func (e *UnknownOID) Error() string {
	if e.Name == (Name{}) {
		return fmt.Sprintf("%s with OID %d is not known", e.What, e.OID)
	}
	return fmt.Sprintf("%s %s (OID %d) has no counterpart on another shard", e.What, e.Name.quoted(), e.OID)
}

// direction translates from one server's OIDs to another's.
type direction struct {
	from      *Types
	types     map[uint32]uint32
	relations map[uint32]uint32
	// deep are the types of from whose binary values have OIDs inside that may have
	// to change.
	deep map[uint32]*typeShape
}

func newDirection(from *Types) direction {
	return direction{from: from, types: map[uint32]uint32{}, relations: map[uint32]uint32{}, deep: map[uint32]*typeShape{}}
}

// findDeep fills direction.deep, starting from the built-in types.
func (d *direction) findDeep() {
	for oid, s := range builtinShapes {
		d.deep[oid] = s
	}
	for changed := true; changed; {
		changed = false
		for oid, s := range d.from.types {
			if d.deep[oid] == nil && d.isDeep(s) {
				d.deep[oid], changed = s, true
			}
		}
	}
}

// isDeep reports whether a type belongs in direction.deep, given the types that are
// there already.
func (d *direction) isDeep(s *typeShape) bool {
	switch s.kind {
	case array:
		return d.differs(s.elem) || d.deep[s.elem] != nil
	case record:
		for _, f := range s.fields {
			if d.differs(f) || d.deep[f] != nil {
				return true
			}
		}
	case domain, rangeOf, multirange:
		return d.deep[s.elem] != nil
	}
	return false
}

// differs reports whether a type has another OID on the other side. A type without a
// counterpart differs too, so that its use becomes an *UnknownOID.
func (d *direction) differs(oid uint32) bool {
	if oid < firstOID {
		return false
	}
	to, ok := d.types[oid]
	return !ok || to != oid
}

// typ translates the OID of a type.
func (d *direction) typ(oid uint32) (uint32, error) {
	if oid < firstOID {
		return oid, nil
	}
	if to, ok := d.types[oid]; ok {
		return to, nil
	}
	e := &UnknownOID{What: "type", OID: oid}
	if s := d.from.types[oid]; s != nil {
		e.Name = s.name
	}
	return 0, e
}

// relation translates the OID of a relation.
func (d *direction) relation(oid uint32) (uint32, error) {
	if oid < firstOID {
		return oid, nil
	}
	if to, ok := d.relations[oid]; ok {
		return to, nil
	}
	return 0, &UnknownOID{What: "relation", Name: d.from.relations[oid], OID: oid}
}
