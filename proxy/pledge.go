package proxy

import (
	"errors"
	"strconv"
	"unicode/utf8"

	"weft/parser"
	"weft/pgerr"
	"weft/tally"
	"weft/twopc"
	"weft/wire"
)

// PREPARE TRANSACTION by a client. The home shard prepares under the client's name, the other participants under names of weft, with the
// home shard's part as what decides (see twopc.Name.Pledge). So the block goes the way of a COMMIT, with the home shard as the one whose answer is the
// client's; it has no second half. What ends a prepared transaction is in fulfil.go.

// pledges reports whether a text is PREPARE TRANSACTION alone.
func pledges(f *parser.Facts) bool { return endsTx(f) && f.Effects&parser.TwoPhase != 0 }

// endsWell reports whether a block that ended with a tag has not been rolled back.
func endsWell(tag string) bool { return tag == "COMMIT" || tag == "PREPARE TRANSACTION" }

// pledgeOutside refuses PREPARE TRANSACTION where a block of weft's own is open. PostgreSQL would commit with a warning, and answer ROLLBACK.
func pledgeOutside() *pgerr.Error {
	return pgerr.New(pgerr.FeatureNotSupported, "PREPARE TRANSACTION is not supported in a text of several statements, or a pipeline, that has not begun a transaction block").
		WithHint("BEGIN first.")
}

// pledgeQuery answers PREPARE TRANSACTION in a simple query of n bytes.
func (cm *commit) pledgeQuery(text []byte, f *parser.Facts, n int) error {
	if err := cm.pledge(string(text)); err != nil {
		cm.s.client.Consume(wire.HeaderLen + n)
		return cm.uncommitted(err)
	}
	return cm.s.runQuery(text, f, n)
}

// executePledge executes the portal of a PREPARE TRANSACTION.
func (cm *commit) executePledge(lp *localPortal) error {
	if !cm.s.tx.isOpen() {
		warning := pgerr.New(noTransaction, "there is no transaction in progress")
		warning.Severity = pgerr.SeverityWarning
		cm.s.pipe.ops.push(op{kind: opLocal, frame: wire.AppendCommandComplete(wire.AppendError(nil, warning), "ROLLBACK")})
		return nil
	}
	if err := cm.pledge(lp.text); err != nil {
		cm.s.pipe.skipToSync()
		if errors.Is(err, errTold) {
			return nil
		}
		return cm.disagree(err)
	}
	return cm.sendEnd(lp)
}

// pledge makes everything ready for PREPARE TRANSACTION on the home shard, which becomes the one at hand: the other participants have prepared. After an error
// the block must be rolled back.
func (cm *commit) pledge(text string) error {
	err := cm.mayPledge(text)
	if err == nil {
		err = cm.s.held.useLane(cm.s.lane)
	}
	if err == nil {
		err = cm.s.tx.quiesce()
	}
	if err == nil {
		err = cm.carryNotes()
	}
	if err != nil {
		return err
	}
	cm.pledging = true
	home := cm.s.held.conn
	if home.Status() != wire.TxActive || cm.s.held.participant() < 0 {
		return nil // the home shard says that the block has failed, or is alone
	}
	rows, err := cm.askBeside(home, pledgeSQL)
	if err != nil || rows[0][0] == "on" {
		return err // READ ONLY: nothing has to be kept elsewhere
	}
	xid, err := strconv.ParseUint(rows[0][1], 10, 64)
	if err != nil {
		return err
	}
	a, err := cm.musterPledge(twopc.NewPledgeNonce(uint32(xid))) // without the epoch, as pg_prepared_xacts shows it
	if err != nil {
		return err
	}
	if err := cm.mayLast(a); err != nil {
		return err
	}
	cm.s.srv.left.Take(a.name.Nonce)
	cm.s.account.runsAs(tally.TwoPhase)
	cm.s.account.addShards(len(a.decision.Members) + 1)
	a.began = tally.Now()
	cm.agreement = a
	defer func() {
		if a.sleep != nil {
			a.sleep()
		}
	}()
	if !a.Agree(a.parts, false) {
		return a.err
	}
	a.Hold()
	a.shield()
	return nil
}

// pledgeSQL asks the home shard for the id of its transaction, unless that is READ ONLY, and sees to it that what it prepares is as durable as what the others
// have prepared.
const pledgeSQL = "SELECT pg_catalog.current_setting('transaction_read_only'), CASE WHEN pg_catalog.current_setting('transaction_read_only') = 'off' THEN pg_catalog.pg_current_xact_id()::text END, " +
	"CASE WHEN pg_catalog.current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN pg_catalog.set_config('synchronous_commit', 'on', true) END"

// mayPledge refuses what a block cannot be prepared with. The home shard refuses the rest: temporary tables, cursors WITH HOLD, notifications.
func (cm *commit) mayPledge(text string) error {
	p, err := cm.readPledge(text)
	if err != nil {
		return err
	}
	d := &cm.s.record.done
	switch {
	case twopc.Reserved(p.GID):
		return reservedName(p.GID)
	case d.bits&parser.Listens != 0, d.bits&parser.Unlistens != 0 && len(cm.s.record.channels) > 0:
		return pgerr.New(pgerr.FeatureNotSupported, "cannot PREPARE a transaction that has executed LISTEN, UNLISTEN, or NOTIFY").
			WithHint("Send these outside of the transaction.")
	case cm.s.tx.everywhere, d.schema:
		return pgerr.New(pgerr.FeatureNotSupported, "cannot PREPARE a transaction that has changed schemas, or has called functions that may have, in a database with sharded tables").
			WithDetail("Other sessions have to hear of a change of schemas when it is committed.").
			WithHint("Change schemas in transactions that end with COMMIT.")
	case cm.s.tx.isSealed() && cm.s.tx.clock != nil && cm.s.tx.clock.Lane() != cm.s.lane:
		return crossShardBlock()
	}
	return nil
}

// readPledge reads a command about a prepared transaction.
func (cm *commit) readPledge(text string) (parser.Pledge, error) {
	if cm.s.record.oddEncoding || !utf8.ValidString(text) && cm.s.out.encoding != "UTF8" {
		return parser.Pledge{}, cm.s.out.unreadText()
	}
	p, ok := parser.ReadPledge(text, cm.s.record.scanOptions())
	if !ok {
		return p, pgerr.New(pgerr.FeatureNotSupported, "the command about a prepared transaction cannot be read").WithHint("Send it as a statement of its own.")
	}
	return p, nil
}

// reservedName refuses a name that could be one of weft's own.
func reservedName(gid string) *pgerr.Error {
	return pgerr.New(pgerr.FeatureNotSupported, "transaction identifier \"%s\" is reserved", gid).
		WithDetail("weft prepares its own transactions under identifiers that begin with weft:.").
		WithHint("Use another identifier. weft recover ends what is in doubt.")
}

// musterPledge lists the participants besides the home shard. Each prepares, also one that has only read: it may have locked rows.
func (cm *commit) musterPledge(nonce string) (*agreement, error) {
	a := cm.newAgreement(cm.s.srv.cfg.StopAt)
	a.name = twopc.Name{
		Cluster: cm.s.route.snap.Cluster, Incarnation: cm.s.srv.cfg.Proxy, Nonce: nonce,
		Decider: cm.s.held.conn.Shard(), Timeline: cm.s.held.conn.Generation().Timeline,
	}
	a.decision = twopc.Decision{Key: a.name.Key()}
	for _, c := range cm.s.held.parked {
		switch c.Status() {
		case wire.TxIdle:
			continue
		case wire.TxFailed:
			return nil, transactionFailed()
		}
		if err := cm.s.util.mayPrepare(c); err != nil {
			return nil, err
		}
		if err := cm.enlistVoter(a, c); err != nil {
			return nil, err
		}
	}
	cm.weigh(a)
	return a, nil
}

// unknown is what the client hears when the answer to the end of a block is lost.
func (cm *commit) unknown(err error) error {
	if !cm.pledging {
		return unknownEnd(err)
	}
	return pgerr.New(pgerr.TransactionResolutionUnknown, "the connection to the shard was lost during PREPARE TRANSACTION").
		WithDetail("The transaction is prepared, or has been rolled back.").
		WithHint("Look in pg_prepared_xacts.").WithCause(err)
}
