package proxy

import (
	"context"
	"time"

	"weft/directory"
	"weft/heat"
	"weft/heat/verdict"
	"weft/pgerr"
	"weft/proxy/judge"
	"weft/rebalance"
	"weft/schema"
)

// planHeatCall is a call of weft.plan_heat.
type planHeatCall struct{ *utility }

// run says what would relieve the shards that are saturated now, and why what is hot stays where nothing
// would help.
func (u planHeatCall) run(ctx context.Context) ([][]string, error) {
	srv, database := u.s.srv, u.s.db.Name
	if err := srv.mover.MayMove(ctx, database, u.s.login.user); err != nil {
		return nil, err
	}
	state := srv.keeper.verdicts.judge.State()
	if state.Off || state.Age > judge.StaleAfter.Seconds() {
		return nil, pgerr.New(pgerr.ObjectNotInPrerequisiteState, "it is not known what is hot").WithHint("See that heat.samples is not 0, and try again.")
	}
	if len(saturatedShards(state.Findings)) == 0 {
		u.s.out.tell(&pgerr.Error{Severity: pgerr.SeverityNotice, Code: "00000", Message: "no shard is saturated: there is nothing to relieve"})
		return [][]string{}, nil
	}
	r, silent := srv.heatOfAll(ctx, heat.BucketPart|heat.KeyPart, false)
	u.s.route.warnSilent(silent, "what its clients do is not counted")
	sizes, err := srv.mover.SampleBuckets(ctx, database)
	if err != nil {
		return nil, err
	}
	plan, err := srv.remedy(ctx, database, r, state.Findings, sizes)
	if err != nil {
		return nil, err
	}
	return plan.rows(srv.verdictNames(u.s.route.monitors(ctx))), nil
}

// remedy plans how to relieve saturated shards, by buckets of one database. It fails if too little is known
// of the work in the database.
func (s *Server) remedy(ctx context.Context, database string, r heat.Report, found []verdict.Finding, sizes *schema.BucketSizes) (*remedy, error) {
	snap, err := s.cfg.Directory.Load(ctx)
	if err != nil {
		return nil, err
	}
	jobs, err := s.mover.Moves(ctx, snap.Home, database)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	w := newWorkload(r, snap, database, jobs, now)
	if err := w.known(len(snap.Shards), rebalance.Load); err != nil {
		return nil, err
	}
	// Whoever has moved a bucket: what that did to the shards is not known at once.
	w.rests = restingBuckets(snap, database, jobs, now, func(directory.MoveKind) bool { return true })
	plan := newRemedy(snap, database, newLayout(snap, database, sizes, w), found, s.verdictNames(false).Isolates)
	for i := range jobs {
		if jobs[i].User == planUser && jobs[i].Started.After(plan.begun) {
			plan.begun = jobs[i].Started
		}
	}
	return plan, nil
}
