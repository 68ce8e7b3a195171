// Package program runs functions, procedures and DO blocks of PL/pgSQL outside PostgreSQL, so that each statement in them
// takes the way of any other statement.
//
//	pg_proc, DO ──▶ Source ──Compile──▶ Program ──Run──▶ Executor     SQL with parameters
//	                                                 ├──▶ Transaction  savepoints, COMMIT
//	                                                 └──▶ Output       notices, rows
//
// The life of a program:
//
//  1. FromText, or the caller from pg_proc, makes a Source. Compile reads the body by the rules of PostgreSQL's own
//     grammar (parse.go and its siblings) into a tree (node.go), in which every piece of SQL is an Expr with its parse
//     tree (tree.go) and with the names that can be seen at its place (scope.go). A Program is never changed.
//  2. Run looks the types of the variables up (type.go) and gives the arguments their values.
//  3. Every expression is a SELECT that PostgreSQL evaluates. Variables in it are parameters (plan.go). Where a name could
//     be a column too, PostgreSQL is asked with Probe: it finds columns first, so a name that it does not know without the
//     variable is the variable. A Cache remembers what came out.
//  4. A value is cast to the type of its variable by PostgreSQL as well (cast.go). This package itself only does what
//     PL/pgSQL does without SQL: it branches, counts, formats messages, and takes rows and arrays apart (text.go).
//  5. Errors are *pgerr.Error with PostgreSQL's SQLSTATE, message and CONTEXT. EXCEPTION runs its block in a savepoint.
//
// What cannot be run exactly is refused with 0A000 and a hint: by Compile where the text says so, else by Run. Values are
// kept in text format, so a program must not change settings that the text of values depends on; SET of those is refused.
//
// The package has no goroutines. A Cache and an Environment belong to one session. Start reading at Program.Run.
package program
