// Package console answers the commands of the admin database.
//
//	psql -d weft ──SHOW POOLS──▶ proxy ──text──▶ console ──Table──▶ proxy ──▶ psql
//
// A command is looked up in a list; each reads what it shows from a Source and
// returns a Table of text. Nothing here knows the protocol. Start reading at
// Run.
package console
