package twopc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Fate is what has become of a committed transaction of several shards, some of which have failed over since.
type Fate struct {
	Key string
	// Open says that the transaction is still prepared somewhere: ask again.
	Open bool
	// Kept are the shards that have their part, the deciding one first, and Lost are those that have not.
	Kept, Lost []string
	// Servers are the shards' servers now, by shard.
	Servers map[string]string
}

// States of transactions that a failover has harmed.
const (
	StateLost = "lost" // no shard has its part
	StateHalf = "half" // some shards have their parts, and others do not
)

// State returns StateLost or StateHalf, or an empty text if all shards have their parts.
func (f *Fate) State() string {
	switch {
	case len(f.Lost) == 0:
		return ""
	case len(f.Kept) == 0:
		return StateLost
	}
	return StateHalf
}

// holding is what one shard has of some transactions.
type holding struct {
	server   string
	timeline uint32
	prepared map[string]bool
	rows     map[string]bool // decisions by key, parts by name
}

// Fates finds out what has become of committed transactions of a database whose members are all Listed, and whose decisions and parts no process has deleted.
func (r *Resolver) Fates(ctx context.Context, database string, list []Decision) ([]Fate, error) {
	keys, names := map[string][]string{}, map[string][]string{}
	for _, d := range list {
		n, ok := ParseName(d.Key)
		if !ok {
			return nil, fmt.Errorf("%q is not the key of a decision", d.Key)
		}
		keys[n.Decider] = append(keys[n.Decider], d.Key)
		for _, m := range d.Members {
			n.Participant = m.Shard
			names[m.Shard] = append(names[m.Shard], n.String())
		}
	}
	var shards []string
	for s := range keys {
		shards = append(shards, s)
	}
	for s := range names {
		if keys[s] == nil {
			shards = append(shards, s)
		}
	}
	found, errs := make([]*holding, len(shards)), make([]error, len(shards))
	atOnce(len(shards), func(i int) {
		found[i], errs[i] = r.holdings(ctx, shards[i], database, keys[shards[i]], names[shards[i]])
	})
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	has := map[string]*holding{}
	for i, s := range shards {
		has[s] = found[i]
	}
	fates := make([]Fate, len(list))
	for i, d := range list {
		fates[i] = fateOf(d, has)
	}
	return fates, nil
}

// holdings asks a shard for those of some decisions and parts that it has.
func (r *Resolver) holdings(ctx context.Context, shard, database string, keys, names []string) (*holding, error) {
	h := &holding{prepared: map[string]bool{}, rows: map[string]bool{}}
	err := r.on(ctx, shard, database, func(c Conn) error {
		rows, err := c.Exec("SELECT weft.server()")
		if err != nil || len(rows) == 0 {
			return errors.Join(err, errNoAnswer(len(rows)))
		}
		h.server = rows[0][0]
		_, timeline, _ := strings.Cut(h.server, "/")
		n, err := strconv.ParseUint(timeline, 16, 32)
		if err != nil {
			return fmt.Errorf("weft.server() returned %q", h.server)
		}
		h.timeline = uint32(n)
		// First what is prepared: what is committed in between is found twice, and asked about again.
		if rows, err = c.Exec(FindSQL(r.Cluster)); err != nil {
			return err
		}
		for _, row := range rows {
			h.prepared[row[0]] = true
		}
		for _, sql := range []string{partsSQL(names), "SELECT d.gid FROM weft.decision d, weft.own o WHERE " + genuine + " AND d.gid IN (" + literals(keys) + ")"} {
			if rows, err = c.Exec(sql); err != nil {
				return err
			}
			for _, row := range rows {
				h.rows[row[0]] = true
			}
		}
		return barrier(ctx, c, shard)
	})
	return h, err
}

// fateOf draws the conclusion from what the shards have.
func fateOf(d Decision, has map[string]*holding) Fate {
	n, _ := ParseName(d.Key)
	f := Fate{Key: d.Key, Servers: map[string]string{}}
	note := func(shard string, there bool) {
		f.Servers[shard] = has[shard].server
		if there {
			f.Kept = append(f.Kept, shard)
		} else {
			f.Lost = append(f.Lost, shard)
		}
	}
	// A server that has answered COMMIT has it, whether or not the decision is still there.
	decided := has[n.Decider].rows[d.Key] || has[n.Decider].timeline == n.Timeline
	note(n.Decider, decided)
	for _, m := range d.Members {
		h := has[m.Shard]
		n.Participant = m.Shard
		gid := n.String()
		f.Open = f.Open || h.prepared[gid]
		note(m.Shard, h.rows[gid] || decided && h.server == m.Server)
	}
	return f
}

// Accept deletes the decision of a transaction, and then its parts, on the shards that it was about: an operator has dealt with what a failover
// has done to the transaction.
func (r *Resolver) Accept(ctx context.Context, database, key string, shards []string) error {
	n, ok := ParseName(key)
	if !ok {
		return fmt.Errorf("%q is not the key of a decision", key)
	}
	err := r.on(ctx, n.Decider, database, func(c Conn) error {
		_, err := c.Exec(ForgetSQL([]string{key}))
		return err
	})
	for _, shard := range shards {
		if err != nil {
			return err
		}
		if shard == n.Decider {
			continue
		}
		n.Participant = shard
		err = r.on(ctx, shard, database, func(c Conn) error {
			_, err := c.Exec(ForgetPartsSQL([]string{n.String()}))
			return err
		})
	}
	return err
}
