// Package catalog holds what weft knows of a database's schema, as values.
//
//	pool runs a query on a shard ──rows──▶ catalog ──value──▶ proxy
//
// Nothing here does I/O: whoever loads a value passes rows in. Start reading
// at Effects: which of the user's functions may change the session that calls
// them.
package catalog
