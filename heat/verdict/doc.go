// Package verdict says what is wrong with the work of a cluster, why, and what to do about it. It takes
// values and returns values: it has no clock and does no I/O.
//
//	heat.Brief of all proxies ──┐
//	what shards say (Word) ─────┴─▶ Facts ──▶ Tracker.Second ──▶ []Finding ──▶ Finding.Words
//
// The life of a finding:
//  1. Once a second, the facts of that second are held against thresholds. Each test gives a grade:
//     over the threshold, over half of it, or below.
//  2. What was over in two of the last three seconds begins. It ends when it was below half of the
//     threshold for QuietFor. So a moment of much work is no finding, and one second without work does not end
//     one.
//  3. A finding has a reason: why the work is where it is, and so what would help.
//  4. A Tracker that another process continues begins with the findings of the one before.
//
// A warm key, bucket, statement or shard has much of the work. That hurts nobody. It is hot if its shard
// is saturated too: then others wait because of it, and a warning is due.
//
// Start reading at Tracker.Second; judge.go has the tests, reason.go the reasons, text.go the sentences.
package verdict
