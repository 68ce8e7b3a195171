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
// makes a new version and a new Schema. It knows tables, views, sequences and
// functions by name, and of functions what relations they may touch.
//
// Types are what one shard's types and relations are called and numbered. A
// Translation of two of them makes a shard's messages look as if the home shard
// had sent them; its comment says when to call what.
//
// What runs without being named in a text is in the same schema. Function.Reach
// is all that a call of a function may do to the end: relations read and
// written, NOTIFY, advisory locks, DDL, and whether it is opaque. Relation.Runs
// has the same of each default, generated column, check, column's type, index,
// trigger and rule that is not pure, Relation.Policies of policies, Operators,
// Types and Casts of the rest. Whoever asks what a statement may do takes the
// union over the functions, operators and types it names, and over the Runs
// and Policies of the tables that it touches:
//
//	for _, f := range s.Functions("f") { notifies = notifies || f.Reach.Notifies }
//	for _, r := range s.Relation(n).Runs { notifies = notifies || r.Notifies }
//
// What stored expressions use is read from pg_depend, what bodies use is parsed
// from their text; a word there means everything that has that name (see graph).
//
// Effects is another view of the same functions: which of them may change the
// session that calls them.
//
// Start reading at Schema, then Load.
package catalog
