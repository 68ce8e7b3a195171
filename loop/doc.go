// Package loop lets many clients be served by few threads.
//
// Go gives each client a goroutine. A goroutine that waits for a socket is parked by Go's poller and woken by Go's
// scheduler, often on another thread: for a proxy, which waits twice in each short statement, that costs more than the
// statement itself. A Loop does the same with less. It has one epoll set; the goroutine that drives the loop asks for sockets
// that have become ready and switches directly, without the scheduler, to the Task that waits for each of them:
//
//	                 ┌──────────── Loop ────────────┐
//	sockets ──epoll──▶ driver ──switch──▶ Task       │
//	                 │    ◀──waits for a Conn──┘      │
//	                 └──────────────────────────────┘
//
// A Task is a coroutine: ordinary code with a stack of its own, which reads from and writes to a Conn as if it were alone. Where
// that code would block, the Task lets the driver go on, and the driver comes back to the Task when the socket is ready.
//
// # Leaving the loop
//
// Code that waits for anything but a Conn of its Task, or computes for long, would hold up all others. It calls Task.Leave
// first: another goroutine becomes the driver, and the Task goes on as an ordinary goroutine until Task.Return. A Task that has
// forgotten to leave is found by a watcher within some milliseconds, and made to leave; see Loop.Stalls. So a missing
// Leave costs time, and never stops the loop.
//
// # Conns
//
// Conn is a net.Conn whose descriptor the loop watches. Any goroutine may use a Conn, close it, or set its deadlines. A Conn that is
// bound to a Task (Conn.Bind) makes that Task wait in the loop; any other user of a Conn waits as a goroutine does.
//
// The package works on Linux. Elsewhere New returns an error, and callers keep to goroutines.
package loop
