// Package parser turns statement text into what the rest of weft needs to know about it, without parsing on the hot path.
//
//	client's text ──Scanner──▶ Norm + Literals ──Cache──▶ Facts
//	                                               │ miss
//	                                               ▼
//	                                           ParseFacts (pg_query)
//
// A parse by pg_query costs many times what a whole round trip through weft costs. So a text is handled in three steps:
//
//  1. Scanner.Scan lifts the literals out: each becomes a marker of its kind, comments go, and what is left (Norm) is the
//     same for all texts that differ in nothing but literals and comments. It cuts a text into tokens exactly as
//     PostgreSQL's lexer does; FuzzScan asks pg_query's lexer the same question.
//  2. Cache.Facts looks the Norm up. A hit takes no lock and allocates nothing.
//  3. On a miss ParseFacts parses and collects the Facts: what the text does to the session it runs in. Facts that depend on
//     the value of a literal, or hold offsets, say so (Exact) and are kept for that one text only.
//
// Facts never say too little of what is in the text: where it is not plain, they say more (Opaque at the most). What a
// called function does inside they do not know.
//
// Edits change a client's text in places, so that positions in a server's errors can be followed back. IdentityEdits are
// those that make process ids mean sessions of weft.
//
// A Scanner belongs to one session; everything else is immutable or safe for concurrent use, and no goroutines are started.
// Start reading at Cache.Facts.
package parser
