package directory

import (
	"context"
	"errors"
	"time"
)

// MaxPoints is how many backup points are kept.
const MaxPoints = 100

// MaxManifest is how many bytes of a manifest are kept beside its point. A longer manifest is in its file only.
const MaxManifest = 1 << 20

// ErrPointUnderWay says that another process makes a backup point, or holds commits for one.
var ErrPointUnderWay = errors.New("a backup point is being made already")

// Points is a Store that remembers backup points.
type Points interface {
	// Reserve makes the caller the only one who makes points. owner is told to others that try, within an error that wraps ErrPointUnderWay. The
	// reservation ends with release, when held's context ends, or soon after the caller's process has died. held ends when the reservation is lost.
	Reserve(ctx context.Context, owner string) (held context.Context, release func(), err error)

	// EndReservation ends the reservation whose owner begins with a text, and returns the owner; "" if there is none. The process that has it learns of
	// that within seconds.
	EndReservation(ctx context.Context, owner string) (string, error)

	// NotePoint stores a point in place of one of the same name, and its manifest if that is not nil. The newest MaxPoints are kept.
	NotePoint(ctx context.Context, p Point, manifest []byte) error

	// Points lists what is stored, the oldest first.
	Points(ctx context.Context) ([]Point, error)

	// PointManifest returns the manifest of a point, nil if none is stored.
	PointManifest(ctx context.Context, name string) ([]byte, error)
}

// Point is a backup point as the directory knows it.
type Point struct {
	Name string `json:"name"`
	// Target is the name that PostgreSQL knows the point by.
	Target string    `json:"target"`
	At     time.Time `json:"at"`
	// Took is how long the point took, and Waited for how long commits over several shards were held, or all commits of a strict point.
	Took   time.Duration `json:"took"`
	Waited time.Duration `json:"waited"`
	Strict bool          `json:"strict,omitempty"`
	// Every is how far apart points are made, 0 if that is not known.
	Every time.Duration `json:"every,omitempty"`
	// Size is that of the manifest in bytes, and Kept says whether the store has the manifest.
	Size int  `json:"size"`
	Kept bool `json:"kept,omitempty"`
	// Archived says that every shard has archived its part.
	Archived bool        `json:"archived,omitempty"`
	Marks    []PointMark `json:"marks"`
}

// PointMark is where a point is in the log of one shard.
type PointMark struct {
	Shard string `json:"shard"`
	LSN   string `json:"lsn"`
	File  string `json:"file"`
	// Archives says whether the server archives its log.
	Archives bool `json:"archives"`
}
