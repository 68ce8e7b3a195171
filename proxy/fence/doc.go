// Package fence registers the backends of one proxy with the databases of shards, so that a shard can
// end them when the directory has lost the proxy.
//
//	pool ──new backend──▶ Registrar ──proxy, epoch──▶ shard
//	jobs ──Renew, Enroll──▶   │  ▲
//	                          ▼  └──list of proxies── directory
//	                 is everything registered? (Complete)
//
// A proxy that no longer hears of changes sends statements to where rows no longer are. Before a job
// counts on the absence of a proxy it fences the shards: they end all backends that are not registered by
// a proxy of the list, and take no new ones (schema.Mover.Fence). The life of a registration:
//
//  1. The pool asks Registrar.Statement how a new backend registers. Backends of databases without
//     declared tables do not.
//  2. A shard may refuse. Registrar.Failed says what the client is told, and whether to try again. A shard
//     that keeps out a proxy which is alive is told so (Registrar.appeal).
//  3. A proxy that was lost and listed again has a new epoch. Registrar.Renew registers the backends of the
//     old one under the new one, where no fence has kept the old one out meanwhile.
//  4. Backends that were opened before a database had declared tables are registered by Registrar.Enroll, as
//     soon as there is a job. A round begins when all are: Registrar.Complete.
//
// A Registrar starts a goroutine per appeal and per renewal, with Config.Spawn, which waits for it. Start reading at
// Registrar.Statement.
package fence
