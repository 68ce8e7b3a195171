package executor

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"weft/datum"
	"weft/directory"
	"weft/heat/queue"
	"weft/heat/throttle"
	"weft/pgerr"
	"weft/plan"
	"weft/vindex"
)

const (
	// maxKeys bounds how many values of a column are held at a time, and maxRows how many
	// combinations of the values of several columns are tried. Beyond these bounds the values
	// restrict nothing. A list of values for the only key column of a table is not held and has
	// no bound.
	maxKeys = 10_000
	maxRows = 100_000

	// maxBuckets bounds how many buckets of ranges one Bind looks at before it takes all shards.
	maxBuckets = 1 << 20

	// maxKeep bounds the buffers kept between executions, because sessions are many.
	maxKeep = 16 << 10
)

// Binder finds shards. It keeps buffers from one execution to the next. The zero value is ready
// for use, by one goroutine at a time.
type Binder struct {
	plan *plan.Plan
	snap *directory.Snapshot
	args *Args
	bits int // of a bucket's number

	shards  collection
	missing []Missing
	spelled []byte         // memory of spell
	buckets int            // buckets of ranges looked at so far
	last    int            // what routed ids of the row placed last name
	every   bool           // an instance may be on all shards that have rows of its table
	policy  *plan.Instance // the first instance that was placed by its Policy

	// Noting makes Bind and BindPiece note the buckets that they go by: see Touched.
	Noting  bool
	touched []int
	used    used
	limited throttle.Set // the limits that concern the execution
	hot     *queue.Hot   // the first hot key of the execution

	buf     []byte         // values of literals
	offsets []int          // offsets of parameters in Params
	columns [][]datum.Key  // values of each key column
	row     []datum.Key    // one combination of the key columns' values
	at      []int          // index in columns of each value of row
	ranges  []vindex.Range // ranges of one combination
	apart   []int          // buckets of isolated rows in one range
	request []byte         // buffer for the key of a lookup
}

// Bind returns the shards that one execution of a plan visits: all shards that by the placement
// of snap hold rows which the execution could read or write. The result is valid until the next
// Bind.
//
// An error is for the client: the plan's refusal, or that a row has no place.
func (b *Binder) Bind(p *plan.Plan, snap *directory.Snapshot, a *Args) (Shards, error) {
	b.reset(p, snap, a)
	defer b.release()
	switch p.Route {
	case plan.Refused:
		return Shards{}, p.Refusal
	case plan.Keyed:
		for i := range p.Instances {
			if err := b.instance(&p.Instances[i]); err != nil {
				return Shards{}, err
			}
		}
	case plan.Every:
		b.shards.addAll()
	}
	free := b.shards.count == 0
	if free {
		b.shards.add(b.home())
		free = p.Route != plan.Home && p.Route != plan.Call && p.Route != plan.Program
	}
	c := &b.shards
	s := Shards{first: c.first, count: c.count, any: free, Missing: distinct(b.missing)}
	if c.count > 1 {
		s.set = c.set
	}
	return s, nil
}

// BindPiece returns the shards that a piece of a gathered query visits: every shard that may
// hold a row of the piece's tables, and at least one shard. The result is valid until the next
// Bind.
func (b *Binder) BindPiece(p *plan.Plan, piece *plan.Piece, snap *directory.Snapshot, a *Args) (Shards, error) {
	b.reset(p, snap, a)
	defer b.release()
	if piece.Where == plan.OnShards {
		for i := range piece.Instances {
			if err := b.instance(&piece.Instances[i]); err != nil {
				return Shards{}, err
			}
		}
	}
	free := b.shards.count == 0
	if free {
		b.shards.add(b.home())
	}
	c := &b.shards
	s := Shards{first: c.first, count: c.count, any: free && piece.Where != plan.OnHome}
	if c.count > 1 {
		s.set = c.set
	}
	return s, nil
}

// reset prepares the binder for one execution.
func (b *Binder) reset(p *plan.Plan, snap *directory.Snapshot, a *Args) {
	b.plan, b.snap, b.args = p, snap, a
	b.bits = bits.Len(uint(snap.BucketCount)) - 1
	b.shards.reset(snap)
	b.missing, b.buckets, b.touched, b.every, b.used.count, b.limited, b.hot, b.policy = nil, 0, b.touched[:0], false, 0, 0, nil, nil
	if cap(b.touched) > maxKeep/8 {
		b.touched = nil
	}
	b.buf, b.offsets = b.buf[:0], b.offsets[:0]
}

// release drops references to the caller's values, and large buffers.
func (b *Binder) release() {
	b.plan, b.snap, b.args = nil, nil, nil
	if cap(b.buf) > maxKeep {
		b.buf = nil
	}
	if cap(b.offsets) > maxKeep/8 {
		b.offsets = nil
	}
	if cap(b.ranges) > maxKeep/16 {
		b.ranges = nil
	}
	clear(b.row)
	for i, keys := range b.columns {
		if clear(keys); cap(keys) > maxKeep/64 {
			b.columns[i] = nil
		}
	}
}

// home returns the index of the home shard.
func (b *Binder) home() int {
	return slices.IndexFunc(b.snap.Shards, func(s directory.Shard) bool { return s.Name == b.snap.Home })
}

// instance adds the shards of one appearance of a table.
func (b *Binder) instance(in *plan.Instance) error {
	columns := in.Table.Vindex.Columns()
	if in.Policy != nil {
		if done, err := b.policed(in, columns[0].Column); done || err != nil {
			return err
		}
	}
	if in.Lookup != nil {
		if done, err := b.found(in); done || err != nil {
			return err
		}
	}
	if len(in.IDs) > 0 && open(in) {
		if done, err := b.routed(in); done || err != nil {
			return err
		}
	}
	if len(in.Bounds) > 0 {
		return b.between(in, columns[0].Column)
	}
	if len(columns) == 1 && len(in.Keys) == 1 && len(in.Keys[0]) == 1 {
		return b.stream(in, columns[0].Column, in.Keys[0][0])
	}
	for len(b.columns) < len(columns) {
		b.columns = append(b.columns, nil)
	}
	known := 0 // number of leading columns with known values
	for i := range columns {
		if i >= len(in.Keys) || len(in.Keys[i]) == 0 {
			continue
		}
		keys, ok := b.column(b.columns[i][:0], in, columns[i].Column, in.Keys[i])
		b.columns[i] = keys
		switch {
		case ok && len(keys) == 0:
			return nil // no row satisfies the conditions
		case ok && known == i:
			known++
		}
	}
	if known < len(columns) {
		if _, ok := in.Table.Vindex.(vindex.Lookup); ok {
			known = 0 // a lookup has no entries for a part of a key
		}
	}
	return b.product(in, b.columns[:b.bounded(known)])
}

// between adds the shards of a table whose key has bounds. A bound that only the server knows
// restricts nothing.
func (b *Binder) between(in *plan.Instance, c datum.Column) error {
	v, ok := in.Table.Vindex.(vindex.Ordered)
	if !ok {
		b.everyShard(in)
		return nil
	}
	var low, high datum.Key // NULL means no bound
	for i := range in.Bounds {
		bound := &in.Bounds[i]
		w := b.walk(in, c, plan.Set{bound.Source})
		key, state := w.next()
		switch {
		case state != found || key.IsNull():
		case bound.Low && (low.IsNull() || key.Compare(low) > 0):
			low = key
		case !bound.Low && (high.IsNull() || key.Compare(high) < 0):
			high = key
		}
	}
	if low.IsNull() && high.IsNull() {
		b.everyShard(in)
		return nil
	}
	b.ranges = v.Between(b.ranges[:0], low, high)
	return b.addRanges(in, b.ranges)
}

// bounded returns how many of the known leading columns can be combined within maxRows.
func (b *Binder) bounded(known int) int {
	rows := 1
	for i := range known {
		if rows *= len(b.columns[i]); rows > maxRows {
			return i
		}
	}
	return known
}

// stream adds the shards of a set of values of the only key column, without
// holding the values.
func (b *Binder) stream(in *plan.Instance, c datum.Column, set plan.Set) error {
	if cap(b.row) < 1 {
		b.row = make([]datum.Key, 1, 4)
	}
	b.row = b.row[:1]
	for w := b.walk(in, c, set); ; {
		key, state := w.next()
		switch state {
		case none:
			return nil
		case unknown:
			b.everyShard(in)
			return nil
		}
		b.row[0] = key
		if err := b.place(in, b.row); err != nil {
			return err
		}
	}
}

// column appends to dst the values that are in all of a column's sets. It reports false if the
// sets do not restrict the column.
func (b *Binder) column(dst []datum.Key, in *plan.Instance, c datum.Column, sets []plan.Set) ([]datum.Key, bool) {
	restricted := false
	for _, set := range sets {
		start := len(dst)
		keys, ok := b.keys(dst, in, c, set)
		switch {
		case !ok:
			dst = keys[:start]
		case !restricted:
			dst, restricted = keys, true
		default:
			dst = intersect(keys[:start], keys[start:])
		}
	}
	return dst, restricted
}

// keys appends the values of one set to dst. It reports false if a value is not known, or if
// there are more than maxKeys.
func (b *Binder) keys(dst []datum.Key, in *plan.Instance, c datum.Column, set plan.Set) ([]datum.Key, bool) {
	start := len(dst)
	for w := b.walk(in, c, set); ; {
		key, state := w.next()
		switch {
		case state == none:
			return dst, true
		case state == unknown || len(dst)-start == maxKeys:
			return dst, false
		}
		dst = append(dst, key)
	}
}

// intersect removes from a what is not in b. If that is too much work it returns a unchanged,
// which may add shards but never omits one.
func intersect(a, b []datum.Key) []datum.Key {
	if len(a)*len(b) > maxRows {
		return a
	}
	return slices.DeleteFunc(a, func(k datum.Key) bool {
		return !slices.ContainsFunc(b, func(o datum.Key) bool { return k.Compare(o) == 0 })
	})
}

// product adds the shards of all combinations of the leading columns' values.
func (b *Binder) product(in *plan.Instance, columns [][]datum.Key) error {
	b.row, b.at = b.row[:0], b.at[:0]
	for _, keys := range columns {
		b.row, b.at = append(b.row, keys[0]), append(b.at, 0)
	}
	for {
		if err := b.place(in, b.row); err != nil {
			return err
		}
		i := len(columns) - 1
		for ; i >= 0; i-- {
			if b.at[i]++; b.at[i] < len(columns[i]) {
				b.row[i] = columns[i][b.at[i]]
				break
			}
			b.at[i], b.row[i] = 0, columns[i][0]
		}
		if i < 0 {
			return nil
		}
	}
}

// place adds the shards of the rows whose leading key columns have keys.
func (b *Binder) place(in *plan.Instance, keys []datum.Key) error {
	if len(keys) == 0 {
		b.everyShard(in)
		return nil
	}
	if l, ok := in.Table.Vindex.(vindex.Lookup); ok {
		return b.lookup(in, l, keys)
	}
	v, ok := in.Table.Vindex.(vindex.Computed)
	if !ok {
		return fmt.Errorf("vindex %s of %s.%s can neither be computed nor looked up", in.Table.Vindex.Kind(), in.Table.Schema, in.Table.Name)
	}
	if len(keys) == len(v.Columns()) {
		id, err := v.ID(keys)
		if err != nil {
			return b.noPlace(in, err)
		}
		bucket := b.snap.BucketOf(id)
		err = b.bucket(in, bucket)
		if in.Table.IDs != nil {
			b.last = id.Bucket(in.Table.IDs.Bits)
		}
		b.use(in, bucket, vindex.Named(v, id, keys), keys)
		return err
	}
	var err error
	if b.ranges, err = v.Ranges(b.ranges[:0], keys); err != nil {
		return b.noPlace(in, err)
	}
	return b.addRanges(in, b.ranges)
}

// addRanges adds the shards of runs of keyspace IDs.
func (b *Binder) addRanges(in *plan.Instance, ranges []vindex.Range) error {
	for _, r := range ranges {
		if err := b.isolated(in, r); err != nil {
			return err
		}
		first, last := r.Buckets(b.bits)
		for i := first; i <= last && !b.shards.full(); i++ {
			if b.buckets++; b.buckets > maxBuckets {
				b.everyShard(in)
				return nil
			}
			if err := b.bucket(in, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// isolated adds the shards of isolated rows whose keyspace IDs are in a range.
func (b *Binder) isolated(in *plan.Instance, r vindex.Range) error {
	b.apart = b.snap.AppendIsolated(b.apart[:0], r)
	for _, bucket := range b.apart {
		if err := b.bucket(in, bucket); err != nil {
			return err
		}
	}
	return nil
}

// noPlace turns vindex.ErrNoPlace into the result for the instance: no shard for a row that is
// looked for, an error for a row to be stored.
func (b *Binder) noPlace(in *plan.Instance, err error) error {
	if !errors.Is(err, vindex.ErrNoPlace) {
		return fmt.Errorf("place a row of %s.%s: %w", in.Table.Schema, in.Table.Name, err)
	}
	if !in.Stored {
		return nil
	}
	columns := ""
	for i, c := range in.Table.Vindex.Columns() {
		if i > 0 {
			columns += ", "
		}
		columns += c.Name
	}
	return pgerr.New(pgerr.CheckViolation, "new row for table %q has no place: no shard is declared for its key (%s)", in.Table.Name, columns).
		WithDetail("The %s vindex of the table says: %s.", in.Table.Vindex.Kind(), err).
		WithHint("Declare a zone for the value, or one that takes all other values.").WithCause(err)
}

// lookup adds the shard of a key by the table's lookup. For a stored row whose key has no entry
// yet, lookup notes the missing entry.
func (b *Binder) lookup(in *plan.Instance, l vindex.Lookup, keys []datum.Key) error {
	r, err := l.Request(keys, b.request)
	if err != nil {
		return fmt.Errorf("look up a key of %s.%s: %w", in.Table.Schema, in.Table.Name, err)
	}
	if r.Key != nil {
		b.request = r.Key
		if bucket, ok := b.snap.Entry(in.Table.Lookup, r.Key, r.Default); ok {
			if bucket < 0 {
				return pgerr.New(pgerr.InternalError, "an entry of lookup %q points to a bucket that does not exist, in version %d of the directory",
					in.Table.Lookup, b.snap.Version).WithDetail("The rows of table %q with that key cannot be found.", in.Table.Name)
			}
			b.use(in, bucket, hash(r.Key), keys)
			return b.bucket(in, bucket)
		}
		if in.Stored {
			b.missing = append(b.missing, Missing{in.Table.Lookup, bytes.Clone(r.Key), r.Default})
		}
	}
	// A stored row always has an entry, and an entry that another proxy makes meanwhile gets this
	// same default bucket.
	bucket := r.Default.Bucket(b.bits)
	b.use(in, bucket, hash(r.Key), keys)
	return b.bucket(in, bucket)
}

// everyShard adds all shards that may have rows of an instance: all there are, or those that have buckets of the
// table's group.
func (b *Binder) everyShard(in *plan.Instance) {
	if b.every = true; in.Table.Group == "" {
		b.shards.addAll()
		return
	}
	for _, at := range directory.PlacesIn(b.snap).Of(in.Table.Group) {
		if int(at) < len(b.snap.Shards) {
			b.shards.add(int(at))
		}
	}
}

// bucket adds the shard of a bucket.
func (b *Binder) bucket(in *plan.Instance, bucket int) error {
	placement := b.snap.Placement
	if in.Table.Group != "" {
		placement = directory.PlacesIn(b.snap).Of(in.Table.Group)
	}
	if uint(bucket) >= uint(len(placement)) || int(placement[bucket]) >= len(b.snap.Shards) {
		return pgerr.New(pgerr.InternalError, "bucket %d of table %q has no shard in version %d of the directory", bucket, in.Table.Name, b.snap.Version)
	}
	b.shards.add(int(placement[bucket]))
	if b.Noting && (len(b.touched) == 0 || b.touched[len(b.touched)-1] != bucket) {
		b.touched = append(b.touched, bucket)
	}
	if b.args != nil && b.args.Limits != nil {
		b.limited |= b.args.Limits.Bucket(b.args.Database, bucket, b.snap.BucketCount)
	}
	return nil
}

// Touched returns the buckets that the last Bind or BindPiece went by, if Noting was set. all says
// that every bucket may be visited. The result is valid until the next Bind.
func (b *Binder) Touched() (buckets []int, all bool) {
	if b.every || b.shards.full() {
		return nil, true // Bind looks no further once it has all shards
	}
	return b.touched, false
}

func distinct(missing []Missing) []Missing {
	if len(missing) < 2 {
		return missing
	}
	order := func(x, y Missing) int {
		return cmp.Or(cmp.Compare(x.Lookup, y.Lookup), bytes.Compare(x.Key, y.Key))
	}
	slices.SortFunc(missing, order)
	return slices.CompactFunc(missing, func(x, y Missing) bool { return order(x, y) == 0 })
}
