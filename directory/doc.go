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
// The whole snapshot is one value under one key. Then a single
// compare-and-swap covers any change, however many parts it touches; a watcher
// never sees half of one; and the version of the key is the version of the
// cluster. It stays small (a placement map of 4096 buckets is about 8 KB, a
// table's declaration about 200 bytes), far below etcd's limit of 1.5 MiB per
// value. What is unbounded or short-lived does not go in: proxies are entries
// of their own that vanish with their lease (Registry), and have no version.
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
