// Package takeover lets a new process serve in the place of a running one: it gets the listening sockets
// of the old process, so that no client meets a closed port.
//
//	old process                                  new process
//	Seat.Serve ◀──────────── hello ───────────── Take
//	           ─────── sockets (SCM_RIGHTS) ───▶ Hand   starts, and accepts nothing yet
//	           ◀──────────── ready ───────────── Hand.Ready   accepts
//	accepts no more, drains
//	           ───────────── done ─────────────▶ Seat
//
// All of it is in one directory, the run_dir, which belongs to the user of both:
//
//	weft.lock        locked by the process that serves, with its process ID
//	weft.sock        where that process is asked for its sockets
//	proxy-<id>.sock  where each process is reached by those beside it
//
// The life of a Seat, which one process has at a time:
//
//  1. Take gets the lock. If a process has it, Take asks that process and returns a Hand, or fails.
//  2. Hand.Ready turns a Hand into a Seat. The lock and weft.sock go from process to process with the other sockets:
//     the lock is free only when the process that has the seat ends.
//  3. Seat.Serve waits for the next process, and returns when that has the seat.
//
// Until the new process says that it is ready, its end changes nothing: the old one goes on. If the old process ends in that
// time, the new one has the sockets and goes on alone.
//
// Two processes then share one address for a while, and cannot be told apart by what is sent there. Beside passes on what is meant
// for the other one: cancel requests, and questions of other proxies.
//
// The package starts a goroutine per connection, with the guard of its caller; Serve waits for them. Start reading at Take.
package takeover
