package proxy

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"weft/parser"
	"weft/pgerr"
	"weft/reshard"
	"weft/twopc"
	"weft/wire"
)

// isolation returns the isolation level of the open block, or of the next statement:
// "repeatable read", "serializable", or empty for READ COMMITTED.
func (t *transaction) isolation() string {
	level, set := t.s.record.settings.Get("default_transaction_isolation")
	if !set {
		level = t.s.record.inEffect.isolation
	}
	if t.isOpen() && !(t.plain && len(t.replay) == 0) {
		for _, text := range append([]string{t.begin}, t.replay...) {
			w := words(text)
			if len(w) > 2 && w[1] == "session" && w[2] == "characteristics" {
				continue // sets the level of later transactions
			}
			i := slices.Index(w, "isolation")
			if i < 0 || i+2 >= len(w) || w[i+1] != "level" {
				if m := setsIsolation.FindStringSubmatch(text); m != nil {
					level = unquoted(strings.Fields(strings.ToLower(m[1])))
				}
				continue
			}
			level = unquoted(w[i+2:])
		}
	}
	switch level {
	case "serializable", "repeatable read":
		return level
	}
	return ""
}

// setsIsolation finds the level in a SET of transaction_isolation.
var setsIsolation = regexp.MustCompile(`(?is)^\s*set\s.*\btransaction_isolation\b\s*(?:=|to\b)\s*(.*)`)

// unquoted returns the isolation level that words begin with.
func unquoted(w []string) string {
	var out []byte
	for _, word := range w {
		for _, c := range []byte(word) {
			if c >= 'a' && c <= 'z' {
				out = append(out, c)
			}
		}
		switch string(out) {
		case "serializable":
			return "serializable"
		case "repeatableread":
			return "repeatable read"
		case "repeatable":
		default:
			return ""
		}
	}
	return ""
}

// SnapshotsNoted is the point where a block is about to take its snapshots, and rounds of moves
// know.
const SnapshotsNoted twopc.Point = "snapshots-noted"

// takeSnapshots makes all shards take the snapshot of a REPEATABLE READ block at its first
// statement: a shard that joined later would see what was committed meanwhile, and the block
// would see some transactions on one shard and not on another.
func (t *transaction) takeSnapshots() error {
	b := &t.block
	if !b.isOpen() || b.isSnapped() {
		return nil
	}
	// Options that the transaction may have set are not asked for in READ COMMITTED: nothing
	// depends on them.
	if t.s.record.inEffect.isolation == "" || !t.s.record.optionsInFlux() || t.isolation() != "" {
		if err := t.s.record.learnOptions(); err != nil {
			return err
		}
	}
	b.noteSnapshots(snapshotsBegin)
	level := t.isolation()
	if level == "serializable" && !t.s.record.inEffect.perShard {
		b.noteSnapshots(snapshotsSerial)
	}
	if level != "repeatable read" && !(level == "serializable" && t.s.record.inEffect.perShard) || b.isSealed() {
		return nil
	}
	err := t.s.route.touch.enterAll(reshard.Read)
	if err == nil {
		if stop := t.s.srv.cfg.StopAt; stop != nil {
			stop(SnapshotsNoted)
		}
		err = t.snapshotAll()
	}
	if err != nil {
		b.noteSnapshots(snapshotsFail)
		return err
	}
	t.s.route.touch.snapped()
	return nil
}

// snapshotsFor is takeSnapshots for a client's statement, unless PostgreSQL runs the statement
// without a snapshot: a client that locks a table first wants to see what was committed until
// it got the lock. Where weft has to ask the backend what the statement means, that question
// has taken a snapshot already.
func (t *transaction) snapshotsFor(f *parser.Facts) error {
	if !t.isOpen() || t.isSnapped() || f.Snapless && !t.s.record.inFlux() && f.Effects&parser.ReadsSetting == 0 {
		return nil
	}
	return t.takeSnapshots()
}

// snapshotAll makes every shard run a statement in the block, which takes its snapshot.
func (t *transaction) snapshotAll() error {
	if t.s.held.conn != nil {
		if err := t.s.held.park(); err != nil {
			return err
		}
	}
	if t.s.record.inEffect.read == readAtomic {
		if err := t.beginAnew(); err != nil {
			return err
		}
	}
	shards := make([]int, len(t.s.route.snap.Shards))
	for i := range shards {
		shards[i] = i
	}
	far := t.s.held.away.course.Away()
	if err := t.s.held.reserve(shards, far); err != nil {
		return err
	}
	defer t.s.held.unreserve()
	var legs []*leg
	for _, shard := range shards {
		// Not legFor: asking for the shard's types would take a snapshot now.
		l, err := t.s.legs.legTo(shard, far)
		if err != nil {
			_ = t.s.legs.endLegs(legs, true)
			return err
		}
		legs = append(legs, l)
	}
	t.s.reach.track(legs)
	if t.s.record.inEffect.read == readAtomic && len(legs) > 1 {
		err := t.snapBlock(legs)
		if errors.Is(err, errNoShard) {
			err = pgerr.New(pgerr.SerializationFailure, "a shard has left the cluster while the transaction began").WithHint("Run the transaction again.")
		}
		if ended := t.s.legs.endLegs(legs, err != nil); err == nil {
			err = ended
		}
		return err
	}
	for _, l := range legs {
		l.out = wire.AppendQuery(l.out, takeSnapshot)
	}
	for _, l := range legs {
		l.send()
	}
	return t.s.legs.endLegs(legs, false)
}

// maySerialize refuses a SERIALIZABLE transaction on several shards: each shard knows the
// conflicts of its own part only, so that a cycle of transactions which no serial order
// explains may go unseen. weft.serializable = 'per_shard' allows it, for clients that know that
// their transactions conflict on one shard only.
func (t *transaction) maySerialize(verb string) error {
	if t.isolation() != "serializable" || t.s.record.inEffect.perShard {
		return nil
	}
	return pgerr.New(pgerr.FeatureNotSupported, "a SERIALIZABLE transaction cannot %s on several shards", verb).
		WithDetail("Shards do not know of each other's conflicts.").
		WithHint("Use REPEATABLE READ, keep the transaction to one shard, or SET weft.serializable = 'per_shard' if conflicts of one shard are all that matters.")
}
