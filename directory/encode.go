package directory

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"weft/primary"
	"weft/vindex"
)

// format is the number of the encoding. It grows when a reader of the old format would misread the
// new one; a new field alone needs no new number, because unknown fields are refused.
//
//	1  one JSON document, without a placement
//	2  a head, and parts beside it
const format = 2

// chunks is how many parts the declared tables are spread over. All parts fit in one transaction
// of etcd (128 operations), and a change of one table among 10,000 writes only some kilobytes.
const chunks = 64

const placementPart = "placement"

// tablePart names the part that holds a table's declaration. The names sort as the chunks' numbers
// do.
func tablePart(t *Table) string { return fmt.Sprintf("tables-%02d", chunkOf(t)) }

// chunkOf is made from the FNV-1a hash of the three names, each ended by a zero.
func chunkOf(t *Table) int {
	h := uint32(2166136261)
	for _, s := range [...]string{t.Database, t.Schema, t.Name} {
		for i := range len(s) {
			h = (h ^ uint32(s[i])) * 16777619
		}
		h *= 16777619
	}
	return int(h % chunks)
}

// head is the part that is written with every change: it is small, and names all other parts.
type head struct {
	Format      int    `json:"format"`
	Cluster     string `json:"cluster"`
	BucketCount int    `json:"bucket_count"`
	// FirstBuckets is as in Snapshot.
	FirstBuckets int              `json:"first_buckets,omitempty"`
	Home         string           `json:"home"`
	Shards       []Shard          `json:"shards"`
	Pins         []Pin            `json:"pins,omitempty"`
	Schemas      map[string]int64 `json:"schemas,omitempty"`
	Sequences    map[string]int64 `json:"sequences,omitempty"`
	Vacated      map[string]int64 `json:"vacated,omitempty"`
	Gate         Gate             `json:"gate,omitempty"`
	// Durability and DurabilityEnforced are as in Snapshot.
	Durability         primary.Durability `json:"durability,omitempty"`
	DurabilityEnforced bool               `json:"durability_enforced,omitempty"`
	Halt               *Halt              `json:"halt,omitempty"`
	Pending            []Pending          `json:"pending,omitempty"`
	Moves              []Move             `json:"moves,omitempty"`
	Past               []PastMove         `json:"past,omitempty"`
	Remapped           map[string]int64   `json:"remapped,omitempty"`
	Functions          []Function         `json:"functions,omitempty"`
	Base               int64              `json:"base,omitempty"`
	// Isolated is as in Snapshot.
	Isolated map[string]map[vindex.ID]int `json:"isolated,omitempty"`
	// Parts are the sums of the parts by name. A part that is not listed does not belong to this
	// snapshot, even if the store still holds it.
	Parts map[string]string `json:"parts"`
}

// Encoded is the difference between a snapshot and the one that a store holds, in the store's
// form.
type Encoded struct {
	Head  []byte
	Parts map[string][]byte // parts to be written
	Gone  []string          // parts to be deleted

	from *Snapshot
	sums map[string]string
	same bool
}

// Encode returns what has to be written to turn old, which the store holds, into s. old may be
// nil. The Version is not encoded, because it is the store's revision.
func (s *Snapshot) Encode(old *Snapshot) (*Encoded, error) {
	e := &Encoded{Parts: map[string][]byte{}, from: s, sums: map[string]string{}}
	var before map[string]string
	if old != nil {
		before = old.sums
	}
	put := func(name string, encode func() ([]byte, error), same bool) error {
		if sum, ok := before[name]; ok && same {
			e.sums[name] = sum
			return nil
		}
		b, err := encode()
		if err != nil {
			return fmt.Errorf("encode snapshot: %s: %w", name, err)
		}
		e.sums[name] = sum(b)
		e.Parts[name] = b
		return nil
	}
	err := put(placementPart, func() ([]byte, error) { return encodePlacement(s.Placement) },
		old != nil && slices.Equal(old.Placement, s.Placement))
	if err != nil {
		return nil, err
	}
	for _, o := range s.otherPlacements() {
		before, known := old.otherPlacement(o.name)
		err := put(o.name, func() ([]byte, error) { return encodePlacement(o.buckets) }, known && slices.Equal(before, o.buckets))
		if err != nil {
			return nil, err
		}
	}
	var was [chunks][]*Table
	if old != nil {
		was = old.chunks()
	}
	for i, now := range s.chunks() {
		if len(now) == 0 {
			continue
		}
		err := put(tablePart(now[0]), func() ([]byte, error) { return encodeTables(now) }, slices.EqualFunc(was[i], now, (*Table).Equal))
		if err != nil {
			return nil, err
		}
	}
	for name := range before {
		if e.sums[name] == "" {
			e.Gone = append(e.Gone, name)
		}
	}
	slices.Sort(e.Gone)
	if e.Head, err = s.encodeHead(e.sums); err != nil {
		return nil, err
	}
	if old != nil && maps.Equal(before, e.sums) {
		h, err := old.encodeHead(before)
		e.same = err == nil && bytes.Equal(h, e.Head)
	}
	return e, nil
}

// Same reports whether there is nothing to write.
func (e *Encoded) Same() bool { return e.same }

// Stored returns the snapshot that the store holds once e was written at version.
func (e *Encoded) Stored(version int64) *Snapshot {
	s := e.from.Clone()
	s.Version, s.sums = version, e.sums
	return s
}

// chunks returns the tables of each chunk, in order.
func (s *Snapshot) chunks() (out [chunks][]*Table) {
	for i := range s.Tables {
		c := chunkOf(&s.Tables[i])
		out[c] = append(out[c], &s.Tables[i])
	}
	return out
}

func (s *Snapshot) encodeHead(sums map[string]string) ([]byte, error) {
	b, err := json.Marshal(head{
		Format: format, Cluster: s.Cluster, BucketCount: s.BucketCount, FirstBuckets: s.FirstBuckets, Home: s.Home, Shards: s.Shards, Pins: s.Pins,
		Schemas: s.Schemas, Sequences: s.Sequences, Vacated: s.Vacated, Gate: s.Gate, Durability: s.Durability, DurabilityEnforced: s.DurabilityEnforced, Halt: s.Halt, Pending: s.Pending, Moves: s.Moves, Past: s.Past, Functions: s.Functions, Base: s.Base, Isolated: s.Isolated, Remapped: s.Remapped, Parts: sums,
	})
	if err != nil {
		return nil, fmt.Errorf("encode snapshot: %w", err)
	}
	return b, nil
}

// sum is a checksum that tells parts apart. It guards against a store that lost a part, not
// against an attacker.
func sum(b []byte) string {
	h := fnv.New64a()
	_, _ = h.Write(b)
	return strconv.FormatUint(h.Sum64(), 16)
}

func encodePlacement(p []uint16) ([]byte, error) {
	raw := make([]byte, 0, 2*len(p))
	for _, i := range p {
		raw = binary.LittleEndian.AppendUint16(raw, i)
	}
	return deflate(raw)
}

// The names of parts that hold a placement beside the cluster's own begin with one of these. A
// key of Placements or Targets follows, in hexadecimal.
const (
	databasePart = "placement-of-"
	targetPart   = "placement-for-"
)

// otherPart is a placement beside the cluster's own, with the name of its part.
type otherPart struct {
	name    string
	buckets []uint16
}

// otherPlacements lists the placements beside the cluster's own.
func (s *Snapshot) otherPlacements() []otherPart {
	var out []otherPart
	for key, p := range s.Placements {
		out = append(out, otherPart{databasePart + hex.EncodeToString([]byte(key)), p})
	}
	for id, p := range s.Targets {
		out = append(out, otherPart{targetPart + hex.EncodeToString([]byte(id)), p})
	}
	return out
}

// otherPlacement returns the placement of a part, if s has it.
func (s *Snapshot) otherPlacement(part string) (p []uint16, ok bool) {
	if s == nil {
		return nil, false
	}
	from, key := s.Placements, ""
	if key, ok = strings.CutPrefix(part, databasePart); !ok {
		from, key = s.Targets, strings.TrimPrefix(part, targetPart)
	}
	raw, err := hex.DecodeString(key)
	if err != nil {
		return nil, false
	}
	p, ok = from[string(raw)]
	return p, ok
}

func encodeTables(ts []*Table) ([]byte, error) {
	raw, err := json.Marshal(ts)
	if err != nil {
		return nil, err
	}
	return deflate(raw)
}

func deflate(raw []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.DefaultCompression)
	if err != nil {
		return nil, err
	}
	if _, err = w.Write(raw); err == nil {
		err = w.Close()
	}
	return b.Bytes(), err
}

// maxPart bounds the decompressed size of a damaged part.
const maxPart = 256 << 20

func inflate(b []byte) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(b)), maxPart+1))
	if err == nil && len(raw) > maxPart {
		err = errors.New("too long")
	}
	return raw, err
}
