// Package proxy is what a client talks to. It starts sessions, reads their
// messages, lends them backends and passes the answers back.
//
//	client ──▶ Server.handle ──startup──▶ Session.step ──▶ pool.Conn ──▶ shard
//	   ◀──────────── answers ◀──────────── pipe.relay ◀──────┘
//
// # The parts of a session
//
// Session ties its parts together: Session.step reads a message, switches on its type and calls
// the handler. Each part is a type with its own file. A part assigns its own fields;
// other parts only read them, see TestPartsOwnTheirFields.
//
// What is kept for the client:
//
//   - answers (out.go, audience.go): messages on their way to the client, and the parameters that
//     the client has been told.
//   - prepared (prepared.go, planned.go, sqlprepared.go, execute.go): prepared statements,
//     made on a backend when they are needed there.
//   - portals (portals.go, portal.go, bind.go, bind_route.go, cursor.go): where each portal
//     and cursor is, and what Bind does.
//   - record (record.go, effects.go, option.go, reading.go, listen.go): settings, pins and
//     channels; what a backend must have before it works for the session.
//   - drawn (drawn.go, generate.go, identity.go): values of sequences.
//   - account (account.go, run.go, trace.go): counts, spans and memory.
//   - reach (reach.go, interrupt.go, patience.go, party.go): the only part that other
//     goroutines touch, to cancel, end, wake or look at the session.
//
// The dialogue with shards:
//
//   - held (held.go, translate.go, inspect.go): the backends that the session has
//     borrowed, one of them at hand, the others parked.
//   - pipe (pipe.go, pipe_states.go, ops.go, relay.go, relay_end.go, relay_error.go): what has
//     been sent to the backend at hand, and which answers are due.
//   - implicit (implicit.go, pipeline.go): the transaction that extended messages have
//     between two Syncs.
//   - transaction (tx.go, tx_states.go, block.go, isolation.go, atomic.go, snapshot.go): the
//     open block and its participants.
//   - commit (commit.go, follow.go, change.go, carry.go, leftover.go): the end of a block
//     that wrote on several shards, see package twopc.
//   - loss (loss.go, lost.go, retry.go, refuse.go, watch.go): a transaction that can only be rolled
//     back.
//
// How a statement is carried out:
//
//   - routing (routing.go, environment.go, route.go): the snapshot of the cluster, the
//     plan, and the shard.
//   - script (script.go, script_state.go): a text of several statements.
//   - gatherer and legs (gather.go, native.go, remainder.go; leg.go): reads of several
//     shards. writer (write.go and write_*.go, copies.go): writes. lookups (lookup*.go):
//     the entries of lookup vindexes. copier (copy*.go): COPY. explainer (explain*.go).
//   - everywhere (everywhere.go): commands for every shard. utility (alone.go,
//     database.go, function.go, mover.go, placed.go): commands and functions that weft
//     answers itself. programs (program.go, program_query.go, program_aside.go, errand.go): PL/pgSQL that weft
//     runs, see package proxy/routine.
//
// # The life of a statement on one shard
//
//  1. Session.step reads the message, Session.onQuery or portals.onBind takes it.
//  2. Package parser tells from the text what the statement does to the session. Most do
//     nothing to it; for the others see record.prepareToRun (special.go).
//  3. routing.plan finds the plan in a cache. decidePlanned (decide_plan.go) says from plan,
//     facts and state what is to be done, and routing.choose finds the shard.
//  4. held.useLane makes sure that there is a backend with the session's settings: the
//     pool lends one for the transaction.
//  5. The message goes to the backend, and an op notes the answer that is due.
//  6. pipe.relay passes answers to the client until none is due. It does not look at
//     rows.
//  7. At the end of the transaction record.settle brings the record up to date, and
//     held.release gives the backend back unless a pin ties the session to it.
//
// A statement that several shards answer leaves this road at routing.choose, where it
// is decided to gatherShards: gatherer.gatherQuery and writer.writeQuery take it from there.
//
// # What a server keeps beside its sessions
//
// What sessions share, and what a proxy does although no client has asked for it, is in packages below this one. Each is
// given functions of the server by a constructor here:
//
//   - newOwns, newRoster, newCopies (own.go, keep.go): weft's own tables, the shards' servers, copies of the directory.
//   - newFences, newHolds, newJobs (fence.go, hold.go, jobs.go): rows that change shards.
//   - newLeftover, newTables, newVigil, newLookout (leftover.go, table.go, vigil.go, deadlock.go): work of proxies that
//     are gone or hang, and deadlocks.
//   - newVerdicts, newThrottler, newQueues, newChronicle: what is hot.
//   - newDoor, newPasswords, newHubs, newCircle: clients that come in, notifications, the other proxies.
//
// # Where something new goes
//
//   - A message of the protocol: Session.step, and an opKind (ops.go) for its answer.
//   - A kind of statement: package planner decides what it is; decide, or decidePlanned if
//     it is planned, what is to be done with it; routing.plannedQuery and
//     portals.routePlanned send it to the part that carries it out.
//   - A reason to wait for another session or shard: reach, which is what the deadlock
//     detector (deadlock.go, package proxy/lookout) and cancel requests look at.
//
// # Goroutines
//
// One per client (Server.handle), one per ear that listens for notifications, one for
// the pool; for the time of a COPY FROM STDIN and of writes that would block, a second
// one per session. Server.Close waits for all of them.
package proxy
