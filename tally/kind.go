package tally

// Kind is how a statement was carried out.
type Kind uint8

// The kinds.
const (
	Local    Kind = iota // weft answered by itself: BEGIN, its own functions, what it refuses
	Shard                // one shard did
	Gather               // several shards were read
	Write                // rows of several shards were changed, the commit included if it was its own transaction
	Every                // every shard ran it: DDL
	Copy                 // COPY of several shards
	Commit               // the end of a transaction of one shard
	TwoPhase             // the end of a transaction of several shards

	Kinds // how many there are
)

var kindNames = [Kinds]string{"local", "shard", "gather", "write", "every", "copy", "commit", "two_phase"}

func (k Kind) String() string { return kindNames[k] }
