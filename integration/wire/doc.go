// Package wire plays scripted dialogues against anything that speaks
// PostgreSQL's protocol and writes down every byte of meaning that came back.
//
//	testdata/*/* ──Script.Run──▶ Conn ──TCP──▶ PostgreSQL
//	                                     └──▶ weft
//
// The same file runs against a plain PostgreSQL and against weft; both must
// give the transcript in the file. `go test ./integration/wire -rewrite` takes
// the transcript from PostgreSQL, never from weft.
//
// A script is a datadriven file. Its commands, each taking conn=NAME (default
// a; a connection that does not exist yet is opened with the defaults):
//
//	run       send the messages below it in one write, then read one
//	          ReadyForQuery per Query, Sync and FunctionCall among them
//	query     the text below it as one simple query, read to ReadyForQuery
//	setup     as query, printing errors only
//	send      send the messages below it and read nothing (chunk=N: in writes
//	          of N bytes)
//	until     read until the named messages came, in this order (EOF counts;
//	          nothing named means ReadyForQuery; skip=NAME: without these)
//	byte      read one byte: the answer to SSLRequest and GSSENCRequest
//	rest      read to the end of the connection, whatever comes
//	dial      open the TCP connection only
//	startup   dial and send StartupMessage: "name value" lines; protocol=3.2
//	connect   startup, read to ReadyForQuery and print errors only
//	login     startup, then answer password requests; password=P
//	cancel    CancelRequest for conn on a connection of its own; key=wrong
//	wait      poll a query on the server itself, not through weft, until true
//	close     close the TCP connection without Terminate
//
// Messages are written one a line: a name and its arguments (see message.go).
// ${a.pid} and ${a.key} stand for what connection a was told in
// BackendKeyData. Read first: Script.Run, then message.go and transcript.go.
//
// Where no transcript can be kept, because it is of tables that only weft shards, both are
// talked to at once: the dialogues of dialogues.txt, and random ones, which make wirefuzz
// goes on with for longer. One that differs is shrunk to the messages that it takes.
package wire
