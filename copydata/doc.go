// Package copydata cuts COPY data into rows and fields, and writes rows as COPY
// data: text, CSV and binary. It does no I/O: bytes come in, rows go out.
//
//	client's bytes ──Cutter.Next──▶ rows ──Cutter.Fields──▶ the key of each
//	                                  └──▶ the COPY of its shard, as they are
//
// The life of a load:
//
//  1. New makes a Cutter for the Format that the options of the COPY say.
//  2. Next is given what has arrived and says how long the first row of it is. It
//     does exactly what PostgreSQL's CopyReadLine does, the line counter included,
//     but it decodes nothing: most rows are found by searching for the newline.
//  3. Fields decodes those fields of the row that decide where it goes, and no other.
//  4. Lines remembers, for each shard, which line of the client's data a line of the
//     shard's was, so that an error can be told in the client's terms.
//
// What is wrong with a row is for the server to say, wherever it can: Next reports an
// Error only for what a server that sees a part of the rows would not notice.
//
// Start reading at Cutter.Next.
package copydata
