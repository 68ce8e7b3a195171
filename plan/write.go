package plan

import "sync/atomic"

// Write is how a statement is carried out that changes rows on several shards, in
// one transaction.
//
//	shards ──Read──▶ inputs ──▶ Text, on each shard it concerns ──▶ rows ──▶ Then …
//	                                                            └─▶ one command tag, RETURNING
//
// Everything that is read elsewhere is read before anything is written.
type Write struct {
	// Verb begins the command tag: INSERT, UPDATE, DELETE, MERGE.
	Verb string

	// Read is gathered first. Its pieces' rows are the inputs of Text; if it has
	// a Remainder, the rows of that are the only input. Nil for none.
	Read *Gather

	// Split, if not nil: each row of the last input goes to the shard that it
	// belongs on. Otherwise all rows of all inputs go to all shards.
	Split *Split

	// Rows are those of an INSERT … VALUES, each with its own place. Text is not
	// used then. Nil for other statements.
	Rows *Rows

	// Text is what each shard runs. Inputs come as parameters, never as
	// temporary tables: whoever has touched one cannot prepare.
	Text Text

	// Instances are the sharded tables in Text. It runs on every shard that one
	// of them may have rows on; with Split, where there are rows for.
	Instances []Instance

	// Copies: it runs on every shard, the home shard first: a reference table.
	Copies bool

	// Home: it runs on the home shard alone, whose table it changes.
	Home bool

	// Returns: Text returns rows. Those are the client's, or with Then the input
	// that comes after those of Then.Read.
	Returns bool

	// Then is what comes after it, with the rows that it returned. The client is
	// told the last one's tag and rows.
	Then *Write

	// Known is what PostgreSQL says of the texts, asked at the first execution.
	Known atomic.Pointer[Description]
}

// Split says where a row belongs.
type Split struct {
	Table *Table
	// Columns of the input are the key, in the order of the vindex.
	Columns []int
}

// Rows is an INSERT … VALUES in parts: those of a shard are put between head and
// tail, with commas.
type Rows struct {
	Head, Tail Text
	// Rows has the text of each row, in brackets. The i-th is stored where
	// Instances[i] says.
	Rows []Text
}
