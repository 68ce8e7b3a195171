package directory

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// format is the number of the encoding. It grows when a reader of the old
// format would misread the new one; a mere new field needs no new number,
// because unknown fields are refused.
const format = 1

type encoded struct {
	Format int `json:"format"`
	*Snapshot
}

// Encode returns s as the store keeps it. The Version is not part of it: the
// store's revision is.
func (s *Snapshot) Encode() ([]byte, error) {
	b, err := json.Marshal(encoded{format, s})
	if err != nil {
		return nil, fmt.Errorf("encode snapshot: %w", err)
	}
	return b, nil
}

// Decode reads what Encode wrote and gives it the store's version. It returns
// only valid snapshots.
func Decode(b []byte, version int64) (*Snapshot, error) {
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, fmt.Errorf("decode snapshot %d: %w", version, err)
	}
	if head.Format != format {
		return nil, fmt.Errorf("decode snapshot %d: it has format %d, this weft reads format %d: use the weft version that wrote it",
			version, head.Format, format)
	}
	e := encoded{Snapshot: &Snapshot{}}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return nil, fmt.Errorf("decode snapshot %d: was it written by a newer weft? %w", version, err)
	}
	e.Snapshot.Version = version
	if len(e.Snapshot.Placement) == 0 {
		// Written before buckets were placed, so no table was declared then:
		// any placement is right as long as all agree on it.
		e.Snapshot.SetShards(e.Snapshot.Shards, e.Snapshot.Pins)
	}
	if err := e.Snapshot.Validate(); err != nil {
		return nil, fmt.Errorf("decode snapshot %d: %w", version, err)
	}
	return e.Snapshot, nil
}
