// Package executor finds, for one execution of a plan, the shards it visits.
//
//	planner's cache ──Plan──┐
//	client's values ──Args──┼──▶ Binder.Bind ──▶ Shards ──▶ proxy
//	directory.Snapshot──────┘
//
// A plan says where the values are that decide; Bind takes them from the
// client's text or Bind message, brings each to the form its column's type
// gives it, asks the vindex for its bucket and the snapshot for the bucket's
// shard. What cannot be told for certain (a date that depends on a setting, an
// escape only the server knows) restricts nothing, so Bind may name too many
// shards and never too few.
//
// Generate's edits, which put values that weft supplies into an INSERT, are
// applied here too.
//
// Nothing here does I/O. A Binder belongs to one session and holds the buffers
// it reuses: binding a statement to one shard does not allocate. Start reading
// at Binder.Bind.
package executor
