package schema

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weft/catalog"
	"weft/datum"
	"weft/directory"
	"weft/pgerr"
	"weft/quote"
	"weft/vindex"
)

// maxStrays bounds how many keys of misplaced rows are reported for a shard.
const maxStrays = 5

// Placement is what VerifyPlacement found about one table.
type Placement struct {
	Table           catalog.Name
	Rows, Misplaced int64
	// Examples are the keys of some misplaced rows, with the shard that has them and the shard they
	// belong on.
	Examples []string
}

// VerifyPlacement counts the rows of a sharded table that are not on the shard that their key
// names. Without a table it looks at all sharded tables of the database. Other sessions may read
// and write meanwhile, and jobs may carry rows to other shards: the count is that of one moment.
func (m *Mover) VerifyPlacement(ctx context.Context, req Request) ([]Placement, error) {
	snap, err := m.load(ctx, req.Database)
	if err != nil {
		return nil, err
	}
	v := &placementCheck{Mover: m, ctx: ctx, snap: snap}
	defer v.close()
	if err := v.dial(&req); err != nil {
		return nil, m.ended(ctx, err)
	}
	if err := v.begin(req.Database); err != nil {
		return nil, m.ended(ctx, err)
	}
	snap = v.snap
	var tables []directory.Table
	for _, t := range snap.Declared(req.Database) {
		if t.Kind == directory.Sharded && t.State == directory.Active && (req.Table.Name == "" || req.Table == (catalog.Name{Schema: t.Schema, Name: t.Name})) {
			tables = append(tables, t)
		}
	}
	if len(tables) == 0 && req.Table.Name != "" {
		return nil, pgerr.New(pgerr.ObjectNotInPrerequisiteState, "%q is not a sharded table", req.name()).
			WithHint("SELECT weft.verify_reference(%s) compares the copies of a reference table.", quote.Literal(req.name()))
	}
	var out []Placement
	for i := range tables {
		p, err := v.table(&tables[i])
		if err != nil {
			return nil, m.ended(ctx, err)
		}
		out = append(out, *p)
	}
	return out, nil
}

// placementCheck looks at the rows of all shards.
type placementCheck struct {
	*Mover
	ctx    context.Context
	snap   *directory.Snapshot
	shards []*session
}

func (v *placementCheck) dial(req *Request) error {
	for i := range v.snap.Shards {
		s, err := open(v.ctx, v.cfg.Shards, v.snap.Shards[i].Name, req.Database, req.User, "weft")
		if err != nil {
			return err
		}
		v.shards = append(v.shards, s)
	}
	return nil
}

// begin takes a snapshot on every shard, and the placement of that moment. Rows change shards only
// after a round in the directory has come to its last phase: so if there is none before the first
// snapshot is taken, and the directory is the same after the last, all snapshots see the rows where
// the placement says.
func (v *placementCheck) begin(database string) error {
	for {
		before, err := v.load(v.ctx, database)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(before.Moves, func(m directory.Move) bool {
			return m.Database == database && m.Round != nil && m.Round.Phase != directory.HoldWrites
		}) {
			for _, s := range v.shards {
				if err := s.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "SELECT"); err != nil {
					return err
				}
			}
			after, err := v.load(v.ctx, database)
			if err != nil {
				return err
			}
			if after.Version == before.Version || len(before.Moves) == 0 && len(after.Moves) == 0 && directory.PlacesIn(before).Same(after) {
				v.snap = before
				return nil
			}
			for _, s := range v.shards {
				if err := s.run("ROLLBACK"); err != nil {
					return err
				}
			}
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-v.ctx.Done():
			return context.Cause(v.ctx)
		}
	}
}

func (v *placementCheck) close() {
	for _, s := range v.shards {
		s.close()
	}
}

// table looks at one table.
func (v *placementCheck) table(t *directory.Table) (*Placement, error) {
	out := &Placement{Table: catalog.Name{Schema: t.Schema, Name: t.Name}}
	vx, err := t.NewVindex(v.snap.BucketCount)
	if err != nil {
		return nil, err
	}
	for _, s := range v.shards {
		switch vx := vx.(type) {
		case vindex.Computed:
			err = v.computed(out, t, vx, s)
		case vindex.Lookup:
			err = v.entered(out, t, vx, s)
		default:
			err = fmt.Errorf("vindex %s can place no rows", vx.Kind())
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// columns returns the key columns, qualified by r.
func (v *placementCheck) columns(t *directory.Table) []string {
	var out []string
	for _, c := range t.Columns {
		out = append(out, "r."+quote.Ident(c.Name))
	}
	return out
}

// computed lets the shard itself compute where its rows belong.
func (v *placementCheck) computed(out *Placement, t *directory.Table, vx vindex.Computed, s *session) error {
	columns := v.columns(t)
	bucket, err := v.snap.BucketSQL(vx, columns)
	if err != nil {
		return err
	}
	mask := make([]byte, (len(v.snap.Placement)+7)/8)
	for b := range v.snap.Placement {
		if v.shardOf(t, b) == s.shard {
			mask[b/8] |= 1 << (b % 8) // get_bit counts from the least significant bit
		}
	}
	// A key without a place has no bucket.
	here := fmt.Sprintf(`coalesce(get_bit('\x%x'::bytea, (%s)::int) = 1, false)`, mask, bucket)
	from := " FROM " + out.Table.SQL() + " r"
	rows, err := s.Exec("SELECT count(*), count(*) FILTER (WHERE NOT " + here + ")" + from)
	if err != nil {
		return err
	}
	strays := number(rows[0][1])
	out.Rows += number(rows[0][0])
	out.Misplaced += strays
	if strays == 0 {
		return nil
	}
	rows, err = s.Exec(fmt.Sprintf("SELECT DISTINCT (%s)::int, %s%s WHERE NOT %s ORDER BY 2 LIMIT %d", bucket, keyText(columns), from, here, maxStrays))
	if err != nil {
		return err
	}
	for _, r := range rows {
		belongs := "nowhere"
		if r[0] != "" {
			belongs = "on " + v.shardOf(t, int(number(r[0])))
		}
		out.Examples = append(out.Examples, stray(t, r[1], s.shard, belongs))
	}
	return nil
}

// entered asks the directory where the values of a lookup vindex belong.
func (v *placementCheck) entered(out *Placement, t *directory.Table, vx vindex.Lookup, s *session) error {
	if v.cfg.Entries == nil {
		return errors.New("lookups are not kept here")
	}
	column := v.columns(t)[0]
	err := s.run("DECLARE keys NO SCROLL CURSOR FOR SELECT " + column + " IS NULL, " + column + "::text, count(*), " + keyText([]string{column}) +
		" FROM " + out.Table.SQL() + " r GROUP BY " + column)
	if err != nil {
		return err
	}
	for {
		rows, err := s.Exec(fmt.Sprintf("FETCH %d FROM keys", entryBatch))
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return s.run("CLOSE keys")
		}
		places, err := v.places(t, vx, rows)
		if err != nil {
			return err
		}
		for i, r := range rows {
			n, at := number(r[2]), v.shardOf(t, places[i])
			out.Rows += n
			if at == s.shard {
				continue
			}
			out.Misplaced += n
			if len(out.Examples) < maxStrays*len(v.shards) {
				out.Examples = append(out.Examples, stray(t, r[3], s.shard, "on "+at))
			}
		}
	}
}

// places returns the buckets of values. A value is whether it is NULL, and its text.
func (v *placementCheck) places(t *directory.Table, vx vindex.Lookup, rows [][]string) ([]int, error) {
	out := make([]int, len(rows))
	var at []int
	var defaults []vindex.ID
	var keys [][]byte
	for i, r := range rows {
		value := datum.Literal([]byte(r[1]))
		if r[0] == "t" {
			value = datum.Value{}
		}
		k, err := vx.Columns()[0].Store(value)
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", r[1], err)
		}
		q, err := vx.Request([]datum.Key{k}, nil)
		if err != nil {
			return nil, err
		}
		out[i] = v.snap.TopBucket(q.Default)
		if q.Key != nil {
			at, keys, defaults = append(at, i), append(keys, q.Key), append(defaults, q.Default)
		}
	}
	if len(keys) == 0 {
		return out, nil
	}
	// Every row has an entry already, so Ensure makes none here.
	buckets, err := v.cfg.Entries.Ensure(v.ctx, directory.NumberingOf(v.snap), t.Vindex.Name, keys, defaults)
	if err != nil {
		return nil, err
	}
	for i, b := range buckets {
		out[at[i]] = b
		if b >= len(v.snap.Placement) { // a value was pinned meanwhile
			was := v.snap.BucketCount
			if v.snap, err = v.load(v.ctx, t.Database); err != nil {
				return nil, err
			}
			if v.snap.BucketCount != was {
				return v.places(t, vx, rows)
			}
		}
	}
	return out, nil
}

// shardOf returns the shard that has a bucket of a table, or "" if no shard has it.
func (v *placementCheck) shardOf(t *directory.Table, bucket int) string {
	placement := directory.PlacesIn(v.snap).Of(t.Group)
	if bucket < 0 || bucket >= len(placement) || int(placement[bucket]) >= len(v.snap.Shards) {
		return ""
	}
	return v.snap.Shards[placement[bucket]].Name
}

// keyText returns the expression that shows a key to people.
func keyText(columns []string) string {
	texts := make([]string, len(columns))
	for i, c := range columns {
		texts[i] = "coalesce(" + c + "::text, 'NULL')"
	}
	return strings.Join(texts, " || ', ' || ")
}

// stray words one misplaced key.
func stray(t *directory.Table, key, at, belongs string) string {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	return fmt.Sprintf("(%s)=(%s) is on %s and belongs %s", strings.Join(names, ", "), key, at, belongs)
}

// PlacementRows returns the findings as rows for the client.
func PlacementRows(list []Placement) [][]string {
	var out [][]string
	for _, p := range list {
		slices.Sort(p.Examples)
		out = append(out, []string{display(p.Table), fmt.Sprint(p.Rows), fmt.Sprint(p.Misplaced), strings.Join(p.Examples, "; ")})
	}
	return out
}
