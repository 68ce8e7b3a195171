// Package throttle limits what a key, a bucket, a shard, a statement, a user, a database or an
// application may do, for a time. It has no clock and does no I/O: times come from the caller, and the
// caller waits.
//
//	Rule ──Validate──▶ directory ──▶ NewTable ──▶ Table.Match ──▶ Ask ──▶ Leave
//
// The life of a rule in one proxy:
//  1. A Rule says whom it concerns (Target), what they may do (Limit), and for how long.
//  2. A Live is a rule in effect, with what this proxy has counted. It ends by the clock of the proxy,
//     whatever the directory says.
//  3. A Table is all rules in effect. It is never changed: the proxy swaps a pointer, nil for no rule.
//     Places, a part of a table, is what routing looks at to find keys and buckets.
//  4. Ask says how long a transaction that is about to begin waits, and whether it is refused then. Of several
//     rules the strictest decides. Charge counts a statement that may not wait.
//  5. A limit of the cluster is split over the proxies by what their clients ask for: see Part.
//
// Adjust makes the automatic rules of a second from what is hot.
//
// Start reading at Rule, then Ask.
package throttle
