package plan

import (
	"strings"
	"sync/atomic"
)

// Write says how to carry out a statement that changes rows on several shards, in one
// transaction.
//
//	shards ──Read──▶ inputs ──▶ Steps ──▶ more inputs ──▶ Text, on each shard it concerns
//	                                                      └─▶ one command tag, RETURNING
//
// Everything that is read on other shards is read before anything is written.
type Write struct {
	// Verb begins the command tag: INSERT, UPDATE, DELETE, MERGE; SELECT for a query.
	Verb string

	// Returns says that rows are returned, to the client or as an input of a later step.
	Returns bool

	// Shape says which shards run what.
	Shape Shape

	// Known is what PostgreSQL says of the texts, set at the first execution.
	Known atomic.Pointer[Description]
}

// Shape is one of the ways in which a statement is carried out:
//
//	Rows     the rows of INSERT … VALUES go each to its shard
//	Stream   the rows of a query are inserted, each on its shard
//	Local    each shard changes its own rows
//	AtHome   the home shard runs the statement
//	Share    the rows of a step go each to its shard
//	Copies   the home shard writes a reference table, and the other shards follow
//	Own      one shard runs the statement, with the time of the transaction filled in
//	Whole    one shard runs the client's own text
//	Locking  a query locks rows on all shards; it is always a step
//
// A step of another statement is Local, AtHome, Share, Copies or Locking.
type Shape interface {
	parts() parts
	print(b *strings.Builder, indent, verb string)
	size() int64
}

// parts are what shapes have in common. A part that a shape lacks is nil.
type parts struct {
	text      Text
	instances []Instance
	query     *Query
	lent      *Gather
	steps     []*Write
}

// Text is what each shard runs. It is nil for Rows, Whole and Locking.
func (w *Write) Text() Text { return w.Shape.parts().text }

// Instances are the sharded tables that say which shards run the text, and for Rows where each
// row is stored.
func (w *Write) Instances() []Instance { return w.Shape.parts().instances }

// Query is the query that is answered first. Nil for none.
func (w *Write) Query() *Query { return w.Shape.parts().query }

// Lent is gathered first, and its rows are lent to all shards that run the text. Nil for none.
func (w *Write) Lent() *Gather { return w.Shape.parts().lent }

// Steps are the steps that run before the text.
func (w *Write) Steps() []*Write { return w.Shape.parts().steps }

// Read is what is gathered first: for Query, or to be lent. Nil for none.
func (w *Write) Read() *Gather {
	p := w.Shape.parts()
	if p.query != nil {
		return p.query.Gather
	}
	return p.lent
}
