package schema

import (
	"context"
	"errors"

	"weft/directory"
	"weft/pgerr"
	"weft/quote"
)

// How tables are declared while clients read and write them, and what is where when something dies:
//
//	step                                      dies after it: recovery finds
//	1 directory: Declaring, in a group of     phase Begun: the entries go, and the job
//	  their own that is all at home; the job
//	2 dial all shards; home: a lock that      the same
//	  keeps DDL out and nothing else
//	3 shards: definitions, empty              the same
//	4 directory: phase Filled                 tables on the shards are dropped, the entries go
//	5 shards: COMMIT, one by one              the same
//	6 directory: phase Moved                  only 7 is missing, and is done
//	7 directory: Active                       the job goes on: see package carrier
//
// No row moves in any of these steps, so it does not matter which proxy hears of them when: a proxy that
// knows the tables as undeclared and one that knows them as sharded, with everything at home, send their
// statements to the same place. The job carries rows only when all proxies have Active, and when all
// transactions that are older have ended.
//
// The home shard commits nothing. So what a declaration changes there cannot be done online: foreign
// keys of other tables that would have to go, ids that name their buckets.

// Online declares tables while clients use them, and takes declarations back. Its zero value is
// of no use.
type Online struct{ m *Mover }

// NewOnline returns what declares tables online for a Mover.
func NewOnline(m *Mover) *Online { return &Online{m} }

// onlinePages is how many pages a table must have to be declared online if nobody says how: a smaller
// one is copied in a moment.
const onlinePages = 1000

// Large reports whether a table is so large that it should be declared online.
func (o *Online) Large(ctx context.Context, req *Request) (bool, error) {
	snap, err := o.m.load(ctx, req.Database)
	if err != nil {
		return false, err
	}
	var pages int64
	for _, shard := range o.holders(snap, req) {
		s, err := open(ctx, o.m.cfg.Shards, shard, req.Database, req.User, "weft")
		if err != nil {
			return false, err
		}
		name := quote.Literal(req.Table.SQL())
		n, err := s.one("SELECT (coalesce(sum(pg_relation_size(relid)), 0) / current_setting('block_size')::int)::bigint FROM (SELECT to_regclass(" + name +
			")::oid AS relid UNION SELECT relid::oid FROM pg_partition_tree(to_regclass(" + name + "))) p")
		s.close()
		if err != nil {
			return false, err
		}
		pages += number(n)
	}
	return pages > onlinePages, nil
}

// holders are the shards that have rows of a table which would move.
func (o *Online) holders(snap *directory.Snapshot, req *Request) []string {
	if snap.Table(req.Database, req.Table.Schema, req.Table.Name) != nil {
		return others(snap)
	}
	return []string{snap.Home}
}

// errOffline is the cause of a refusal of something that can be done with the table locked.
var errOffline = errors.New("it cannot be done online")

// Offline reports whether an error says that something can be done, but not online.
func Offline(err error) bool { return errors.Is(err, errOffline) }

// offline words such a refusal.
func offline(hint, format string, args ...any) error {
	return pgerr.New(pgerr.FeatureNotSupported, format, args...).WithHint("%s", hint).WithCause(errOffline)
}

// finish declares the tables of a group whose tables all shards have.
func (o *Online) finish(ctx context.Context, snap *directory.Snapshot, t *directory.Table) error {
	list := directory.Grouped(snap, t.Database, t.Group)
	for i := range list {
		if err := o.m.followGuard(ctx, snap, &list[i]); err != nil {
			return err
		}
	}
	done, err := o.m.cfg.Directory.Update(ctx, func(s *directory.Snapshot) (*directory.Snapshot, error) {
		if s == nil {
			return nil, directory.ErrNoCluster
		}
		next := s.Clone()
		for _, own := range directory.Grouped(next, t.Database, t.Group) {
			if own.State != directory.Declaring || own.Job.ID != t.Job.ID || own.Job.Proxy != o.m.cfg.Proxy {
				return nil, errSuperseded
			}
			own.State, own.Job = directory.Active, directory.Job{}
			next.PutTable(own)
		}
		if next.Schemas == nil {
			next.Schemas = map[string]int64{}
		}
		next.Schemas[t.Database]++
		return next, nil
	})
	if err != nil {
		return err
	}
	if err := o.m.cfg.step("active"); err != nil {
		return err
	}
	// The job carries nothing before all proxies have said that they know.
	return o.m.cfg.Directory.Acknowledged(ctx, done.Version)
}

// undo takes back a declaration that is not in force: the job goes with it.
func (o *Online) undo(ctx context.Context, snap *directory.Snapshot, t *directory.Table) error {
	list := directory.Grouped(snap, t.Database, t.Group)
	if t.Job.Phase == directory.Filled {
		for i := range list {
			list[i].Job = t.Job
			if err := o.m.dropTwins(ctx, snap, &list[i]); err != nil {
				return err
			}
		}
	}
	if err := o.m.cfg.step("undone"); err != nil {
		return err
	}
	_, err := o.m.change(ctx, t, func(next *directory.Snapshot, own directory.Table) {
		directory.Disband(next, own.Database, own.Group)
		directory.Withdraw(next, own.Job.ID)
	})
	return err
}
