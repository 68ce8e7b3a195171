// Package heat says which keys, buckets and shards statements use most, from a sample of the
// statements. It takes values and returns values: it has no clock and does no I/O.
//
//	session ──Meter──▶ Sample ──▶ Sampler ──Drain──▶ Picture ──Report──▶ views, other proxies
//	executor.Binder ──▶ Key, Watch
//
// The life of a sample:
//  1. A statement is over. Cost says what it has cost, and the session's Meter whether it is
//     sampled: the chance grows with the cost, so a few heavy statements are seen as surely as many
//     light ones. Most statements are not sampled and cost a multiplication.
//  2. A sample gets a weight, by which it stands for the statements that were not sampled. The sum
//     of weight × x over all samples is an unbiased estimate of the sum of x over all statements,
//     whatever x is: calls, rows, bytes, time.
//  3. Sampler.Put keeps it in one of a few buffers. Sampler.Drain empties them a few times a second,
//     and changes the chance so that about as many samples come as were asked for, at any load.
//  4. Picture.Add adds it up: for the shard and the bucket, and for the key and the statement, each in
//     a Summary that keeps the heaviest ones and knows how wrong it is. Picture.Decay forgets the past, half of it every
//     HalfLife.
//  5. Picture.Report is the picture in amounts per second. Merge puts the reports of several proxies
//     together. Spread says of a report how evenly work is spread.
//
// A Key is known by a hash of its value. The value itself is asked for by a Watch, and only if the
// key has become warm.
//
// Nobody here owns a goroutine. Start reading at Meter.
package heat
