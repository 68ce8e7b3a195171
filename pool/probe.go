package pool

import (
	"context"
	"slices"
	"time"

	"weft/wire"
)

// Probe is a connection to one server of a shard, whatever the server is. It implements primary.Conn.
type Probe struct {
	c    *Conn
	lane *Lane
}

// probeSettings are serviceSettings without those that a probe asks for.
var probeSettings = slices.DeleteFunc(slices.Clone(serviceSettings), func(o wire.Option) bool { return o.Name == "default_transaction_read_only" })

// DialProbe logs in to the server of a shard at an address, outside of all limits. The server may be a standby or another one than
// it should be.
func (sh *Shard) DialProbe(ctx context.Context, address, database, user string) (*Probe, error) {
	ctx, stop := context.WithTimeout(ctx, sh.pool.conf().ConnectTimeout)
	defer stop()
	lane := sh.OpenLane(NewKey(database, user, probeSettings))
	c, err := lane.login(ctx, address, false)
	if err != nil {
		lane.CloseLane()
		return nil, err
	}
	c.dedicated = true
	return &Probe{c: c, lane: lane}, nil
}

// Ask runs a query and returns its rows as text. After ctx has ended the connection cannot be used again.
func (p *Probe) Ask(ctx context.Context, sql string) ([][]string, error) {
	defer context.AfterFunc(ctx, func() { _ = p.c.Conn().SetDeadline(time.Unix(1, 0)) })()
	rows, err := p.c.Exec(sql)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return rows, err
}

// Close closes the connection.
func (p *Probe) Close() {
	p.c.hangUp()
	p.lane.CloseLane()
}

// Answers counts the statements that the shard has answered.
func (sh *Shard) Answers() uint64 { return sh.Times.Read().Count }
