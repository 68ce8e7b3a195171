// Package memo keeps what was found out about texts, within a bound of memory.
//
//	parser.Cache ──▶ Table of Facts
//	planner.Cache ─▶ Table of Plans
//
// A Table is what both caches of the hot path are made of:
//
//  1. Get finds a value by its Key. It takes no lock, writes to no shared
//     memory but once per entry and round of eviction, and does not allocate.
//  2. On a miss the caller makes the value and hands it to Put with its size.
//  3. Put makes room: entries that were not asked for since the last look go
//     first. So what nobody asks for any more, such as the plans of a schema
//     that has changed, goes by itself.
//
// Values are immutable and shared. Start reading at Table.
package memo
