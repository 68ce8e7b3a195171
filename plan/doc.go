// Package plan holds what is to be done with a statement, as data.
//
//	planner ──Plan──▶ planner's cache ──▶ executor.Bind ──shards──▶ proxy
//
// A Plan is made once for all texts that differ only in literals, and says where
// the deciding values are: "the key of orders is literal 2". The shards are found
// at each execution, from the values and the current snapshot, so a moved bucket
// makes no plan stale.
//
// Plans are immutable and shared, but for Known, which the first execution sets.
// The package executes nothing. Start reading at Plan.
package plan
