// Package directory holds what every proxy of a cluster must agree on: the
// cluster as one immutable Snapshot, and the Store it is kept in.
//
//	weft apply ──Update──▶ Store ◀──Watch── Current ──Snapshot()──▶ a statement
//	                         │
//	           directory/etcd, directory/embedded
//
// The life of a snapshot:
//
//  1. Update reads the stored snapshot, hands it to a function, validates what
//     comes back and writes it if nobody else wrote in between. It tries again
//     until it wins, so the function may run several times.
//  2. The write gets a Version: the store's revision number, which only grows.
//  3. Current, one per process, watches the store and swaps an atomic pointer.
//  4. A statement loads that pointer once and lives with that version to its
//     end. Nobody ever changes a snapshot in place: Clone it.
//
// The snapshot is one document to whoever changes it: a single compare-and-swap
// covers any change, however many parts it touches, and a watcher never sees
// half of one. A store keeps it as a head, which is written with every change
// and whose revision is the version, and parts beside it: the placement, and
// the declared tables in chunks. A change writes the parts that changed, so
// that the count of schema changes, which every DDL moves on, costs the same
// with 10,000 tables as with ten; all of it fits in one transaction of etcd.
//
// What is unbounded or short-lived does not go in. Proxies are entries of their
// own that vanish with their lease (Registry); each tells which version it
// serves, so that whoever must know can wait until all have seen a change. The
// entries of lookups (Lookups) come and go one by one beside the snapshot; a
// watch brings both in the order in which they were written, so a process that
// serves a version knows every entry older than it.
//
// Where buckets are: see SetShards. Where the place of a value of a lookup is:
// see Snapshot.Entry.
//
// The encoding carries a format number, and fields this binary does not know
// are refused: a proxy that ignored them would route wrongly, and an Update
// by it would erase them. Such a proxy keeps its last good snapshot.
//
// When the store is away Current serves the last snapshot; only changes fail,
// with ErrUnavailable. Current.Run owns the only goroutine-worth of work here;
// its caller starts it and waits for it.
//
// Start reading at Snapshot, then Store and Current. directory/storetest is
// the suite that every Store passes.
package directory
