// Package dialogue is the console's side of the wire protocol.
//
//	psql -d weft ──message──▶ proxy ──Dialogue.Message──▶ console.Run
//	     ◀───────bytes─────── wire.Out ◀─────┘
//
// A Dialogue is what one client of the console has in the place of a backend: prepared
// statements, portals, and whether the client believes to be in a transaction. It takes
// messages and appends answers; it reads and writes no socket. Drivers speak the extended
// protocol to the console as to any database. The commands take no parameters, and their
// columns are known without running them.
package dialogue
