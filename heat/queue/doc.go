// Package queue lets transactions that write one hot key wait in the proxy, before they hold a backend. It has no clock
// and does no I/O: times come from the caller, and the caller waits.
//
//	findings ──▶ NewTable ──▶ Table.Named, Spelled ──▶ Row.Enter ──▶ Place
//
// The life of a row's queue in one proxy:
//  1. A Hot is a key that is hot, with its whole spelling. The hash of a key alone never decides.
//  2. A Table is all hot keys. A table is never changed: the proxy swaps a pointer, nil for no hot key.
//  3. A transaction that is about to begin asks the Row for a Place. While the row is open, each gets one. While the row is
//     closed, as many have one as the row has slots, and the others wait in the order in which they came.
//  4. Row.Judge closes a row while the key is hot, and opens it when no transaction has had to wait for a while.
//
// A transaction waits for a place only if it holds nothing, and takes one place at most. So no cycle of transactions
// that wait for each other contains a place.
//
// Start reading at Row.
package queue
