// Package reshard decides, without I/O, how rows change shards while clients read and write.
//
// A job has a target placement. It works in rounds: a round carries a few buckets, in one
// transaction of their old and their new shards. Before the round moves a row, every proxy
// holds the statements that could see the row twice or not at all, and says when nothing of
// the kind is in flight any more.
//
//	Touch   what a statement touches: no bucket, some, or all; reading or writing
//	Notes   what the transaction of one session has touched and still may
//	Barrier the round in force in a database: which touches it holds, for which notes it waits
//	Batch   which buckets go next, and how many, so that no client waits for long
//
// Start reading at Barrier: its two methods are the table of who waits for whom. Package
// proxy keeps a Notes in each session and asks the Barrier before it sends; package
// reshard/carrier moves the rows.
package reshard
