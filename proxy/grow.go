package proxy

import (
	"context"
	"fmt"
	"strconv"

	"weft/directory"
	"weft/pgerr"
	"weft/reshard"
	"weft/schema"
)

// bucketCount returns how many buckets the cluster has, 0 if that is not known yet.
func (s *Server) bucketCount() int {
	if snap := s.cfg.Snapshot(); snap != nil {
		return snap.BucketCount
	}
	return 0
}

// growCall runs the function that gives the cluster more buckets, for one session.
type growCall struct{ s *Session }

// run gives the cluster more buckets, and returns when all proxies know. With dry_run it only returns how
// many there are and would be.
func (u growCall) run(ctx context.Context, args map[string]string) ([][]string, error) {
	n, err := strconv.Atoi(args["buckets"])
	if _, given := args["buckets"]; !given {
		return nil, pgerr.New("22004", "the number of buckets must not be null")
	} else if err != nil {
		return nil, pgerr.New(pgerr.InvalidParameterValue, "%q is not a number of buckets", args["buckets"])
	}
	dry, given := args["dry_run"]
	if given && dry != "true" && dry != "false" {
		return nil, pgerr.New(pgerr.InvalidParameterValue, "dry_run %q is not true or false", dry)
	}
	srv := u.s.srv
	if err := schema.MustBeSuperuser(ctx, srv.mover, u.s.db.Name, u.s.login.user, "change the number of buckets"); err != nil {
		return nil, err
	}
	was := 0
	grow := func(old *directory.Snapshot) (*directory.Snapshot, error) {
		was = old.BucketCount
		next := old.Clone()
		return next, reshard.Grow(next, n)
	}
	if dry == "true" {
		snap, err := srv.cfg.Directory.Load(ctx)
		if err == nil {
			_, err = grow(snap)
		}
		return [][]string{{strconv.Itoa(was), strconv.Itoa(n)}}, err
	}
	snap, err := srv.cfg.Directory.Update(ctx, grow)
	if err != nil {
		return nil, err
	}
	u.s.log.Info("the cluster has more buckets", "buckets", n, "before", was, "user", u.s.login.user)
	u.s.commit.keepCopies(ctx)
	if err := srv.keeper.spreadVersion(ctx, snap.Version); err != nil {
		return nil, fmt.Errorf("the cluster has %d buckets, and not all proxies know yet: %w", n, err)
	}
	return [][]string{{strconv.Itoa(n)}}, nil
}
