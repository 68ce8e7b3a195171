// Package lookout finds transactions that wait for each other over several shards, and makes one
// of each circle give way.
//
//	Sessions.Parties ──┐
//	weft.party ────────┼──▶ Lookout.lookAt ──▶ deadlock.Find ──▶ Sessions.GiveWay (40P01)
//	pg_locks ──────────┘
//
// Package deadlock decides, from facts. Package lookout collects the facts:
//
//  1. Every 250 ms Lookout.look asks the proxy for the sessions that are busy on several shards.
//     As long as none of them has been busy with one message for 400 ms, no shard is asked.
//  2. Otherwise the proxies tell each other which backends belong to one transaction, through
//     table weft.party on the home shard (Lookout.exchangeParties). In a deadlock all
//     transactions wait, so the proxies of all of them are looking.
//  3. Then every shard is asked who waits for whom (Lookout.waits). A shard that does not answer
//     is left out: the waits on the others are still true.
//  4. Two looks that agree prove a deadlock. The proxy of the victim makes the victim's session
//     give way; the other proxies do nothing.
//
// A database in which sessions wait is a scene. The lookout has its own connection to each shard
// of a scene, and closes them when the waiting is over.
//
// One goroutine, that of Lookout.Run, owns everything here; questions to several shards run on
// goroutines that end before Lookout.waits returns. Start reading at Lookout.look.
package lookout
