// Package floor raises sequences of the home shard that a failover has taken back.
//
//	source of draws ──Ensure──▶ Floors ──▶ home shard: how far is the sequence?
//	                              ├──────▶ other proxies: how far have they drawn?
//	                              └──────▶ all shards: what do rows have?
//
// A draw is durable before its values are used, see package sequence. With synchronous standbys that is all there is to do. Without, a
// standby that is promoted may not have the last draws, and would give the same values again, to rows on other shards, where no index compares them with
// those of the first time.
//
// So the first draw from each sequence on each timeline of the home shard is preceded by this:
//
//  1. The sequence is locked by an advisory lock, which draws do not take: one proxy does what follows, and table weft.floor tells the
//     others that it was done.
//  2. All proxies say how far they have drawn. From then on they use no value that they draw from the old primary.
//  3. All shards say what the last values in their rows are, and in their lots (package lot): proxies that are dead cannot say how far they
//     have drawn.
//  4. The sequence is set above all of that, if it is not.
//
// Draws wait meanwhile, and nothing else does.
//
// Floors starts no goroutines of its own but for asking shards, and waits for those. Start reading at Floors.Ensure.
package floor
