package directory

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ErrPart is wrapped by the error of Decode when Add has not been given a part that the head
// names, or was given another version of it.
var ErrPart = errors.New("a part is missing or damaged")

// Decoder turns what a store keeps into snapshots. It remembers the parts it has seen, so that
// reading a change costs as much as what has changed. A Decoder is not safe for concurrent use.
type Decoder struct {
	raw    map[string][]byte  // parts given to Add and not decoded yet
	parts  map[string]decoded // decoded parts by name
	newest *Snapshot          // the last snapshot that was decoded
}

// decoded is a decoded part.
type decoded struct {
	sum       string
	placement []uint16
	tables    []Table
}

// Add gives the decoder a part as the store holds it.
func (d *Decoder) Add(name string, value []byte) {
	if d.raw == nil {
		d.raw, d.parts = map[string][]byte{}, map[string]decoded{}
	}
	d.raw[name] = value
}

// Decode reads a head that Encode wrote and gives the snapshot the store's version. It returns
// only valid snapshots.
func (d *Decoder) Decode(b []byte, version int64) (*Snapshot, error) {
	s, err := d.decode(b)
	if err == nil {
		s.Version = version
		err = s.validate(d.newest)
	}
	if err != nil {
		return nil, fmt.Errorf("decode snapshot %d: %w", version, err)
	}
	d.newest = s
	return s, nil
}

func (d *Decoder) decode(b []byte) (*Snapshot, error) {
	var h head
	if err := json.Unmarshal(b, &struct{ Format *int }{&h.Format}); err != nil {
		return nil, err
	}
	switch h.Format {
	case 1:
		s := &Snapshot{}
		if err := strict(b, &struct {
			Format int `json:"format"`
			*Snapshot
		}{Snapshot: s}); err != nil {
			return nil, err
		}
		if len(s.Placement) == 0 {
			// A head without placement was written before buckets were placed, when no table could be declared:
			// any placement is right if all proxies compute the same.
			s.SetShards(s.Shards, s.Pins)
		}
		return s, nil
	case format:
	default:
		return nil, fmt.Errorf("it has format %d, this weft reads formats 1 to %d: use the weft version that wrote it", h.Format, format)
	}
	if err := strict(b, &h); err != nil {
		return nil, err
	}
	s := &Snapshot{
		Cluster: h.Cluster, BucketCount: h.BucketCount, FirstBuckets: h.FirstBuckets, Home: h.Home, Shards: h.Shards, Pins: h.Pins,
		Schemas: h.Schemas, Sequences: h.Sequences, Vacated: h.Vacated, Gate: h.Gate, Durability: h.Durability, DurabilityEnforced: h.DurabilityEnforced, Halt: h.Halt, Pending: h.Pending, Moves: h.Moves, Past: h.Past, Functions: h.Functions, Base: h.Base, Isolated: h.Isolated, Remapped: h.Remapped, sums: h.Parts,
	}
	return s, d.fill(s)
}

// strict refuses fields that this binary does not know.
func strict(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("was it written by a newer weft? %w", err)
	}
	return nil
}

// fill puts the parts that s names into s.
func (d *Decoder) fill(s *Snapshot) error {
	var tables int
	same := d.newest != nil && d.newest.tableParts() == s.tableParts()
	for _, name := range slices.Sorted(maps.Keys(s.sums)) {
		p, err := d.part(name, s.sums[name])
		if err != nil {
			return err
		}
		if p.placement != nil {
			if err := s.place(name, p.placement); err != nil {
				return err
			}
			continue
		}
		tables += len(p.tables)
		same = same && d.newest.sums[name] == p.sum
	}
	if same { // the common case: most changes are of the head only
		s.Tables = d.newest.Tables
		return nil
	}
	s.Tables = make([]Table, 0, tables)
	for name := range s.sums {
		s.Tables = append(s.Tables, d.parts[name].tables...)
	}
	slices.SortFunc(s.Tables, func(a, b Table) int { return a.compare(b.Database, b.Schema, b.Name) })
	return nil
}

// tableParts counts the parts that hold declared tables.
func (s *Snapshot) tableParts() int {
	n := 0
	for name := range s.sums {
		if strings.HasPrefix(name, "tables-") {
			n++
		}
	}
	return n
}

// place puts a placement where the name of its part says.
func (s *Snapshot) place(part string, p []uint16) error {
	if part == placementPart {
		s.Placement = p
		return nil
	}
	into, key, ok := &s.Placements, "", false
	if key, ok = strings.CutPrefix(part, databasePart); !ok {
		into, key = &s.Targets, strings.TrimPrefix(part, targetPart)
	}
	raw, err := hex.DecodeString(key)
	if err != nil {
		return fmt.Errorf("%s: %w", part, err)
	}
	if *into == nil {
		*into = map[string][]uint16{}
	}
	(*into)[string(raw)] = p
	return nil
}

func (d *Decoder) part(name, want string) (decoded, error) {
	if p, ok := d.parts[name]; ok && p.sum == want {
		return p, nil
	}
	b, ok := d.raw[name]
	if !ok || sum(b) != want {
		return decoded{}, fmt.Errorf("%s: %w", name, ErrPart)
	}
	p := decoded{sum: want}
	raw, err := inflate(b)
	switch {
	case err != nil:
	case strings.HasPrefix(name, placementPart) && len(raw)%2 != 0:
		err = errors.New("half a number at its end")
	case name == placementPart, strings.HasPrefix(name, databasePart), strings.HasPrefix(name, targetPart):
		p.placement = make([]uint16, len(raw)/2)
		for i := range p.placement {
			p.placement[i] = binary.LittleEndian.Uint16(raw[2*i:])
		}
	case strings.HasPrefix(name, "tables-"):
		err = strict(raw, &p.tables)
	default:
		err = errors.New("this weft does not know such a part: was it written by a newer one?")
	}
	if err != nil {
		return p, fmt.Errorf("%s: %w", name, err)
	}
	delete(d.raw, name)
	d.parts[name] = p
	return p, nil
}
