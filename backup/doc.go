// Package backup makes points to which all shards of a cluster can be restored together.
//
//	directory ──before──┐                        ┌──after── directory
//	                    ▼                        ▼
//	shards: lock weft.decision ─▶ restore points ─▶ unlock ─▶ Manifest
//
// Each shard is backed up by itself, with PostgreSQL's own means: base backups and archived WAL. What a cluster needs
// beside that is a moment that all shards have in common. The life of a point, made by Maker.Make:
//
//  1. The directory is read. A change of schemas that is being committed, a round of a move or a change of the
//     set of shards makes the attempt wait.
//  2. Every database with declared tables is locked on every shard: LOCK TABLE weft.decision IN SHARE MODE. The lock
//     waits for commits over several shards that are being decided, and keeps new ones out. Commits of one shard
//     and reads go on.
//  3. While all locks are held, pg_create_restore_point writes the point into the WAL of every shard, of the home
//     shard last: values of a sequence are drawn there before a row with them is committed elsewhere.
//  4. The locks go. If the directory has changed meanwhile, the attempt was in vain, and another one follows.
//  5. The Manifest says where the point is in the WAL of each shard, and has a copy of the directory.
//
// Why the shards are consistent: a transaction over several shards whose decision was entered before the locks were
// held was over by then. If it was committed, its deciding shard has it with its decision, and the other shards have it
// prepared or committed. A transaction whose decision was entered later is committed on no shard at the point. What is
// prepared after a restore is ended by the decisions (weft restore finish).
//
// Plan says how a shard is restored to a point, Arrived whether a server has been.
//
// Without I/O are Manifest, Plan, Arrived and the comparison of directories. Start reading at Maker.Make.
package backup
