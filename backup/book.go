package backup

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"weft/directory"
)

// Book makes points, one at a time in the whole cluster, and enters them in the directory.
type Book struct {
	Maker  Maker
	Points directory.Points
	// Owner is told to others who want to make a point meanwhile.
	Owner string
	// Every is how far apart points are made, 0 if that is not known.
	Every time.Duration
}

// ErrTaken says that there is a point of a name already.
var ErrTaken = errors.New("there is a point of this name already")

// Make makes a point and enters it. What has begun is undone if Make fails, and a point that could not be entered does not count.
func (b *Book) Make(ctx context.Context, name string) (*Manifest, error) {
	began := time.Now()
	held, release, err := b.Points.Reserve(ctx, b.Owner)
	if err != nil {
		return nil, err
	}
	defer release()
	list, err := b.Points.Points(held)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(list, func(p directory.Point) bool { return p.Name == name }) {
		return nil, fmt.Errorf("%q: %w", name, ErrTaken)
	}
	made, err := b.Maker.Make(held, name)
	if err != nil {
		return nil, err
	}
	text, err := made.Encode()
	if err != nil {
		return nil, err
	}
	packed, err := pack(text)
	if err != nil {
		return nil, err
	}
	p := directory.Point{
		Name: name, Target: made.Target, At: time.Now().UTC(), Took: time.Since(began), Waited: made.Held, Strict: made.Strict, Every: b.Every, Size: len(text),
	}
	for _, k := range made.Marks {
		p.Marks = append(p.Marks, directory.PointMark{Shard: k.Shard, LSN: k.LSN, File: k.File, Archives: k.Archives})
	}
	return made, b.Points.NotePoint(held, p, packed)
}

// ErrNoPoint says that the directory knows no point of a name.
var ErrNoPoint = errors.New("the directory has no such point")

// Find returns the manifest of a point that a directory keeps.
func Find(ctx context.Context, points directory.Points, name string) (*Manifest, error) {
	packed, err := points.PointManifest(ctx, name)
	if err != nil {
		return nil, err
	}
	if packed == nil {
		return nil, fmt.Errorf("%q: %w, or not its manifest: weft backup list shows what it has; give the file of the manifest instead", name, ErrNoPoint)
	}
	text, err := unpack(packed)
	if err != nil {
		return nil, fmt.Errorf("the manifest of point %s: %w", name, err)
	}
	return Decode(text)
}

// pack makes a manifest short.
func pack(text []byte) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(text)
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// maxUnpacked bounds what a damaged manifest may become.
const maxUnpacked = 256 << 20

func unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, maxUnpacked))
}
