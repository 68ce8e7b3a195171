package directory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weft/primary"
)

// Copy is what shards keep of the directory, so that it can be rebuilt when the store is lost:
// everything that says where rows are, but nothing that only running proxies need.
type Copy struct {
	Snapshot *Snapshot     `json:"snapshot"`
	Pinned   []PinnedValue `json:"pinned,omitempty"`
}

// PinnedValue is a lookup's value with a bucket of its own. All other values are where their hash
// says, with or without an entry.
type PinnedValue struct {
	Lookup string `json:"lookup"`
	Key    []byte `json:"key"`
	Bucket int    `json:"bucket"` // as Numbering has it
}

// Number orders copies: it grows with every change, even through a rebuilt store, whose versions
// start again.
func (s *Snapshot) Number() int64 { return s.Base + s.Version }

// EncodeCopy returns the copy of s that a shard keeps. The result changes only with the
// declarations, the shards or the placement.
func (s *Snapshot) EncodeCopy() (string, error) {
	c := *s
	c.Schemas, c.Sequences, c.Vacated, c.Pending = nil, nil, nil, nil
	c.Moves, c.Targets, c.Remapped, c.Past = nil, nil, nil, nil // a job is begun again
	c.Halt = nil                                                // it is over by then
	c.Base = 0                                                  // Number includes it
	c.Shards = slices.Clone(s.Shards)
	for i := range c.Shards {
		c.Shards[i].Primary = "" // a hint to what runs now
	}
	out := Copy{Snapshot: &c}
	if s.Entries != nil {
		out.Pinned = s.Entries.pinned(NumberingOf(s).First)
	}
	b, err := json.Marshal(out)
	return string(b), err
}

// Confined returns s with only the declarations of one database.
func (s *Snapshot) Confined(database string) *Snapshot {
	c := *s
	c.Tables = s.Declared(database)
	c.Functions = slices.DeleteFunc(slices.Clone(s.Functions), func(f Function) bool { return f.Database != database })
	return &c
}

// DecodeCopy reads what EncodeCopy wrote, and refuses any other text.
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

// Revive returns the snapshot that a new store begins with. number is the number of the copy.
// Every proxy then reads its schemas again, and draws new values of sequences.
func (c *Copy) Revive(number int64) *Snapshot {
	s := c.Snapshot.Clone()
	s.Base = number
	for i := range s.Shards {
		s.Shards[i].Drain, s.Shards[i].Fence, s.Shards[i].Ruling = nil, 0, primary.Ruling{}
	}
	s.Schemas, s.Sequences = map[string]int64{}, map[string]int64{}
	for i := range s.Tables {
		// Larger than any old count, because there is less than one change per second.
		s.Schemas[s.Tables[i].Database] = time.Now().Unix()
		s.Sequences[s.Tables[i].Database] = time.Now().Unix()
	}
	return s
}

// pinned returns the entries with buckets of their own, in order. first is how many buckets the cluster
// was created with.
func (e *Entries) pinned(first int) []PinnedValue {
	var out []PinnedValue
	for name, set := range *e.sets.Load() {
		for i := range set.slots {
			if m := set.slots[i].Load(); m != nil {
				for key, v := range *m {
					if int(v.bucket) >= first {
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
