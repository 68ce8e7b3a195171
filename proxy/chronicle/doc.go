// Package chronicle remembers what was hot: the work of all buckets of the cluster over the last hour and
// the last day.
//
//	own samples ──heat.Instant──┐
//	other proxies ──Instant─────┴─▶ Chronicle ──heat.Map──▶ dashboard
//
// Every proxy keeps a chronicle of its own, of the work of all proxies together, from its start on: a
// dashboard shows the same whichever proxy is asked, and nothing is lost with another proxy. An Instant is
// a few kilobytes, and is asked for every few seconds.
//
// Chronicle.Run records until its context ends, on the goroutine of its caller. Start reading there.
package chronicle
