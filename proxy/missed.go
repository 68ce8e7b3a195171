package proxy

import (
	"errors"
	"slices"

	"weft/directory"
	"weft/pgerr"
	"weft/pool"
	"weft/proxy/gate"
)

// missed is the cause of the error of a reader that has found no moment between transactions, for a reason that passes. Outside of a block what the
// client has asked for is carried out again, when the shard has a primary: no row has been read yet.
type missed struct {
	loss pool.Loss // of a shard, or of none
	err  error
}

func (m *missed) Error() string { return "missed the moment between transactions" }
func (m *missed) Unwrap() error { return m.err }

// missedMoment returns an error to be told of a reader, whatever has kept it from its moment.
func missedMoment(legs []*leg, why error, told *pgerr.Error) error {
	m := &missed{pool.Loss{Gone: true}, told.Unwrap()}
	if away := (*gate.Away)(nil); errors.As(why, &away) {
		m.loss.Shard = away.Shard
		if i := slices.IndexFunc(legs, func(l *leg) bool { return l.conn.Shard() == away.Shard }); i >= 0 {
			m.loss.Generation = legs[i].conn.Generation()
		}
	}
	e := *told // a copy: other readers have the same error. FATAL it is for a connection that is not the client's.
	e.Severity = pgerr.SeverityError
	return e.WithCause(m)
}

// missedShard is missedMoment if the reason is that a shard is away. Other errors of a gate are told as they are.
func missedShard(legs []*leg, why error, told *pgerr.Error) error {
	switch told.Code {
	case pgerr.ConnectionFailure, pgerr.CannotConnectNow, pgerr.AdminShutdown, "57P02":
		return missedMoment(legs, why, told)
	}
	return told
}

// lossIn returns the loss that an error speaks of: of a backend, or of a moment.
func lossIn(err error) pool.Loss {
	if m := (*missed)(nil); errors.As(err, &m) {
		return m.loss
	}
	return pool.LossIn(err)
}

// seeks reports whether one of the shards has no primary.
func seeks(p *pool.Pool, snap *directory.Snapshot) bool {
	for i := range snap.Shards {
		if p.Shard(&snap.Shards[i]).Sought() {
			return true
		}
	}
	return false
}
