// Package custom tells which value the commands of a transaction block have given a custom parameter, such as
// app.tenant_id. It reads texts, and asks no server.
//
//	SET LOCAL app.tenant_id = '7'; SAVEPOINT s; … ──▶ Value ──▶ 7
//
// A block keeps the commands that all its shards have run, in their order: see block.replay in package proxy. Value
// goes through them:
//
//  1. The commands that everyone writes are read by hand, without a parser and without allocating: SET of a
//     string or a number, SELECT set_config(…) of strings, SAVEPOINT, RELEASE and ROLLBACK TO.
//  2. A rollback brings back the value that the parameter had at the savepoint.
//  3. The caller knows from the parser how many commands set the parameter. If Value has read fewer, or
//     more, the value is unknown.
//
// Start with Value.
package custom
