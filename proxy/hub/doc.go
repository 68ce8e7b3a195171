// Package hub delivers notifications to sessions that LISTEN.
//
//	NOTIFY ──▶ shard ──▶ ear ──▶ Hub.hear ──▶ Listener.Put, Listener.Wake ──▶ client
//
// A session that listens keeps no backend for it. Each database has one Hub, and the hub
// has one ear, a backend that listens, on every shard where something can be notified. The
// goroutine of an ear reads from its backend; commands are written by sessions, under the
// hub's lock, and answered in order.
//
// What must never happen is that a notification is lost in silence. A session whose ear
// is lost is ended and told so. Start reading at Hub.Set.
package hub
