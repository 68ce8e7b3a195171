package twopc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"weft/quote"
)

// A participant enters a row of weft.part in its own transaction, under the name by which it prepares, if a failover of any shard of the transaction could
// lose a part of it. The row is there if, and only if, the participant has committed: so it can be told after a failover whether the new primary has
// the part. Rows are deleted after the decision, when no failover can bring the decision back.

// EnterPartSQL enters a row of weft.part.
const EnterPartSQL = "INSERT INTO weft.part (gid, proof) VALUES ($1, $2)"

// PartParameters returns the parameters of EnterPartSQL. secret is the secret of the database.
func PartParameters(secret, gid string) []string {
	return []string{gid, string(appendProof(nil, secret, gid))}
}

// partsSQL lists those of some names that have a row in weft.part.
func partsSQL(names []string) string {
	return "SELECT d.gid FROM weft.part d, weft.own o WHERE " + genuine + " AND d.gid IN (" + literals(names) + ")"
}

// ForgetPartsSQL deletes rows of weft.part, without waiting for the disk.
func ForgetPartsSQL(names []string) string {
	return "BEGIN; SET LOCAL synchronous_commit = off; DELETE FROM weft.part WHERE gid IN (" + literals(names) + "); COMMIT"
}

// literals writes names as a list of SQL literals. IN () is no SQL: without names the list has one that no transaction has.
func literals(names []string) string {
	if len(names) == 0 {
		return "''"
	}
	var b strings.Builder
	for i, n := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(quote.Literal(n))
	}
	return b.String()
}

// PartAge is how old a row of weft.part is before resolvers that did not make it look whether it is still needed.
const PartAge = 10 * time.Minute

// SweepParts deletes the rows of weft.part, in a database of a shard, that are older than PartAge and whose decisions are gone.
func (r *Resolver) SweepParts(ctx context.Context, shard, database string) error {
	byDecider := map[string]map[string][]string{} // names by key
	err := r.on(ctx, shard, database, func(c Conn) error {
		rows, err := c.Exec("SELECT pg_catalog.to_regclass('weft.part') IS NOT NULL")
		if err != nil || len(rows) == 0 || rows[0][0] != "t" {
			return err
		}
		rows, err = c.Exec(fmt.Sprintf("SELECT gid FROM weft.part WHERE entered < pg_catalog.clock_timestamp() - '%d s'::interval LIMIT 1000", int(PartAge.Seconds())))
		for _, row := range rows {
			n, ok := ParseName(row[0])
			if !ok {
				n = Name{Decider: shard, Nonce: row[0]} // not weft's: no decision has this key
			}
			if byDecider[n.Decider] == nil {
				byDecider[n.Decider] = map[string][]string{}
			}
			byDecider[n.Decider][n.Key()] = append(byDecider[n.Decider][n.Key()], row[0])
		}
		return err
	})
	if err != nil {
		return err
	}
	var errs []error
	for decider, names := range byDecider {
		err := r.on(ctx, decider, database, func(c Conn) error {
			rows, err := c.Exec("SELECT d.gid FROM weft.decision d, weft.own o WHERE " + genuine + " AND d.gid IN (" + literals(slices.Collect(maps.Keys(names))) + ")")
			for _, row := range rows {
				delete(names, row[0])
			}
			return err
		})
		if err != nil && (r.Left == nil || !r.Left(ctx, decider)) {
			errs = append(errs, fmt.Errorf("shard %s: %w", decider, err))
			continue
		}
		if gone := slices.Concat(slices.Collect(maps.Values(names))...); len(gone) > 0 {
			errs = append(errs, r.on(ctx, shard, database, func(c Conn) error {
				_, err := c.Exec(ForgetPartsSQL(gone))
				return err
			}))
		}
	}
	return errors.Join(errs...)
}
