// Package limit finds how many backends of a shard may work for clients at a time.
//
//	heat.Brief of all proxies, word of the shard ──Facts──▶ Limit.Next ──▶ Limit ──▶ pool.SetLimit of each proxy
//
// A shard with more statements than it can work on does not get more done: it only takes longer for each. The
// configuration bounds connections by one number for good and bad days. A Limit is at most that number, and lower while
// a lower one does no harm:
//
//  1. Each statement is compared with its own past. Base is how long a statement takes while the shard has room, so
//     that statements of 0.2 ms and of 2 s can be mixed in any way. Bases are learnt only while few backends are lent.
//  2. The slowdown of a second is the median of all statements' ratios to their bases, by cost. Work is what the
//     statements of the second would have cost without slowdown: a measure of what the shard gets done.
//  3. If the slowdown is above tooSlow for a few seconds, the limit is lowered by one step. When the
//     step has had its effect, work is compared: if more than a little was lost, the backends were needed, and the step is
//     taken back. Otherwise the next step follows.
//  4. A limit that keeps clients waiting goes a step up where a step down was taken back, and where the shard is neither
//     too slow nor well. The step is taken back unless more work is done.
//  5. Below wellSlow the limit rises without such trials while it keeps clients waiting, up to the fixed number.
//
// While backends wait for locks, nothing changes: fewer of them would not make locks free. Where nothing is known, the limit
// rises: not to limit is what happens without this package.
//
// A Limit is a value that holds all that is known, so that another proxy can go on with it. No clock, no I/O. Start
// reading at Limit.Next.
package limit
