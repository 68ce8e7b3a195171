// Package analytics asks weft and one plain PostgreSQL what analysts ask: joins
// of many tables, subqueries of every kind, rollups, windows over aggregates,
// set operations, CTEs used twice.
//
//	testdata/SUITE/schema.sql    tables      ─┐
//	wholesale_test.go, retail_…  their rows  ─┼─▶ one PostgreSQL ──┐
//	testdata/SUITE/queries.sql   questions   ─┤                    ├─▶ equal?
//	testdata/SUITE/LAYOUT.sql    declarations ┴─▶ weft, 4 shards ──┘
//
// There are two suites. wholesale has 22 questions in the shapes of TPC-H, retail
// has 60 in the shapes of TPC-DS; schemas, data and wording are our own. Each is
// asked in two layouts: together, where large tables that are joined are colocated
// and small ones are reference tables; apart, where nothing is joined by the
// columns that place it and some tables stay at home.
//
// The life of a test:
//
//  1. load makes the suite's rows, the same in every run, fills a database on
//     each side and declares the layout's tables.
//  2. TestPlain proves the questions: each has an answer that is not empty,
//     and the same from rows in another order and from other plans.
//  3. TestLayouts puts each to weft, as simple query and as extended query with
//     parameters and binary results (apart only the latter). Rows, names, types and modifiers must be equal
//     and the rows in order; floating-point numbers may differ in the last digits.
//
// `make bench-analytics` loads more rows and prints the time of each question
// through weft and on the single PostgreSQL (timing_test.go).
//
// Start reading at suite_test.go.
package analytics
