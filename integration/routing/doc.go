// Package routing asks weft and one unsharded PostgreSQL the same things.
//
//	testdata/*.sql ─┐                ┌──▶ one PostgreSQL
//	generator ──────┴──▶ pair.run ───┤        compared: rows, names, types,
//	                                 └──▶ weft ──▶ four shards   tag, SQLSTATE
//
// A script is played once for each way a client can put a statement to a server
// (see mode): literals in a simple query, parameters as text or binary, a named
// prepared statement whose shard changes at each execution. Sections say what
// is expected:
//
//	@setup   both, once; @weft and @plain: one of them alone; @data: both, before each mode
//	@route   must be answered, and as PostgreSQL does
//	@error   must fail as on PostgreSQL
//	@maybe   may be refused with 0A000, never answered wrongly
//	@simple  as @route (or as named), in simple queries only: several statements at once
//	@conn x  goes on with another connection
//	@mask c  leaves the columns called c out of comparisons; they must be unique
//	@tables  compares all tables, row by row, on the shards themselves: each
//	         row must be on the shard that its key says, and nowhere twice
//
// A statement ends with a semicolon at the end of a line. Lines below it that
// begin with "--" are sets of parameters, type:value, with | between them.
//
// The generator (see generate_test.go) makes up statements, one-shard and not, over
// the shop and over keys of every type. The other tests hold what does not fit
// into a script: two proxies, user types in binary, etcd away, psql and pg_dump.
// Start reading at TestScripts.
package routing
