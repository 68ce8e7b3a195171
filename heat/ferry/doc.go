// Package ferry lets sessions that send the same read at the same time share one execution of it. It has no clock and does no
// I/O: times come from the caller, and the caller waits and executes.
//
//	Pier.Board ──▶ Passage ──Leads──▶ Sail ──▶ Land ──┐
//	                  └──── waits ◀──── Answer ◀──────┘
//
// A ferry is one execution of a read. The life of a ferry:
//  1. A Pier is where the reads of one hot key begin. Reads are the same if their identities are equal.
//  2. A session that boards gets a Passage. If fewer than Ferries executions of the read are under way, the session leads: it
//     executes the read. Otherwise it waits for the next ferry, with all who come after it, and the first of them leads when an
//     execution ends.
//  3. The one that leads calls Sail right before it sends the read. Nobody boards from then on.
//  4. Land hands the answer to all who wait. If there is no answer that can be shared, Leave sends them on, and each executes
//     the read itself.
//
// The server takes the snapshot of a read after the read was sent, and the read was sent after the last session had boarded. So each
// answer has all that was committed before its session asked. A session never gets the answer of an execution that
// was under way when it came.
//
// Start reading at Pier.Board.
package ferry
