package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"weft/directory"
)

// Format is the version of the manifests that this package writes.
const Format = 1

// Snapshot is the Kind of a manifest for copies of disks, which were made while weft backup hold has held the locks.
const Snapshot = "snapshot"

// Manifest says where a point is in the WAL of each shard, and what the directory was.
type Manifest struct {
	Format int `json:"format"`
	// Kind is empty for a point in the log of each shard, and Snapshot for copies of disks.
	Kind string `json:"kind,omitempty"`
	Name string `json:"name"`
	// Target is the name that PostgreSQL knows the point by: recovery_target_name.
	Target  string `json:"target"`
	Cluster string `json:"cluster"`
	Home    string `json:"home"`
	// Strict says that the commits of all shards were held while the point was made.
	Strict bool `json:"strict,omitempty"`
	// Number orders states of the directory, see directory.Snapshot.Number.
	Number int64 `json:"number"`
	// Marks are in the order of the shards.
	Marks []Mark `json:"marks"`
	// Directory is a directory.Copy.
	Directory string `json:"directory"`
	// Held is for how long commits were held. It is known to the maker only.
	Held time.Duration `json:"-"`
	// Sum is the SHA-256 of the manifest without Sum.
	Sum string `json:"sum"`
}

// Mark is a point in the WAL of one shard.
type Mark struct {
	Shard  string `json:"shard"`
	System string `json:"system"` // pg_control_system().system_identifier
	Server string `json:"server"` // version of PostgreSQL
	LSN    string `json:"lsn"`
	File   string `json:"file"` // WAL file that has the point; its first eight digits are the timeline
	At     string `json:"at"`   // the server's clock
	// Archives says whether the server archives its WAL.
	Archives bool `json:"archives"`
}

// Timeline returns the timeline of the point.
func (m *Mark) Timeline() string {
	if len(m.File) < 8 {
		return ""
	}
	return m.File[:8]
}

// seal computes the sum.
func (m *Manifest) seal() { m.Sum = m.sum() }

func (m *Manifest) sum() string {
	c := *m
	c.Sum = ""
	b, err := json.Marshal(&c)
	if err != nil {
		return "" // strings and numbers always have a form
	}
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// CopyID is the id of the cluster that is restored from the manifest as a copy of a name. It is always the same, so that an attempt that failed can be
// made again.
func (m *Manifest) CopyID(name string) string {
	s := sha256.Sum256([]byte(m.Cluster + "\x00" + m.Sum + "\x00" + name))
	return hex.EncodeToString(s[:8])
}

// Encode returns the text of the manifest.
func (m *Manifest) Encode() ([]byte, error) {
	b, err := json.MarshalIndent(m, "", "  ")
	return append(b, '\n'), err
}

// Decode reads what Encode wrote, and refuses any other text.
func Decode(text []byte) (*Manifest, error) {
	var m Manifest
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&m); err != nil {
		return nil, fmt.Errorf("this is no manifest of a backup point: %w", err)
	}
	if m.Format != Format {
		return nil, fmt.Errorf("the manifest has format %d, and this version of weft reads format %d", m.Format, Format)
	}
	if m.Sum != m.sum() {
		return nil, errors.New("the manifest was damaged or changed: its sum does not fit")
	}
	c, err := directory.DecodeCopy(m.Directory)
	if err != nil {
		return nil, fmt.Errorf("the directory in the manifest: %w", err)
	}
	if len(c.Snapshot.Shards) != len(m.Marks) {
		return nil, fmt.Errorf("the manifest has %d shards and points for %d", len(c.Snapshot.Shards), len(m.Marks))
	}
	for i := range m.Marks {
		if c.Snapshot.Shards[i].Name != m.Marks[i].Shard {
			return nil, fmt.Errorf("the manifest has no point for shard %s", c.Snapshot.Shards[i].Name)
		}
	}
	return &m, nil
}

// Mark returns the point of a shard.
func (m *Manifest) Mark(shard string) (Mark, bool) {
	for _, k := range m.Marks {
		if k.Shard == shard {
			return k, true
		}
	}
	return Mark{}, false
}
