package directory

import (
	"context"

	"weft/heat/throttle"
)

// Throttles is the ability of a Store to keep throttles. Each ends by itself when its time is over, even if
// no process lives that knows of it. One that is declared has no end, until it is dropped.
type Throttles interface {
	// PutThrottle stores the throttle that fn returns, for as long as it lasts, and returns it as stored. fn
	// gets all that are stored now, and runs again if another writer came first. A throttle without an
	// ID is new; one with an ID replaces that one, if it has not ended. An error of fn is returned unchanged.
	PutThrottle(ctx context.Context, fn func(now []throttle.Rule) (throttle.Rule, error)) (throttle.Rule, error)

	// DropThrottle ends a throttle. It reports false if there is none of that ID.
	DropThrottle(ctx context.Context, id int64) (bool, error)

	// Throttles lists what is stored, ordered by ID.
	Throttles(ctx context.Context) ([]throttle.Rule, error)

	// WatchThrottles calls fn with all throttles, and again soon after each change, one call at a time.
	// Each has the time that is left to it. WatchThrottles returns as Store.Watch does.
	WatchThrottles(ctx context.Context, fn func([]throttle.Rule)) error
}
