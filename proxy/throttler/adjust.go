package throttler

import (
	"context"
	"errors"
	"slices"
	"time"

	"weft/heat/throttle"
)

// errOvertaken says that another proxy has changed a throttle meanwhile.
var errOvertaken = errors.New("the throttle has changed meanwhile")

// Adjust makes and changes the automatic throttles of a second. The proxy that judges what is hot calls it once a
// second.
func (t *Throttler) Adjust(ctx context.Context, auto throttle.Auto, hot []throttle.Hot) {
	if t.cfg.Store == nil {
		return
	}
	now := time.Now()
	rules := throttle.Without(t.Table().All(), now)
	automatic := rules[:0:0]
	for _, l := range rules {
		if l.Origin == throttle.Automatic {
			automatic = append(automatic, l)
		}
	}
	if len(automatic) == 0 && len(hot) == 0 {
		return
	}
	demand := map[int64]throttle.Figures{}
	if len(automatic) > 0 {
		demand, _ = t.total(ctx, automatic)
	}
	inForce := make([]throttle.InForce, len(automatic))
	for i, l := range automatic {
		inForce[i] = throttle.InForce{Rule: l.Rule, Demand: demand[l.ID].Demand}
		inForce[i].Left = l.Ends.Sub(now)
	}
	for _, r := range throttle.Adjust(auto, inForce, hot, now.UTC().Truncate(time.Millisecond)) {
		_, err := t.store(ctx, func(stored []throttle.Rule) (throttle.Rule, error) { return r, mayStore(stored, &r, auto.Max) })
		if err != nil && !errors.Is(err, errOvertaken) {
			t.cfg.Log.Debug("an automatic throttle cannot be stored", "err", err)
			return
		}
		if err == nil && r.ID == 0 {
			t.cfg.Log.Info("an automatic throttle was made", "kind", r.Target.Kind, "allows", r.Limit.Words(), "mode", r.Mode, "reason", r.Reason)
		}
	}
}

// mayStore refuses a throttle that another proxy has made, changed or ended meanwhile, and one too many.
func mayStore(stored []throttle.Rule, r *throttle.Rule, most int) error {
	if r.ID != 0 {
		if !slices.ContainsFunc(stored, func(s throttle.Rule) bool { return s.ID == r.ID && s.Revision == r.Revision }) {
			return errOvertaken
		}
		return nil
	}
	n := 0
	for i := range stored {
		s := &stored[i]
		if s.Origin != throttle.Automatic {
			continue
		}
		if n++; s.Target.Same(&r.Target) && s.Class == r.Class {
			return errOvertaken
		}
	}
	if n >= most {
		return errOvertaken
	}
	return nil
}
