// Package executor finds, for one execution of a plan, the shards it visits.
//
//	planner's cache ──Plan──┐
//	client's values ──Args──┼──▶ Binder.Bind ──▶ Shards ──▶ proxy
//	directory.Snapshot──────┘
//
// A plan says where the deciding values are. Bind takes each value from the client's text or
// Bind message, converts it to its column's type, asks the vindex for its bucket and the
// snapshot for the bucket's shard. A value that cannot be told for certain (a date that depends
// on a setting, an escape only the server knows) restricts nothing, so Bind may name too many
// shards and never too few.
//
// The package also applies the edits of plan.Generate, which put values that weft supplies into
// an INSERT.
//
// The package does no I/O. A Binder belongs to one session and reuses its buffers: binding a
// statement to one shard does not allocate. Start reading at Binder.Bind.
package executor
