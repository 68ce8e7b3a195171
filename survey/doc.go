// Package survey says what would become of all statements of an application in a cluster: which
// run on one shard, which visit several, which are refused.
//
//	cmd/weft ── texts, calls, times ──▶ Survey ──▶ planner: the plan of a text
//	                                      │
//	                                      ├──▶ executor: the shards of its values
//	                                      ▼
//	                                    Report ──▶ lines for people, JSON
//
// The life of a Survey:
//
//  1. New takes the cluster, its declarations and the schema.
//  2. Add takes a text, as often as it was run. Texts that differ in literals only are one
//     statement, and are planned once.
//  3. Values that are known lead to their shards, as in a proxy. A parameter without a value
//     (pg_stat_statements has $1 in the place of each) leads to one shard that is not known:
//     statements whose rows all have the same parameter for a key run on one shard (keys.go).
//  4. Report counts statements, calls and times by what becomes of them.
//
// The package is pure: no clock, no I/O. A Survey belongs to one goroutine.
//
// Start reading at Survey.Add.
package survey
