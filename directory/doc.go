// Package directory holds what every proxy of a cluster must agree on: the
// cluster as one immutable Snapshot, and the Store it is kept in.
//
//	weft apply ──Update──▶ Store ◀──Watch── Current ──Snapshot()──▶ a statement
//	                         │
//	           directory/etcd, directory/embedded
//
// The life of a snapshot:
//
//  1. Update reads the stored snapshot, hands it to a function, validates the result
//     and writes it if there was no other write in between. Else Update tries again,
//     so the function may run several times.
//  2. The write gets a Version: the store's revision number, which only grows.
//  3. Current, one per process, watches the store and swaps an atomic pointer.
//  4. A statement loads that pointer once and uses that version to its end. A
//     snapshot is never changed in place: Clone it.
//
// To the author of a change the snapshot is one document: a single compare-and-swap
// covers any change, however many parts it touches, and a watcher never sees half of
// one. A store keeps the snapshot as a head, which is written with every change and
// whose revision is the version, and parts beside it: the placement, and the declared
// tables in chunks. A change writes only the parts that changed, so that the count of
// schema changes, which every DDL increments, costs the same with 10,000 tables as
// with ten; a change fits in one transaction of etcd.
//
// Unbounded or short-lived data is not in the snapshot. Proxies have their own entries,
// which vanish with their lease (Registry); each proxy tells which version it serves, so
// that a caller can wait until all have seen a change. The entries of lookups (Lookups)
// come and go one by one beside the snapshot; a watch brings both in the order in which
// they were written, so a process that serves a version knows every entry older than
// that version.
//
// SetShards says where buckets are, Snapshot.Entry where the values of lookups are.
//
// The encoding carries a format number, and fields that this binary does not know are
// refused: a proxy that ignored them would route wrongly, and its Update would erase
// them. Such a proxy keeps its last good snapshot.
//
// When the store is away Current serves the last snapshot; only changes fail, with
// ErrUnavailable. The package starts no goroutine but the one that the caller of
// Current.Run starts and waits for.
//
// Start reading at Snapshot, then Store and Current. directory/storetest is
// the suite that every Store passes.
package directory
