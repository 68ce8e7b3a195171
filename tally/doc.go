// Package tally counts what statements cost: by statement, in a table that is
// bounded in bytes, and by the time they take, in histograms.
//
//	parser.Facts ──Anchor──▶ Statement ◀── Table ──▶ weft.statements
//	session ──Add──▶ Statement, Histogram ──Read──▶ Prometheus
//
// The life of a Statement:
//  1. A session has run a text whose facts lead to no Statement of its user and
//     database: Table.Find makes one, under a lock, and leaves it at the facts.
//  2. From then on Find follows two pointers, and Add adds to atomic counters:
//     no lock, no allocation.
//  3. When the table is full those unused for longest go. One that is gone is not
//     found any more, and counts from zero when its text comes back.
//
// Nothing here knows SQL, and nobody owns a goroutine. Start reading at Table.
package tally
