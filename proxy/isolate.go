package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"weft/datum"
	"weft/directory"
	"weft/pgerr"
	"weft/schema"
	"weft/vindex"
)

// isolateCall runs the functions that give the rows of one value a bucket of their own, for one
// session.
type isolateCall struct{ s *Session }

// isolated is what became of a value.
type isolated struct {
	bucket int
	shard  string // where the bucket is now
	job    string // the job that carries the rows; "" if they stay there
}

// run isolates a value and returns what the function called name returns: the job, or for users of
// Citus the bucket. If no row has to move, weft.isolate returns no row.
func (u isolateCall) run(ctx context.Context, name string, args map[string]string) ([][]string, error) {
	var options directory.MoveOptions
	if err := moveOptions(args, &options); err != nil {
		return nil, err
	}
	value, given := args["value"]
	if !given {
		return nil, pgerr.New("22004", "the value must not be null").WithHint("Rows whose shard key is null cannot be isolated.")
	}
	if err := u.s.srv.mover.MayMove(ctx, u.s.db.Name, u.s.login.user); err != nil {
		return nil, err
	}
	if u.s.out.encoding != "UTF8" && slices.ContainsFunc([]byte(value), func(c byte) bool { return c >= 0x80 }) {
		return nil, pgerr.New(pgerr.FeatureNotSupported, "weft cannot tell which value %q is: its characters are not ASCII, and client_encoding is not UTF8", value).
			WithHint("SET client_encoding = 'UTF8'.")
	}
	req, err := u.s.util.request(args)
	if err != nil {
		return nil, err
	}
	at, err := u.isolate(ctx, req, value, args["shard"], options)
	if err != nil {
		return nil, err
	}
	u.s.commit.keepCopies(ctx)
	u.s.out.tell(&pgerr.Error{
		Severity: pgerr.SeverityNotice, Code: "00000",
		Message: fmt.Sprintf("rows with that key are in bucket %d, on %s", at.bucket, at.shard),
		Detail:  "All tables of the database that are sharded alike go together.",
	})
	switch {
	case name == "isolate_tenant":
		return [][]string{{fmt.Sprint(at.bucket)}}, nil
	case at.job == "":
		return [][]string{}, nil
	}
	return [][]string{{at.job}}, nil
}

// isolate gives the rows of a value a bucket of their own, and starts the job that takes it to a
// shard. Without a shard it stays where it is.
func (u isolateCall) isolate(ctx context.Context, req *schema.Request, value, shard string, options directory.MoveOptions) (*isolated, error) {
	move := u.s.util.newMove(directory.MoveIsolate)
	move.Options = options
	out := &isolated{}
	err := u.s.srv.moving.jobs.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		id, err := isolableID(old, req, value)
		if err != nil {
			return nil, err
		}
		_, before := old.Isolated[move.Database][id]
		next := old.Clone()
		b, err := next.Isolate(move.Database, id)
		if err != nil {
			return nil, pgerr.New(pgerr.ProgramLimitExceeded, "the value cannot be isolated: %s", err)
		}
		now := next.PlacementOf(move.Database, "")
		target := slices.Clone(now)
		*out = isolated{bucket: b, shard: next.Shards[now[b]].Name}
		if shard != "" {
			if err := place(next, target, shard, []int{b}); err != nil {
				return nil, err
			}
		}
		if target[b] == now[b] && before {
			return nil, pgerr.New(pgerr.ObjectInUse, "value %q is isolated already, in bucket %d on %s", value, b, out.shard).
				WithHint("SELECT weft.move_buckets('%d', 'shard') takes it to another shard.", b)
		}
		// Without a job, too: nobody else may be about to put rows where the value was.
		added, err := withMove(next, move, target)
		if err != nil || target[b] != now[b] {
			out.job = move.ID
			return added, err
		}
		return next, nil
	})
	if err != nil {
		return nil, err
	}
	u.s.log.Info("a value is isolated", "table", req.Table.Name, "bucket", out.bucket, "job", out.job, "database", move.Database, "user", move.User)
	return out, nil
}

// isolableID returns the keyspace ID of a value of a sharded table, if no other value of the table
// shares it by design.
func isolableID(snap *directory.Snapshot, req *schema.Request, value string) (vindex.ID, error) {
	name := req.Table.Name
	t := snap.Table(req.Database, req.Table.Schema, req.Table.Name)
	if t == nil || t.Kind != directory.Sharded {
		return 0, pgerr.New(pgerr.WrongObjectType, "%q is not a sharded table", name).WithHint("SELECT * FROM weft.tables lists the sharded tables.")
	}
	if t.Group != "" || t.State != directory.Active {
		return 0, pgerr.New(pgerr.ObjectNotInPrerequisiteState, "rows of %q are on their way to their shards", name).WithHint("Wait until its declaration is done.")
	}
	v, err := t.NewVindex(snap.BucketCount)
	if err != nil {
		return 0, err
	}
	switch v.Kind() {
	case "hash", "identity", "reverse_bits":
	case "lookup", "lookup_unique":
		return 0, pgerr.New(pgerr.FeatureNotSupported, "values of %q cannot be isolated: they are placed one by one", name).
			WithHint("SELECT weft.pin('%s', 'value', 'shard') gives a value a bucket of its own.", t.Vindex.Name)
	default:
		return 0, pgerr.New(pgerr.FeatureNotSupported, "a value of %q cannot be isolated: by its %s vindex, the rows of a value are in several buckets, or share theirs by design", name, v.Kind()).
			WithHint("weft.move_buckets takes whole buckets to another shard.")
	}
	c := v.(vindex.Computed)
	key, err := c.Columns()[0].Store(datum.Literal([]byte(value)))
	if err != nil {
		if e := (*datum.Error)(nil); errors.As(err, &e) && e.Verdict != datum.Invalid {
			return 0, pgerr.New(pgerr.FeatureNotSupported, "weft cannot tell which value of type %s %q is: %s", t.Columns[0].TypeName, value, e.Reason).
				WithHint("Write it in a form that no setting changes the meaning of.")
		}
		return 0, pgerr.New("22P02", "invalid input syntax for type %s: %q", t.Columns[0].TypeName, value)
	}
	id, err := c.ID([]datum.Key{key})
	if err != nil {
		return 0, fmt.Errorf("isolate a value of %s: %w", name, err)
	}
	return id, nil
}

// pin gives a value of a lookup a bucket of its own on a shard. If the value may have rows, pin starts
// the job that carries them, and returns it.
func (u isolateCall) pin(ctx context.Context, args map[string]string) ([][]string, error) {
	err := u.s.srv.mover.Pin(ctx, u.s.db.Name, u.s.login.user, args["vindex"], args["value"], args["shard"])
	job := ""
	if placed := (*schema.PlacedError)(nil); errors.As(err, &placed) {
		job, err = u.repin(ctx, placed, args["value"], args["shard"])
	}
	if err != nil {
		return nil, err
	}
	u.s.commit.keepCopies(ctx)
	if job == "" {
		return [][]string{}, nil
	}
	return [][]string{{job}}, nil
}

// repin starts the job that takes a value of a lookup to a shard, and returns it. A value that is in a
// bucket with others first gets one of its own, on the shard where it is, in the same change of the
// directory.
func (u isolateCall) repin(ctx context.Context, v *schema.PlacedError, value, shard string) (string, error) {
	move := u.s.util.newMove(directory.MoveIsolate)
	at, moves := 0, false
	err := u.s.srv.cfg.Keeps.Entries.Repin(ctx, v.Lookup, v.Key, func(old *directory.Snapshot, bucket int) (*directory.Snapshot, int, error) {
		if !slices.ContainsFunc(old.Declared(move.Database), func(t directory.Table) bool { return t.Vindex.Lookup() && t.Vindex.Name == v.Lookup }) {
			return nil, 0, pgerr.New(pgerr.ObjectNotInPrerequisiteState, "value %q of lookup %q has rows, and no table of this database uses the lookup", value, v.Lookup).
				WithHint("Pin it in the database whose rows are to move.")
		}
		if _, err := withMove(old, move, nil); err != nil {
			return nil, 0, err
		}
		next := old.Clone()
		at = bucket
		if bucket < 0 {
			b, err := next.Unpool(v.Lookup, next.TopBucket(v.Default))
			if err != nil {
				return nil, 0, pgerr.New(pgerr.ProgramLimitExceeded, "the value cannot be pinned: %s", err)
			}
			at = b
		}
		now := next.PlacementOf(move.Database, "")
		target := slices.Clone(now)
		if err := place(next, target, shard, []int{at}); err != nil {
			return nil, 0, err
		}
		if moves = target[at] != now[at]; !moves && at == bucket {
			return nil, 0, pgerr.New(pgerr.ObjectInUse, "value %q of lookup %q is pinned to %s already, in bucket %d", value, v.Lookup, shard, at)
		}
		added, err := withMove(next, move, target)
		if err != nil || moves {
			return added, at, err
		}
		return next, at, nil
	})
	if err != nil {
		return "", err
	}
	u.s.log.Info("a value is pinned", "lookup", v.Lookup, "bucket", at, "job", move.ID, "moves", moves, "database", move.Database, "user", move.User)
	if !moves {
		return "", nil
	}
	return move.ID, nil
}
