// Package rebalance says which buckets should be on which shard. It is a pure function of what
// buckets cost, what shards can hold and where buckets are: the same input gives the same plan.
//
// Plan first takes away what must not stay: buckets of shards that are drained, and buckets that
// pins want elsewhere. Then it takes, again and again, from the fullest shard the bucket that
// brings the cluster closest to its shares for the least cost of moving it, until every shard is
// within the threshold of its share, or another move would not be worth it.
//
// Plans by load are more careful, because loads change and are estimates: they wait until a shard is
// off by more than noise and the threshold, leave alone what was moved of late and what is hot because
// of one key, and take what brings most relief for the bytes to carry. Levels and Rest explain a plan.
//
// Relieve is for shards that have more work than they can do: it returns steps, one for each such shard, and why
// nothing is done where nothing would help.
//
// Start reading at Plan.
package rebalance
