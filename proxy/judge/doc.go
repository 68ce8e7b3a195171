// Package judge decides once a second what is hot in the cluster, in one proxy for all.
//
//	all proxies ──heat.Brief──┐
//	all shards ──Word─────────┴─▶ Judge of the first proxy ──State──▶ Judges of the others
//
// Proxies have an order: by the epoch of their entry in the directory, which is their age. The first of
// them judges. The others ask it once a second for what it has found, so that views are the same through every
// proxy, and so that one of them can go on if it falls silent:
//
//  1. Judge.Second asks the proxies before this one, one after the other. The first that answers is right,
//     whether it judges itself or knows of one that does.
//  2. A proxy that has missed silentAfter answers is passed over. If all before this one are, or there is
//     none, this one judges, and begins with the findings that it has heard of last.
//  3. Two proxies that judge for a moment do no harm: nothing is stored, and the later one stops as soon as
//     it hears of the other.
//
// Times between proxies are told in seconds that have passed, never as times of a clock.
//
// Judge.Run owns the goroutines and waits for them. Start reading at Judge.Second.
package judge
