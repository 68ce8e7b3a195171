// Package planner decides what is to be done with a statement: which shards it
// visits, or why it is refused.
//
//	text, schema, declarations ──Plan──▶ plan.Plan ──▶ Cache ──▶ executor
//
// It is pure: the same input gives the same plan. The life of a plan:
//
//  1. pg_query parses the text. A text that does not parse is refused, unless
//     the home shard has an error for it: that is the answer then.
//  2. Each statement is analysed level by level (level): names are resolved as
//     PostgreSQL does (item), each appearance of a sharded table becomes an
//     instance, and conditions become facts of a scope: column = column, column
//     in a set of constants.
//  3. For each instance the facts of its scope and of those above are put
//     together (solve): every constant that its key must equal is found, also
//     through chains of equalities.
//  4. What kinds of tables were touched, and which functions are called, decides
//     the route (decide).
//  5. For a query that may need several shards the planner decides how the shards
//     answer it together (gather): in one piece (whole), if the query may run
//     inside each shard as it is, except for its order, LIMIT, DISTINCT and
//     aggregates (reduce); else in pieces and a remainder (remains), after the
//     subqueries have been tried in the same way (nested). local.go proves when a
//     query may run inside each shard.
//
// An analysis holds the work on one text; its methods stand in parts by what they are about
// (parts.go): definitions, objects and commands plan DDL and utility commands, reach finds what a
// statement runs beside its own text, gatherer plans queries over several shards, writes and copying
// plan what stores rows, clock gives all shards one time. A level is one query level, with the parts
// fromClause, predicates, grouping and modification.
//
// The rule behind every line: a plan must never visit too few shards. An
// instance about which nothing is known means all of them. Why a fact may be
// used for an instance is proved in scope.go.
//
// Start reading at Plan.
package planner
