// Command bench measures what weft costs: the same work sent to PostgreSQL directly, through PgBouncer and
// through weft.
//
//	          ┌──────────── direct ────────────┐
//	pgbench ──┼── PgBouncer ───────────────────┼──▶ shard 0 of `weft dev --shards 4`, database plain
//	          ├── passthrough (-baseline) ─────┘         ▲
//	          └── weft serve (the one measured) ─────────┤ workloads home-*, idle, stream
//	                        │
//	                        └─▶ shards 0 to 3, database app: the same rows, sharded
//
// Direct and PgBouncer have all rows on one server. weft has them over the shards, and finds the one that each
// statement belongs to; the home-* workloads show it in a database without sharded tables, where it routes nothing.
//
// A run goes like this:
//
//  1. main parses the options and makes a lab: a temporary directory and the processes in it (lab.go).
//  2. `weft dev` brings up PostgreSQL and etcd. The proxy that is measured is a second one, `weft serve`, so that
//     etcd's own work is not counted as the proxy's.
//  3. The pgbench tables are filled, on one server and, through weft, a second time for the shards; then they are
//     declared as sharded, which distributes their rows (fill.go).
//  4. Idle memory and streaming come first, while the proxies are fresh: a Go process keeps the heap of
//     earlier work for a while, and growth measured afterwards would look like nothing.
//  5. Statements over all shards follow, one client, beside the same rows on one server; first the one that
//     merges all rows, whose memory counts (scatter.go).
//  6. Every cell (workload, mode, clients) is run in rounds, each round visiting all targets, and the median of the
//     rounds is printed. A neighbour that wakes up on the machine then disturbs all targets alike. Ratios are
//     medians too, of what each round's neighbours gave. Where weft has a goal it stands beside the ratio.
//  7. The lab stops what it started, in reverse order, also on Ctrl-C.
//
// The figure to look at is CPU per transaction. Transactions per second through any proxy on a small machine say
// mostly how the scheduler shared two cores between pgbench, the proxy and PostgreSQL; the CPU time of the proxy's
// process, read with nanosecond precision from the kernel's per-process clock, says what the proxy itself did.
//
// Start reading at main.go, then lab.go and cell.go.
package main
