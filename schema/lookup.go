package schema

import (
	"context"
	"fmt"
	"strings"

	"weft/datum"
	"weft/directory"
	"weft/pgerr"
	"weft/quote"
	"weft/vindex"
)

// Entries keeps the buckets of the values of lookup vindexes. *directory.Current is one.
type Entries interface {
	// Ensure returns the buckets of values, in their order. A value without an entry gets an entry
	// with the bucket of its default keyspace ID.
	// The buckets have the numbers of n.
	Ensure(ctx context.Context, n directory.Numbering, lookup string, keys [][]byte, defaults []vindex.ID) ([]int, error)
	// Pin gives a value a bucket of its own on a shard, and reports whether it did: false if the
	// value has an entry already.
	Pin(ctx context.Context, lookup string, key []byte, shard string) (bool, error)
	// Pinned returns the values that have a bucket of their own, as of a snapshot or a later one. The
	// buckets have the numbers of the snapshot.
	Pinned(ctx context.Context, lookup string, as *directory.Snapshot) (map[string]int, error)
	// Repin gives a value that has an entry a bucket of its own, together with a change of the
	// directory. change gets the value's own bucket, -1 if it has none yet.
	Repin(ctx context.Context, lookup string, key []byte, change func(old *directory.Snapshot, bucket int) (*directory.Snapshot, int, error)) error
}

// forgetEntries deletes the entries of a lookup that no table uses any more. Entries that stay
// because the directory fails do no harm: a table declared by that name would make the same ones,
// except for pins.
func (m *Mover) forgetEntries(ctx context.Context, t *directory.Table) {
	d, ok := m.cfg.Directory.(interface {
		DropEntries(ctx context.Context, lookup string) error
	})
	if !ok || !t.Vindex.Lookup() {
		return
	}
	snap, err := m.cfg.Directory.Load(ctx)
	if err == nil && !snap.HasLookup(t.Vindex.Name) {
		err = d.DropEntries(ctx, t.Vindex.Name)
	}
	if err != nil {
		m.cfg.Log.Warn("entries of a lookup are left that no table uses", "lookup", t.Vindex.Name, "err", err)
	}
}

// noDirectoryHint tells how lookups can be kept.
const noDirectoryHint = "Entries of lookups are in the directory: use a proxy that has one (etcd in weft.yaml), or another vindex."

// lookupSQL makes entries for all values that the table holds, and returns the expression for a
// row's bucket: the default, except for values that have another bucket.
func (d *declaration) lookupSQL(v vindex.Lookup, columns []string) (string, error) {
	if d.cfg.Entries == nil {
		return "", pgerr.New(pgerr.FeatureNotSupported, "lookups are not kept here").WithHint("%s", noDirectoryHint)
	}
	w := &entryWriter{ctx: d.ctx, entries: d.cfg.Entries, numbers: directory.NumberingOf(d.snap), lookup: d.seen.verdict.table.Vindex.Name, vindex: v}
	if err := w.read(d.home, d.req.Table.SQL(), columns[0]); err != nil {
		return "", err
	}
	// A value may have been pinned since the last look: its bucket is a new one.
	var err error
	if d.snap, err = d.load(d.ctx, d.req.Database); err != nil {
		return "", err
	}
	return w.bucketSQL(columns, d.snap.BucketCount)
}

// entryWriter receives the values of a COPY TO and makes their entries.
type entryWriter struct {
	ctx     context.Context
	entries Entries
	lookup  string
	vindex  vindex.Lookup
	numbers directory.Numbering

	texts     []string
	keys      [][]byte
	defaults  []vindex.ID
	elsewhere []string // rows of VALUES, at most one for each pinned value
}

// entryBatch is how many values are looked up at once.
const entryBatch = 256

// read makes entries for the values of a column.
func (w *entryWriter) read(s *session, table, column string) error {
	query := "COPY (SELECT DISTINCT " + column + "::text FROM " + table + " WHERE " + column + " IS NOT NULL) TO STDOUT"
	if err := s.explain(s.CopyOut(query, w)); err != nil {
		return err
	}
	return w.flush()
}

// bucketSQL is the expression for a row's bucket: the default, except for the values that have
// another bucket.
func (w *entryWriter) bucketSQL(columns []string, buckets int) (string, error) {
	hash, err := vindex.New(vindex.Declaration{Kind: "hash", Columns: w.vindex.Columns(), Buckets: buckets})
	if err != nil {
		return "", err
	}
	base, err := vindex.BucketSQL(hash.(vindex.Computed), columns, buckets)
	if err != nil || len(w.elsewhere) == 0 {
		return base, err
	}
	return fmt.Sprintf("coalesce((SELECT x.b FROM (VALUES %s) AS x(v, b) WHERE x.v = %s::text), %s)", strings.Join(w.elsewhere, ", "), columns[0], base), nil
}

func (w *entryWriter) Write(row []byte) (int, error) {
	text := unescape(strings.TrimSuffix(string(row), "\n"))
	k, err := w.vindex.Columns()[0].Store(datum.Literal([]byte(text)))
	if err != nil {
		return 0, fmt.Errorf("key %q: %w", text, err)
	}
	r, err := w.vindex.Request([]datum.Key{k}, nil)
	if err != nil {
		return 0, err
	}
	w.texts = append(w.texts, text)
	w.keys = append(w.keys, r.Key)
	w.defaults = append(w.defaults, r.Default)
	if len(w.keys) == entryBatch {
		return len(row), w.flush()
	}
	return len(row), nil
}

func (w *entryWriter) flush() error {
	if len(w.keys) == 0 {
		return nil
	}
	buckets, err := w.entries.Ensure(w.ctx, w.numbers, w.lookup, w.keys, w.defaults)
	if err != nil {
		return err
	}
	for i, b := range buckets {
		if b != w.numbers.Bucket(w.numbers.Default(w.defaults[i]), w.defaults[i]) {
			w.elsewhere = append(w.elsewhere, fmt.Sprintf("(%s, %d::int8)", quote.Literal(w.texts[i]), b))
		}
	}
	w.texts, w.keys, w.defaults = w.texts[:0], nil, w.defaults[:0]
	return nil
}

// unescape reads one value of COPY's text format.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t", `\r`, "\r", `\b`, "\b", `\f`, "\f", `\v`, "\v").Replace(s)
}
