package directory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Copy is what shards keep of the directory, so that it can be rebuilt when the store is
// lost: all that says where rows are. What only running proxies need is not in it.
type Copy struct {
	Snapshot *Snapshot     `json:"snapshot"`
	Pinned   []PinnedValue `json:"pinned,omitempty"`
}

// PinnedValue is a lookup's value with a bucket of its own. All other values are where
// their hash says, with or without an entry.
type PinnedValue struct {
	Lookup string `json:"lookup"`
	Key    []byte `json:"key"`
	Bucket int    `json:"bucket"`
}

// Number orders copies: it grows with every change, also through a rebuilt store, whose
// own versions begin anew.
func (s *Snapshot) Number() int64 { return s.Base + s.Version }

// EncodeCopy returns what a shard keeps of s. It is the same as long as the declarations,
// the shards and the placement are.
func (s *Snapshot) EncodeCopy() (string, error) {
	c := *s
	c.Schemas, c.Sequences, c.Vacated, c.Pending = nil, nil, nil, nil
	c.Base = 0 // it is in the number
	out := Copy{Snapshot: &c}
	if s.Entries != nil {
		out.Pinned = s.Entries.pinned(s.BucketCount)
	}
	b, err := json.Marshal(out)
	return string(b), err
}

// Confined returns s with the declarations of one database alone.
func (s *Snapshot) Confined(database string) *Snapshot {
	c := *s
	c.Tables = s.Declared(database)
	c.Functions = slices.DeleteFunc(slices.Clone(s.Functions), func(f Function) bool { return f.Database != database })
	return &c
}

// DecodeCopy reads what EncodeCopy wrote, and refuses what it does not understand.
func DecodeCopy(text string) (*Copy, error) {
	var c Copy
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return nil, fmt.Errorf("read a copy of the directory: %w", err)
	}
	if c.Snapshot == nil {
		return nil, errors.New("read a copy of the directory: it is empty")
	}
	return &c, c.Snapshot.Validate()
}

// Revive returns the snapshot that a new store begins with. number is that of the copy.
// Every proxy reads its schemas anew, and draws values of sequences anew.
func (c *Copy) Revive(number int64) *Snapshot {
	s := c.Snapshot.Clone()
	s.Base = number
	s.Schemas, s.Sequences = map[string]int64{}, map[string]int64{}
	for i := range s.Tables {
		// Counts are of changes, of which nobody makes one each second for years.
		s.Schemas[s.Tables[i].Database] = time.Now().Unix()
		s.Sequences[s.Tables[i].Database] = time.Now().Unix()
	}
	return s
}

// pinned returns the entries with buckets of their own, in order.
func (e *Entries) pinned(bucketCount int) []PinnedValue {
	var out []PinnedValue
	for name, set := range *e.sets.Load() {
		for i := range set.slots {
			if m := set.slots[i].Load(); m != nil {
				for key, v := range *m {
					if int(v.bucket) >= bucketCount {
						out = append(out, PinnedValue{name, []byte(key), int(v.bucket)})
					}
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b PinnedValue) int {
		if c := strings.Compare(a.Lookup, b.Lookup); c != 0 {
			return c
		}
		return bytes.Compare(a.Key, b.Key)
	})
	return out
}
