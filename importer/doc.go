// Package importer copies a live PostgreSQL database that weft does not front into weft, follows its
// changes by logical decoding, and makes weft take over.
//
//	source ──COPY, one snapshot──▶ importer ──COPY─────────▶ weft ──▶ shards
//	   └─────slot, pgoutput──────▶ importer ──transactions─▶ weft ──▶ shards
//
// weft does not know that it is an import: rows come in by its front door, so that keys, lookups and
// reference tables are looked after as always. Triggers and foreign keys of the target are silent
// (session_replication_role), because the source has run them.
//
// The life of an import, with the state that the table weft_import.job at home has meanwhile:
//
//  1. preparing: the schema is made, in one transaction with the tables of weft_import; the tables are
//     declared.
//  2. copying: there are a publication and a slot. Each table is copied in one transaction, which also notes
//     the position in the source's WAL that the copy is as of. A process that takes over copies the
//     tables that are left, as of a later position.
//  3. following: changes are applied in batches. A batch and the position after it are one transaction, so every
//     change is applied exactly once, whatever dies when. A change that is older than the copy of its table is
//     passed over.
//  4. cutover: the source is read only, the last change is applied, sequences are set.
//  5. finishing: everything is compared; the slot and the publication go. Then it is done.
//
// One process at a time imports: it holds an advisory lock on the source, and its number is in
// weft_import.job, so that one that was believed dead cannot write any more. Verify and Cutover ask the
// process that follows to stop at a position, or follow themselves where there is none.
//
// Without I/O are: Judge (what stands in the way), decoder (messages to changes), batch and Position (what
// is applied together and what has been), writer (changes to statements). Start reading at Start.
package importer
