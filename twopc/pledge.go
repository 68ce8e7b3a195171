package twopc

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"weft/quote"
)

// A pledge is a transaction that a client has prepared: PREPARE TRANSACTION 'gid'. The deciding shard, which is the home shard, has its part under the client's
// own name, with the row of the decision in it; the other shards have theirs under names of weft. So PostgreSQL itself knows which names are taken, who may end
// the transaction, and shows it in pg_prepared_xacts. While the deciding part is prepared the decision is open: nothing is to be done. COMMIT PREPARED there is
// the commit, ROLLBACK PREPARED takes the decision away, and the other parts follow as those of any transaction do.
//
// The names of the parts say which transaction of the deciding shard they belong to, so that they are found when only the client's name is known.

// pledged begins the nonces of pledges. Versions that know of no pledges leave such names alone.
const pledged = "x"

// NewPledgeNonce makes the nonce of a pledge whose transaction on the deciding shard has an id. 60 bits of it are random.
func NewPledgeNonce(xid uint32) string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return pledged + fmt.Sprintf("%08x", xid) + hex.EncodeToString(b[:])[:15]
}

// Pledge returns the id of the deciding transaction if the name is that of a pledge.
func (n Name) Pledge() (xid uint32, ok bool) {
	digits, ok := strings.CutPrefix(n.Nonce, pledged)
	if !ok || len(digits) < 8 {
		return 0, false
	}
	id, err := strconv.ParseUint(digits[:8], 16, 32)
	return uint32(id), err == nil
}

// preparedSQL lists the transactions that are prepared in a database, by their ids.
const preparedSQL = "SELECT transaction::text FROM pg_catalog.pg_prepared_xacts WHERE database = pg_catalog.current_database()"

// pledgesSQL lists the transactions of a database that were prepared under other names than weft's.
const pledgesSQL = "SELECT gid, owner, (1000 * pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - prepared))::bigint FROM pg_catalog.pg_prepared_xacts " +
	"WHERE database = pg_catalog.current_database() AND NOT pg_catalog.starts_with(gid, '" + prefix + ":') ORDER BY prepared"

// pledges are the deciding transactions that are prepared in a database, by id.
type pledges map[uint32]bool

func readPledges(rows [][]string, err error) (pledges, error) {
	if err != nil {
		return nil, err
	}
	out := pledges{}
	for _, row := range rows {
		if id, err := strconv.ParseUint(row[0], 10, 32); err == nil {
			out[uint32(id)] = true
		}
	}
	return out, nil
}

// openPledges returns the keys of those of some transactions that are pledges and whose deciding part is prepared. Two transactions of one
// id, one of which a failover has lost, are told apart by their decisions: neither key is returned.
func openPledges(found []InDoubt, ask func(decider, database string) (pledges, error)) map[string]bool {
	type place struct{ decider, database string }
	type deciding struct {
		place
		xid uint32
	}
	asked, keys, open := map[place]pledges{}, map[deciding]string{}, map[string]bool{}
	for i := range found {
		d := &found[i]
		xid, ok := d.Pledge()
		if !ok {
			continue
		}
		at := place{d.Decider, d.Database}
		there, known := asked[at]
		if !known {
			there, _ = ask(d.Decider, d.Database) // nil if it does not answer: the decision is asked for
			asked[at] = there
		}
		if !there[xid] {
			continue
		}
		switch by := (deciding{at, xid}); keys[by] {
		case "":
			keys[by] = d.Key()
			open[d.Key()] = true
		case d.Key():
		default:
			delete(open, keys[by])
		}
	}
	return open
}

// openPledges asks the deciding shards of pledges.
func (r *Resolver) openPledges(ctx context.Context, found []InDoubt) map[string]bool {
	return openPledges(found, func(decider, database string) (out pledges, err error) {
		err = r.on(ctx, decider, database, func(c Conn) error {
			out, err = readPledges(c.Exec(preparedSQL))
			return err
		})
		return out, err
	})
}

// PledgeOf returns the id of the transaction that is prepared under a client's name in a database of the deciding shard.
func (r *Resolver) PledgeOf(ctx context.Context, decider, database, gid string) (xid uint32, ok bool, err error) {
	err = r.on(ctx, decider, database, func(c Conn) error {
		found, err := readPledges(c.Exec(preparedSQL + " AND gid = " + quote.Literal(gid)))
		for xid, ok = range found {
			break
		}
		return err
	})
	return xid, ok, err
}

// PledgeMembers returns the shards besides the deciding one that have a part of a committed pledge, and may have yet to follow.
func (r *Resolver) PledgeMembers(ctx context.Context, decider, database string, xid uint32) (shards []string, err error) {
	err = r.on(ctx, decider, database, func(c Conn) error {
		rows, err := c.Exec("SELECT pg_catalog.to_regclass('weft.decision') IS NOT NULL")
		if err != nil || len(rows) == 0 || rows[0][0] != "t" {
			return errors.Join(err, errNoAnswer(len(rows)))
		}
		rows, err = c.Exec(fmt.Sprintf("SELECT d.gid, d.participants FROM weft.decision d, weft.own o WHERE %s AND pg_catalog.starts_with(d.gid, %s) AND pg_catalog.strpos(d.gid, ':%s%08x') > 0",
			genuine, quote.Literal(Prefix(r.Cluster)), pledged, xid))
		for _, row := range rows {
			d := ParseDecision(row[0], row[1])
			for _, m := range d.Members {
				shards = append(shards, m.Shard)
			}
		}
		return err
	})
	return shards, err
}
