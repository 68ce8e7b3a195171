// Package parser turns statement text into what the rest of weft needs to know about it, without parsing on the hot path.
//
//	client's text ──Scanner──▶ Norm + Literals
//
// A parse by pg_query costs many times what a whole round trip through weft costs. So a text is first scanned: every
// literal becomes a position, comments go, and what is left (Norm) is the key under which the results of earlier parses
// are kept. The scanner therefore has to cut a text into tokens exactly as PostgreSQL's lexer does; FuzzScan asks
// pg_query's lexer the same question.
//
// Start reading at Scanner.Scan.
package parser
