// Package pause says when work that has failed is tried again: after a pause that doubles.
//
// Background work is tried for all databases of a shard, again and again. A database that was dropped behind weft's
// back must not keep every proxy busy. Start reading at Pauses.Due.
package pause
