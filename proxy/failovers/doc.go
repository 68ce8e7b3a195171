// Package failovers notes each change of a shard's primary, and what it may have lost.
//
//	views of the shards' servers (package primary) ──▶ Recorder ──▶ directory, log, metrics
//
// While a shard has its primary, the Recorder remembers how far the primary had written, and when. After a promotion it compares that
// with where the new timeline begins: what the old primary wrote beyond is lost, at least, and nothing that was committed before the last time
// at which the old primary had written no further. Where all commits have waited for a synchronous standby, what no standby had received was not acknowledged,
// and does not count as lost.
//
// Every proxy does so, and the directory keeps what they know together. Goroutines: Recorder.Run, and one that writes to the directory, which Run
// ends. Start reading at Recorder.look.
package failovers
