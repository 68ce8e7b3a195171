// Package routine runs PL/pgSQL for a session of the proxy, so that each statement of a program is planned, routed and gathered
// like one that the client has sent.
//
//	proxy.programs ──▶ Run ──▶ program.Program ──▶ Dialogue ──▶ Session.Converse ──▶ the session's own handlers
//	                                                  ◀── answers ◀──────┘
//
// The life of a run:
//
//  1. The session meets a DO, a CALL or a SELECT of a function whose plan says that weft runs it, and opens a transaction unless one
//     is open. New makes a Run in the Room of the session.
//  2. Run.Do looks at rights and settings, and compiles the block. Run.Call lets PostgreSQL describe the statement and evaluate the
//     arguments, and reads the function from pg_proc each time (call.go).
//  3. package program runs it. The Dialogue turns each statement into messages of the extended protocol, hands them to the session,
//     and reads the answers (answer.go). Savepoints and COMMIT are statements like others (transaction.go).
//  4. Notices go to the client at once. Rows are kept until the run has ended (result.go), and written in the formats that the client wants
//     (encode.go).
//
// A Room keeps what runs have learnt, for one environment of the session: types, names, compiled programs, and the prepared statements
// by their texts. Errors that weft raises in a place where PostgreSQL would have gone on are no *pgerr.Error but wrap one, so that no
// EXCEPTION of a program catches them.
//
// The package has no goroutines. A Room belongs to one session. Start reading at Run.Do.
package routine
