// Package catalog holds what weft knows of a database's schema, as values.
//
//	pool runs a query on a shard ──rows──▶ catalog ──value──▶ planner, proxy
//	pg_dump --schema-only ──text──▶ FromDump ──value──▶ weft plan, tests
//
// The package does no I/O and starts no goroutines: the caller that loads a value passes
// rows in, or a function that fetches them. The values are immutable and shared.
//
// A Schema is read from the home shard in one round trip (Load), under the
// schema version that the directory has at that moment; a change of the schema
// makes a new version and a new Schema. A Schema finds tables, views, sequences and
// functions by name, and says which relations a function may touch.
//
// Types has the names and OIDs of one shard's types and relations. A Translation
// between the Types of a shard and of the home shard makes the shard's messages look
// as if the home shard had sent them; its comment says when to call which method.
//
// A Schema also knows the code that runs without being named in a statement.
// Function.Reach is all that a call of a function may do: relations read and
// written, NOTIFY, advisory locks, DDL, and whether the call is opaque. Relation.Runs
// says the same of each default, generated column, check, column's type, index,
// trigger and rule that is not pure; Relation.Policies of each policy; Operators,
// Types and Casts of operators, types and casts. All that a statement may do is the
// union over the functions, operators and types that it names, and over the Runs
// and Policies of the tables that it touches:
//
//	for _, f := range s.Functions("f") { notifies = notifies || f.Reach.Notifies }
//	for _, r := range s.Relation(n).Runs { notifies = notifies || r.Notifies }
//
// pg_depend says what stored expressions use. What the bodies of functions use is
// parsed from their texts, where a word means every object of that name (see connection).
//
// Effects is another view of the same functions: which of them may change the
// session that calls them.
//
// Start reading at Schema, then Load.
package catalog
