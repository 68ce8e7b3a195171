// Package recording holds a sample of transactions: which statements they had, and which of the
// values in them were equal.
//
//	sessions ──Put──▶ Recorder ──Transactions──▶ weft.recorded() ──▶ package advise
//
// The life of a recording:
//
//  1. An operator starts a recording, and all proxies make a Recorder with the same random Key.
//  2. A session asks Chosen whether the transaction that begins is one of the sample, collects its
//     executions, and puts the whole when it has ended.
//  3. Of more than MaxTransactions a Recorder keeps a random choice, so that a recording shows all of
//     its time and not the beginning only.
//
// Values are kept as sums under the Key, never as they are: two values can be told to be equal, and
// nothing else is known of them. A Recorder forgets nothing until it is dropped, and its memory is
// bounded. The package has no clock and starts no goroutines: the caller ends a recording.
//
// Start reading at Recorder.
package recording
