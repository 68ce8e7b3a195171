// Package explain shows people how a query over several shards is answered.
//
//	plan.Gather ──┐                    ┌──▶ lines: EXPLAIN, weft plan
//	one execution ┴─▶ New ─▶ Report ───┤
//	shards' own plans ──────────────▶  └──▶ JSON: EXPLAIN (FORMAT JSON)
//
// A Report is a tree in PostgreSQL's manner, with one node of weft's own on top
// and one per shard below it, so that what reads plans of PostgreSQL's can read
// these: Node Type, Plans. Who has run the query fills in what was counted, and
// who has asked the shards puts their own plans in; weft plan does neither.
//
// Nothing here talks to anybody. Start reading at Report.
package explain
