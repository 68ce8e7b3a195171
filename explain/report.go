package explain

import (
	"encoding/json"
	"time"
)

// Report is how one query is answered. The names of the JSON's keys are
// documented in docs/queries.md.
type Report struct {
	Plan *Node `json:"Plan,omitempty"`
	// Change takes the place of Plan for a statement that changes rows.
	Change *Change `json:"Change,omitempty"`
	// PlanningTime is what went by before shards were asked, ExecutionTime the
	// rest. Nil if they are not to be shown.
	PlanningTime  *Millis `json:"Planning Time,omitempty"`
	ExecutionTime *Millis `json:"Execution Time,omitempty"`
}

// Ending says who makes the result of the pieces' rows.
type Ending string

// The endings.
const (
	// Native: stream operators of weft's.
	Native Ending = "native"
	// Inline: PostgreSQL, with the rows as parameters.
	Inline Ending = "inline"
	// Staged: PostgreSQL, with the rows in a temporary table.
	Staged Ending = "staged"
	// Undecided: one of these two, as many bytes as there will be.
	Undecided Ending = "inline or staged"
	// Unknown: the types of columns decide, and nobody has been asked for them.
	Unknown Ending = "native if the types allow it, else inline or staged"
)

// Node is what is done with the rows of all shards.
type Node struct {
	Type   string `json:"Node Type"`
	RunsOn string `json:"Runs On,omitempty"`
	Ending Ending `json:"Ending"`

	// Rows are those of the result, of a query that weft itself ended.
	Rows *int64 `json:"Actual Rows,omitempty"`

	Visited int      `json:"Shards Visited"`
	Total   int      `json:"Shards Total"`
	Why     []string `json:"Why,omitempty"`

	// What operators of weft's do.
	MergeKey []string `json:"Merge Key,omitempty"`
	GroupKey []string `json:"Group Key,omitempty"`
	Output   []string `json:"Output,omitempty"`
	Limit    string   `json:"Limit,omitempty"`
	Offset   string   `json:"Offset,omitempty"`

	// What PostgreSQL does.
	SQL       string          `json:"Remainder,omitempty"`
	Remainder json.RawMessage `json:"Remainder Plan,omitempty"`
	remainder []string        // as lines

	Moved  *Moved  `json:"Moved,omitempty"`
	Steps  *Steps  `json:"Steps,omitempty"`
	Pieces []Piece `json:"Pieces"`
	Shards []Shard `json:"Plans,omitempty"`
}

// Shard returns the part of a shard. One that nobody expected is added.
func (n *Node) Shard(name string) *Shard {
	for i := range n.Shards {
		if n.Shards[i].Name == name {
			return &n.Shards[i]
		}
	}
	n.Shards = append(n.Shards, Shard{Type: shardType, Name: name, Pieces: []int{}})
	return &n.Shards[len(n.Shards)-1]
}

// shardType is the node type of a shard's part.
const shardType = "Weft Shard"

// Piece is a query that runs inside shards.
type Piece struct {
	Number int      `json:"Piece"`
	Name   string   `json:"Name,omitempty"`
	Shards []string `json:"Shards,omitempty"`
	Why    []string `json:"Why,omitempty"` // it visits these
	// Keys tells where the keys come from that it is asked for, if it waits for some.
	Keys  string `json:"Keys,omitempty"`
	SQL   string `json:"SQL"`
	Moved *Moved `json:"Moved,omitempty"`
}

// Shard is one shard's part.
type Shard struct {
	Type   string `json:"Node Type"`
	Name   string `json:"Shard"`
	Pieces []int  `json:"Pieces"`
	Moved  *Moved `json:"Moved,omitempty"`
	// First and Last are how long after its statement was sent the first row
	// was taken in, and the last word.
	First *Millis `json:"First Row Time,omitempty"`
	Last  *Millis `json:"Total Time,omitempty"`

	// What the shard says of its statement.
	Plans   []json.RawMessage          `json:"Plans,omitempty"`
	Summary map[string]json.RawMessage `json:"Summary,omitempty"`
	lines   []string
}

// Moved is how much has been moved.
type Moved struct {
	Rows  int64 `json:"Rows"`
	Bytes int64 `json:"Bytes"`
}

// Add adds to it.
func (m *Moved) Add(more Moved) {
	m.Rows += more.Rows
	m.Bytes += more.Bytes
}

// Steps are what took how long.
type Steps struct {
	// Prepare: what the texts mean was asked, and backends were made ready.
	Prepare Millis `json:"Prepare Time"`
	// Gather: from the first word to a shard to the last from one.
	Gather Millis `json:"Gather Time"`
	// Finish: the remainder.
	Finish *Millis `json:"Finish Time,omitempty"`
}

// Millis is a time as plans show it.
type Millis time.Duration

// Since returns a time as plans show it.
func Since(from, to time.Time) *Millis {
	m := Millis(to.Sub(from))
	return &m
}
