package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"weft/pgerr"
	"weft/primary"
)

// lead is which server of a shard is dialled. Package primary finds out which one is the primary, if the shard has a Watcher; without
// one the pool remembers where the last login found a primary.
type lead struct {
	// primary is the address of the primary as a Watcher says, nil or "" if it is not known.
	primary atomic.Pointer[string]
	// last is the address of the last login that found a primary, nil if there was none.
	last atomic.Pointer[string]
	// floor says which servers are not used.
	floor atomic.Pointer[floor]
	// fence is a timeline that is over before another one is known, 0 if there is none. See Fence.
	fence atomic.Uint32
}

// floor is the highest generation that is known, under a ruling. Servers of lower generations are not used, nor are those that the ruling is against.
type floor struct {
	primary.Generation
	ruling primary.Ruling
}

// rises reports whether another floor takes the place of f, which may be nil.
func (f *floor) rises(next *floor) bool {
	switch {
	case f == nil:
		return next.System != "" || next.ruling.Number != 0
	case f.ruling.Number != next.ruling.Number:
		return next.ruling.Number > f.ruling.Number
	}
	return next.Above(f.Generation) || next.Foreign(f.Generation)
}

// Lead says which server is the primary from now on, "" if that is not known. Connections to others stay: see Raise.
func (sh *Shard) Lead(address string) {
	sh.lead.primary.Store(&address)
}

// Raise says that a generation is the shard's from now on, and which ruling it was seen under. Connections to servers of lower generations, and to those that the
// ruling is against, are closed, also those that sessions use: what they write there is lost. A lower generation than the known one changes nothing, unless the
// ruling is new.
func (sh *Shard) Raise(g primary.Generation, r primary.Ruling) {
	next := &floor{g, r}
	for {
		old := sh.lead.floor.Load()
		if !old.rises(next) {
			return
		}
		if sh.lead.floor.CompareAndSwap(old, next) {
			break
		}
	}
	sh.closeOutdated()
}

// Fence says that a timeline and those before it are over, because a standby is about to be promoted. Connections to servers of these
// timelines are closed, also those that sessions use, and none is opened. 0 takes that back.
func (sh *Shard) Fence(timeline uint32) {
	if sh.lead.fence.Swap(timeline) < timeline {
		sh.closeOutdated()
	}
}

// closeOutdated closes the connections to servers that have been replaced.
func (sh *Shard) closeOutdated() {
	var late []*Conn
	for _, c := range sh.pool.processes.of(sh) {
		if c.outdated() != nil {
			late = append(late, c)
		}
	}
	if len(late) == 0 {
		return
	}
	sh.dismiss(everyKey, true)
	for _, c := range late {
		c.GiveUp()
	}
}

// Generation returns the highest generation that is known of the shard.
func (sh *Shard) Generation() primary.Generation {
	if g := sh.lead.floor.Load(); g != nil {
		return g.Generation
	}
	return primary.Generation{}
}

// hosts returns the addresses to dial, in order: the primary, or all servers if it is not known which one that is.
func (sh *Shard) hosts() []string {
	if sh.standby != nil {
		return []string{sh.standby.address}
	}
	all := sh.spec.Load().Hosts
	if len(all) == 1 {
		return all
	}
	if p := sh.lead.primary.Load(); p != nil && slices.Contains(all, *p) {
		return []string{*p}
	}
	if p := sh.lead.last.Load(); p != nil && *p != all[0] && slices.Contains(all, *p) {
		rest := slices.DeleteFunc(slices.Clone(all), func(h string) bool { return h == *p })
		return append([]string{*p}, rest...)
	}
	return all
}

// led notes that a login has found a primary, or a standby where that was sought.
func (sh *Shard) led(host string) {
	if sh.standby != nil {
		sh.standby.answered()
		return
	}
	if p := sh.lead.last.Load(); p == nil || *p != host {
		sh.lead.last.Store(&host)
	}
}

// shareOf returns how long the next of n servers may take, so that the others have as much of the time that is left.
func shareOf(ctx context.Context, n int) time.Duration {
	end, _ := ctx.Deadline() // all callers have one
	return time.Until(end) / time.Duration(n)
}

// mayLead reports whether another server may be the primary, after a login to one has failed.
func mayLead(err error) bool {
	switch pgerr.From(err).Code {
	case pgerr.ConnectionFailure, pgerr.CannotConnectNow, pgerr.AdminShutdown, "57P02", pgerr.TooManyConnections:
		return true
	}
	return false
}

// failures are why logins to the servers of a shard have failed.
type failures struct {
	hosts []string
	errs  []error
}

func (f *failures) add(host string, err error) {
	f.hosts, f.errs = append(f.hosts, host), append(f.errs, err)
}

// error returns the error for the client. A server's answer that concerns the client comes before what says that a server is no primary.
func (f *failures) error(sh *Shard) error {
	if len(f.errs) == 1 {
		return f.errs[0]
	}
	code, said := pgerr.ConnectionFailure, []string(nil)
	for i, err := range f.errs {
		e := pgerr.From(err)
		if !mayLead(err) || e.Code == pgerr.TooManyConnections {
			return err
		}
		if e.Code == pgerr.CannotConnectNow {
			code = e.Code
		}
		said = append(said, f.hosts[i]+": "+e.Message)
	}
	return pgerr.New(code, "no server of shard %q is a primary that can be reached", sh.Name).
		WithDetail("%s.", strings.Join(said, "; ")).WithCause(errors.Join(f.errs...))
}

// standby is the error for a server that is in recovery.
func (c *Conn) standby() error {
	return pgerr.New(pgerr.CannotConnectNow, "server %s of shard %q is a standby", c.host, c.Shard()).
		WithCause(errNoPrimary).
		WithHint("If the primary is another server, add it to the hosts of the shard. If this one is to be the primary, it has to be promoted.")
}

// outdated returns the error for a backend whose server has been replaced: another server was promoted, or is about to be. It returns nil
// for others.
func (c *Conn) outdated() error {
	lead, said := &c.lane.shard.lead, ""
	switch floor := lead.floor.Load(); {
	case c.generation.Timeline == 0:
		return nil
	case floor != nil && floor.Above(c.generation):
		said = fmt.Sprintf("another server has been promoted to timeline %d", floor.Timeline)
	case floor != nil && floor.ruling.Bars(c.generation.Timeline, c.host):
		said = "an operator has accepted " + floor.ruling.Address + " as its primary"
	case c.generation.Timeline <= lead.fence.Load():
		said = "another server is about to be promoted"
	default:
		return nil
	}
	return pgerr.New(pgerr.CannotConnectNow, "server %s of shard %q is not the primary any more", c.host, c.Shard()).WithCause(errNoPrimary).
		WithDetail("It is on timeline %d, and %s.", c.generation.Timeline, said).
		WithHint("Stop the server and make it a standby of the primary, with pg_rewind or a new base backup. What was written to it since the promotion is not part of the shard.")
}

// Generation returns what the backend's server said of its generation at login. It is zero if the server was not asked.
func (c *Conn) Generation() primary.Generation { return c.generation }
