package planner

// The methods of an analysis, by what they are about. Each part is a view of the same analysis: it
// has no state of its own, costs nothing to make, and is named where it is called:
//
//	a.writes().inserts(n)

// definitions plans CREATE, ALTER and DROP of tables and what belongs to a table, and other DDL.
type definitions struct{ a *analysis }

func (a *analysis) definitions() definitions { return definitions{a} }

// objects plans DDL of objects that are not tables: sequences, policies, materialized views,
// functions, types, publications.
type objects struct{ a *analysis }

func (a *analysis) objects() objects { return objects{a} }

// reach finds out what a statement runs and reads beside its own text: functions and their bodies,
// triggers, cascades, casts, defaults.
type reach struct{ a *analysis }

func (a *analysis) reach() reach { return reach{a} }

// commands plans utility commands, and says on which shards a command must run.
type commands struct{ a *analysis }

func (a *analysis) commands() commands { return commands{a} }

// gatherer plans queries that several shards answer together.
type gatherer struct{ a *analysis }

func (a *analysis) gatherer() gatherer { return gatherer{a} }

// writes plans INSERT, UPDATE, DELETE and MERGE that may visit several shards.
type writes struct{ a *analysis }

func (a *analysis) writes() writes { return writes{a} }

// copying plans COPY.
type copying struct{ a *analysis }

func (a *analysis) copying() copying { return copying{a} }

// clock gives all shards one time: that of the transaction, filled in as a constant.
type clock struct{ a *analysis }

func (a *analysis) clock() clock { return clock{a} }

// The methods of a level, likewise.

// predicates turns conditions into facts of a scope, and expressions into constants.
type predicates struct{ l *level }

func (l *level) predicates() predicates { return predicates{l} }

// grouping resolves what ORDER BY, GROUP BY, DISTINCT ON and window clauses name.
type grouping struct{ l *level }

func (l *level) grouping() grouping { return grouping{l} }

// modification analyses the table that a statement writes, and what the write entails.
type modification struct{ l *level }

func (l *level) modification() modification { return modification{l} }

// fromClause resolves the items of FROM: tables, joins, subqueries, functions.
type fromClause struct{ l *level }

func (l *level) fromClause() fromClause { return fromClause{l} }
