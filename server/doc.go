// Package server puts a proxy together from a config.Config: directory, pools,
// authentication, the proxy itself and HTTP, started and stopped in an order
// that never shows a client something half there.
//
//	weft serve, weft dev, integration
//	          │ Start
//	          ▼
//	       Server ──▶ http, directory.Current, auth, proxy (which owns the pools)
//
// The life of a Server:
//
//  1. Start brings HTTP up first: while the rest waits, /livez is fine and
//     /readyz tells what is waited for.
//  2. It waits for the first snapshot, however long etcd is away.
//  3. It listens for clients, and lists the proxy in the directory.
//  4. Drain stops listening, makes /readyz fail and lets running transactions
//     finish.
//  5. Close ends what is left and returns when every goroutine has.
//
// Server owns three goroutines: keeping the snapshot fresh, the registration,
// and accepting clients. Start reading at Start.
package server
