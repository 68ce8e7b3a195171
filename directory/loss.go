package directory

import (
	"context"
	"time"
)

// MaxLosses is how many transactions are kept that failovers have harmed.
const MaxLosses = 10_000

// Losses is a Store that remembers transactions of several shards of which failovers have lost all or a part.
type Losses interface {
	// NoteLosses stores transactions, and returns those that were not stored before. One that was is replaced, unless it has been accepted. The last
	// MaxLosses are kept.
	NoteLosses(ctx context.Context, list []Loss) (fresh []Loss, err error)

	// Losses lists what is stored, the latest last.
	Losses(ctx context.Context) ([]Loss, error)

	// AcceptLoss notes that an operator has dealt with a transaction. It reports false if it is not stored.
	AcceptLoss(ctx context.Context, gid string, at time.Time) (bool, error)
}

// Loss is a committed transaction of several shards of which failovers have lost all or a part.
type Loss struct {
	GID      string `json:"gid"` // key of its decision
	Database string `json:"database"`
	State    string `json:"state"`
	Decider  string `json:"decider"`
	// Kept are the shards that have their part, and Lost are those that have not.
	Kept []string `json:"kept,omitempty"`
	Lost []string `json:"lost"`
	// Told says whether the client was told COMMIT. Nil: not known.
	Told *bool `json:"told,omitempty"`
	// Committed is when the deciding shard had answered, on the clock of the proxy. Zero: not known.
	Committed time.Time `json:"committed,omitzero"`
	Found     time.Time `json:"found"`
	Accepted  time.Time `json:"accepted,omitzero"`
	Proxy     string    `json:"proxy"`
}

// With returns l, with what only an older note of the same transaction says.
func (l Loss) With(old Loss) Loss {
	if !old.Accepted.IsZero() {
		return old
	}
	if l.Told == nil && old.GID == l.GID {
		l.Told, l.Committed, l.Found = old.Told, old.Committed, old.Found
	}
	return l
}
