// Package plan holds what is to be done with a statement, as data.
//
//	planner ──Plan──▶ planner's cache ──▶ executor.Bind ──shards──▶ proxy
//
// A Plan is made once for all texts that differ only in literals, and says
// where the values are that decide: "the key of orders is literal 2". Which
// shards that means is found at each execution, from the values and the
// snapshot of the moment, so a moved bucket makes no plan stale.
//
// Plans are immutable and shared. Nothing here executes anything. Start reading
// at Plan.
package plan
