package schema

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"sync"
	"time"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/quote"
	"weft/twopc"
)

// Rows change shards in one transaction of their old and their new shards: DELETE … RETURNING on
// the one becomes COPY … FROM on the other, and the decision row that commits any transaction of
// several shards commits both. So MVCC hides what is not there yet and what is gone already, and
// nothing has to be cleaned up.

// carryLockTimeout is how long a round waits for a lock before it gives way.
const carryLockTimeout = 100 * time.Millisecond

// MoveApplication is the application_name of the backends of a job.
func MoveApplication(job string) string { return "weft move " + job }

// Carriage carries the rows of one round. Its methods are called in their order: OpenCarriage,
// Carry, Prepare, Commit, Follow; or Rollback at any time before Commit.
type Carriage struct {
	// Name names the transaction; its key is that of the decision.
	Name twopc.Name
	// Rows is how many rows have been carried.
	Rows int64
	// Bytes is how many bytes they had as text.
	Bytes int64

	m        *Mover
	ctx      context.Context
	snap     *directory.Snapshot
	move     directory.Move
	pairs    []directory.Pair
	ends     map[string]*session // by shard
	owns     map[string]*Own     // by shard
	tables   []*carried
	prepared []string // shards that have prepared
}

// carried is a table whose rows are carried.
type carried struct {
	name    catalog.Name
	columns []string // quoted; without those that a shard computes itself
	bucket  string   // expression for the bucket of a row r
	indexed string   // the expression of bucket as an index has it, "" if it cannot be indexed
	super   bool     // the owner is a superuser, whose code may run with a superuser's rights
	hand    *hand    // carries the rows with the owner's rights; nil if the round itself may
}

// OpenCarriage opens the transactions of a round on its shards, locks the tables against DDL and
// enters the decision. No statement of a client is held yet.
func (m *Mover) OpenCarriage(ctx context.Context, snap *directory.Snapshot, move directory.Move, pairs []directory.Pair) (_ *Carriage, err error) {
	c := &Carriage{
		m: m, ctx: ctx, snap: snap.For(move.Database), move: move, pairs: pairs, ends: map[string]*session{}, owns: map[string]*Own{},
		Name: twopc.Name{Cluster: snap.Cluster, Incarnation: m.cfg.Proxy, Nonce: twopc.NewNonce(), Decider: pairs[0].To},
	}
	defer func() {
		if err != nil {
			c.Rollback()
		}
	}()
	for _, p := range pairs {
		for _, shard := range []string{p.From, p.To} {
			if err := c.dial(shard); err != nil {
				return nil, err
			}
		}
	}
	if err = c.unpledged(); err != nil {
		return nil, err
	}
	if c.Name.Timeline, err = c.ends[c.Name.Decider].timeline(); err != nil {
		return nil, err
	}
	if c.tables, err = m.carriedTables(c.ctx, c.ends[pairs[0].From], c.snap, &move); err != nil {
		return nil, err
	}
	for _, shard := range c.shards() {
		if err := c.begin(c.ends[shard]); err != nil {
			return nil, err
		}
	}
	return c, c.decide()
}

// shards lists the participants in the order of the snapshot, which keeps two rounds from
// waiting for each other.
func (c *Carriage) shards() []string {
	var out []string
	for i := range c.snap.Shards {
		if name := c.snap.Shards[i].Name; c.ends[name] != nil {
			out = append(out, name)
		}
	}
	return out
}

// dial opens a session that carries rows. Foreign keys and the triggers of users keep silent: the
// rows of a key travel together, and nothing happens to them.
func (c *Carriage) dial(shard string) error {
	if c.ends[shard] != nil {
		return nil
	}
	s, err := open(c.ctx, c.m.cfg.Shards, shard, c.move.Database, c.m.cfg.Service, MoveApplication(c.move.ID))
	if err != nil {
		return err
	}
	c.ends[shard] = s
	if c.owns[shard], err = install(s, c.move.Database, c.m.cfg.Service); err != nil {
		return err
	}
	return s.run("SET session_replication_role = replica")
}

// begin opens the transaction of a participant.
func (c *Carriage) begin(s *session) error {
	if err := s.run("BEGIN", fmt.Sprintf("SET LOCAL lock_timeout = %d", carryLockTimeout.Milliseconds())); err != nil {
		return err
	}
	for _, t := range c.tables {
		if err := s.run("LOCK TABLE " + t.name.SQL() + " IN ROW EXCLUSIVE MODE"); err != nil {
			return err
		}
	}
	return c.entrust(s)
}

// decide enters the decision in the transaction of the deciding shard.
func (c *Carriage) decide() error {
	d := twopc.Decision{Key: c.Name.Key(), Announced: true}
	for _, shard := range c.shards() {
		if shard == c.Name.Decider {
			continue
		}
		rows, err := c.ends[shard].Exec(twopc.OriginSQL)
		if err != nil {
			return c.ends[shard].explain(err)
		}
		if len(rows) == 0 {
			return fmt.Errorf("shard %s gave no answer", shard)
		}
		o := twopc.ReadOrigin(rows[0])
		d.Members = append(d.Members, twopc.Member{Shard: shard, Server: o.Server, Replicated: o.Replicates})
	}
	decider := c.ends[c.Name.Decider]
	_, err := decider.ExecOne(twopc.DecideSQL, d.Parameters(c.owns[c.Name.Decider].Key)...)
	return decider.explain(err)
}

// unpledged returns an error if a client has prepared a transaction on a giving shard and leaves it so. It may have written rows of the round, which would
// wait for it in vain and hold statements meanwhile.
func (c *Carriage) unpledged() error {
	for _, p := range c.pairs {
		rows, err := c.ends[p.From].Exec("SELECT gid FROM pg_catalog.pg_prepared_xacts WHERE database = pg_catalog.current_database() AND prepared < pg_catalog.clock_timestamp() - interval '1 s' ORDER BY prepared")
		if err != nil {
			return err
		}
		for _, r := range rows {
			if n, ours := twopc.ParseName(r[0]); ours {
				if _, pledged := n.Pledge(); !pledged {
					continue // ends by itself
				}
			}
			return pgerr.New(pgerr.ObjectInUse, "a client has prepared transaction %s on shard %s and not ended it", quote.Literal(r[0]), p.From).
				WithHint("COMMIT PREPARED or ROLLBACK PREPARED: weft.transactions and pg_prepared_xacts list what clients have prepared.")
		}
	}
	return nil
}

// AwaitPrepared waits until the transactions that are prepared on the giving shards now have
// ended: one of them may have written rows of the round, and its session may be gone.
func (c *Carriage) AwaitPrepared() error {
	const find = "SELECT gid FROM pg_catalog.pg_prepared_xacts WHERE database = pg_catalog.current_database()"
	left := map[string][]string{}
	for _, p := range c.pairs {
		rows, err := c.ends[p.From].Exec(find)
		if err != nil {
			return err
		}
		left[p.From] = nil
		for _, r := range rows {
			left[p.From] = append(left[p.From], r[0])
		}
	}
	for shard, gids := range left {
		for len(gids) > 0 {
			rows, err := c.ends[shard].Exec(find)
			if err != nil {
				return err
			}
			gids = slices.DeleteFunc(gids, func(gid string) bool {
				return !slices.ContainsFunc(rows, func(r []string) bool { return r[0] == gid })
			})
			if len(gids) == 0 {
				break
			}
			select {
			case <-time.After(2 * time.Millisecond):
			case <-c.ctx.Done():
				return fmt.Errorf("transaction %s is prepared on shard %s: %w", quote.Literal(gids[0]), shard, context.Cause(c.ctx))
			}
		}
	}
	return nil
}

// Carry takes the rows from their old shards to their new ones. All pairs work at once.
func (c *Carriage) Carry() error {
	var group sync.WaitGroup
	done := make([]freight, len(c.pairs))
	errs := make([]error, len(c.pairs))
	for i := range c.pairs {
		group.Go(func() {
			defer pgerr.Recovered(&errs[i])
			done[i], errs[i] = c.carryPair(i)
		})
	}
	group.Wait()
	for _, f := range done {
		c.Rows += f.rows
		c.Bytes += f.bytes
	}
	return errors.Join(errs...)
}

// freight is how much was carried.
type freight struct{ rows, bytes int64 }

// carryPair takes the rows of one pair of shards.
func (c *Carriage) carryPair(pair int) (total freight, err error) {
	p := &c.pairs[pair]
	from, to := c.ends[p.From], c.ends[p.To]
	path := false
	for i, t := range c.tables {
		if t.super != path {
			change := emptyPath
			if path = t.super; path {
				change = func(s *session) error { return setPath(s, "current_user") }
			}
			if err := errors.Join(change(from), change(to)); err != nil {
				return total, err
			}
		}
		n, err := c.carryTable(pair, i)
		if err != nil {
			return total, fmt.Errorf("carry %s from %s to %s: %w", t.name.SQL(), p.From, p.To, err)
		}
		total.rows += n.rows
		total.bytes += n.bytes
	}
	if path {
		if err := errors.Join(emptyPath(from), emptyPath(to)); err != nil {
			return total, err
		}
	}
	for _, s := range []*session{from, to} {
		// Entries of lookups hold keyspace IDs, which rows keep: there is nothing to follow.
		if err := s.run("DO $$ BEGIN IF pg_catalog.to_regclass('weft.change') IS NOT NULL THEN DELETE FROM weft.change WHERE tx = pg_catalog.pg_current_xact_id(); END IF; END $$"); err != nil {
			return total, err
		}
	}
	return total, nil
}

// hash is the expression for the hash of a row r.
func (t *carried) hash() string {
	columns := make([]string, len(t.columns))
	for i, c := range t.columns {
		columns[i] = "r." + c
	}
	return "pg_catalog.hashtextextended(ROW(" + strings.Join(columns, ", ") + ")::text, 0)"
}

// compare compares the rows that the taking shard has in the buckets of a pair with those that
// came out of the giving one.
func (t *carried) compare(to *session, p *directory.Pair, s *splitter) error {
	rows, err := to.Exec("SELECT count(*), coalesce(sum(" + t.hash() + "), 0) FROM " + t.name.SQL() + " AS r WHERE " + inBuckets(t.bucket, p.Buckets))
	if err != nil {
		return err
	}
	sum, ok := new(big.Int).SetString(rows[0][1], 10)
	if !ok {
		return fmt.Errorf("the sum of hashes %q is no number", rows[0][1])
	}
	sum.And(sum, new(big.Int).SetUint64(math.MaxUint64)) // as two's complement, as the other sum is
	if number(rows[0][0]) != s.rows || sum.Uint64() != s.sum {
		return pgerr.New(pgerr.DataCorrupted, "the %d rows of %s that left %s are not the %s rows that %s has of their buckets", s.rows, display(t.name), p.From, rows[0][0], p.To).
			WithHint("SELECT * FROM weft.verify_placement(%s) finds rows that are where they should not be.", quote.Literal(t.name.SQL()))
	}
	return nil
}

// carryTable takes the rows of one table.
func (c *Carriage) carryTable(pair, table int) (freight, error) {
	p, t := &c.pairs[pair], c.tables[table]
	if t.hand != nil {
		return c.byHand(pair, table)
	}
	columns := strings.Join(t.columns, ", ")
	s := &splitter{all: true, progress: func(int64) {}, hashed: c.move.Options.Verify == directory.VerifyRows}
	returning := columns
	if s.hashed {
		returning += ", " + t.hash()
	}
	took, err := copyRows(c.ends[p.From], c.takeSQL(p, t, returning), []*session{c.ends[p.To]}, t.name.SQL()+" ("+columns+")", s)
	if err != nil {
		return freight{}, err
	}
	if took[p.To] != s.rows {
		return freight{}, fmt.Errorf("%d rows left and %d came", s.rows, took[p.To])
	}
	if s.hashed {
		if err := t.compare(c.ends[p.To], p, s); err != nil {
			return freight{}, err
		}
	}
	return freight{s.rows, s.bytes}, nil
}

// takeSQL takes the rows of a pair out of a table.
func (c *Carriage) takeSQL(p *directory.Pair, t *carried, returning string) string {
	return "DELETE FROM " + t.name.SQL() + " AS r WHERE " + c.leaving(p.From, t.bucket) + " AND " + inBuckets(t.bucket, p.Buckets) + " RETURNING " + returning
}

// leaving is the condition of the index that PrepareMove makes on a giving shard: the row's bucket
// is on another shard by the job's target. The planner uses the index if a query repeats it word
// for word.
func (c *Carriage) leaving(shard, bucket string) string {
	return leavingSQL(c.snap, c.snap.Targets[c.move.ID], shard, bucket)
}

// leavingSQL is the condition that a row's bucket is on another shard than the given one, by a
// placement.
func leavingSQL(snap *directory.Snapshot, target []uint16, shard, bucket string) string {
	mask := make([]byte, (len(target)+7)/8)
	for b, i := range target {
		if int(i) < len(snap.Shards) && snap.Shards[i].Name != shard {
			mask[b/8] |= 1 << (b % 8) // get_bit counts from the least significant bit
		}
	}
	return fmt.Sprintf(`get_bit('\x%x'::bytea, %s) = 1`, mask, bucket)
}

// inBuckets is the condition that a row is in one of some buckets.
func inBuckets(bucket string, list []int) string {
	texts := make([]string, len(list))
	for i, b := range list {
		texts[i] = fmt.Sprint(b)
	}
	return bucket + " = ANY ('{" + strings.Join(texts, ",") + "}'::int[])"
}

// Prepare makes every participant but the deciding one promise to commit. All go through the gate
// before any prepares, so that readers of several shards see all of the round or nothing.
func (c *Carriage) Prepare() error {
	for _, s := range c.ends {
		if err := c.dropHands(s); err != nil {
			return err
		}
	}
	if c.snap.Gate != directory.GateOff {
		for _, shard := range c.shards() {
			if err := c.ends[shard].run("LOCK TABLE ONLY weft_gate.gate IN ROW EXCLUSIVE MODE"); err != nil {
				return err
			}
		}
	}
	for _, shard := range c.shards() {
		if shard == c.Name.Decider {
			continue
		}
		c.prepared = append(c.prepared, shard) // perhaps, also after an error
		if err := c.ends[shard].run("PREPARE TRANSACTION " + quote.Literal(string(c.Name.Append(nil, shard)))); err != nil {
			return err
		}
	}
	return nil
}

// Commit commits on the deciding shard: the rows have moved. An error says that the outcome is not
// known, unless it is one of the server's own.
func (c *Carriage) Commit() error {
	return c.ends[c.Name.Decider].run("COMMIT")
}

// Follow commits on the other participants. Those that do not answer are left to the resolver.
func (c *Carriage) Follow() error {
	var errs []error
	for _, shard := range c.prepared {
		errs = append(errs, c.ends[shard].run("COMMIT PREPARED "+quote.Literal(string(c.Name.Append(nil, shard)))))
	}
	return errors.Join(errs...)
}

// rollbackTimeout bounds how long Rollback tries to reach a shard that has prepared.
const rollbackTimeout = 3 * time.Second

// Rollback undoes the round on all participants, and closes its connections. A round is mostly
// rolled back because its context has ended, which ends its connections, too: what is prepared is
// rolled back over new ones. What cannot be rolled back now, the resolver rolls back: the decision
// is not there.
func (c *Carriage) Rollback() {
	c.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), rollbackTimeout)
	defer cancel()
	var group sync.WaitGroup
	errs := make([]error, len(c.prepared))
	for i, shard := range c.prepared {
		group.Go(func() {
			defer pgerr.Recovered(&errs[i])
			errs[i] = c.rollbackOn(ctx, shard)
		})
	}
	group.Wait()
	for _, err := range errs {
		pgerr.Raise(err)
	}
}

// rollbackOn rolls back what a shard has prepared.
func (c *Carriage) rollbackOn(ctx context.Context, shard string) error {
	s, err := open(ctx, c.m.cfg.Shards, shard, c.move.Database, c.m.cfg.Service, MoveApplication(c.move.ID))
	if err != nil {
		return err
	}
	defer s.close()
	return s.run("ROLLBACK PREPARED " + quote.Literal(string(c.Name.Append(nil, shard))))
}

// Close closes the connections. Open transactions are rolled back. It may be called again.
func (c *Carriage) Close() {
	for shard, s := range c.ends {
		delete(c.ends, shard)
		s.close()
	}
}

// carriedTables lists the tables of a job, with their columns and the expression of a row's bucket.
func (m *Mover) carriedTables(ctx context.Context, s *session, snap *directory.Snapshot, move *directory.Move) ([]*carried, error) {
	var out []*carried
	for _, t := range snap.Declared(move.Database) {
		if t.Kind != directory.Sharded || t.Group != move.Group {
			continue
		}
		c := &carried{name: catalog.Name{Schema: t.Schema, Name: t.Name}}
		if err := m.bucketSQL(ctx, snap, &t, c); err != nil {
			return nil, err
		}
		if err := c.readColumns(s); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if move.Group != "" {
		return out, nil
	}
	return m.carriedLookups(s, snap, out)
}

// carriedLookups adds the lookup tables that weft keeps: an entry is on the shard of its value.
func (m *Mover) carriedLookups(s *session, snap *directory.Snapshot, out []*carried) ([]*carried, error) {
	found, err := s.one("SELECT to_regclass('weft.lookup')")
	if err != nil || found == "" {
		return out, err
	}
	rows, err := s.Exec("SELECT name, bucket_sql, state FROM weft.lookup ORDER BY name")
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		if r[2] != "public" {
			return nil, fmt.Errorf("lookup %s is being made or dropped", r[0]) // its entries go where the placement of the beginning says
		}
		c := &carried{name: catalog.Name{Schema: "weft", Name: r[0]}, bucket: "(" + r[1] + ")::int"}
		if n := directory.NumberingOf(snap).Noted(1); n > 1 {
			c.bucket = fmt.Sprintf("((%s) * %d)::int", r[1], n)
		}
		c.indexed = c.bucket
		if err := c.readColumns(s); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// readColumns reads the columns that travel.
func (c *carried) readColumns(s *session) error {
	rows, err := s.Exec("SELECT quote_ident(attname) FROM pg_catalog.pg_attribute WHERE attrelid = to_regclass(" + quote.Literal(c.name.SQL()) +
		") AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum")
	if err != nil {
		return err
	}
	for _, r := range rows {
		c.columns = append(c.columns, r[0])
	}
	if len(c.columns) == 0 {
		return fmt.Errorf("table %s is not on shard %s", c.name.SQL(), s.shard)
	}
	return nil
}
