package proxy

import (
	"slices"

	"weft/catalog"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/wire"
)

// opKind says which answer weft waits for from a backend.
type opKind uint8

const (
	opQuery    opKind = iota // simple query: everything up to ReadyForQuery
	opFunction               // function call: everything up to ReadyForQuery
	opSync                   // ReadyForQuery
	opParse
	opBind
	opDescribeStatement
	opDescribePortal
	opExecute
	opClose
	opBegin // weft opens a block: Bind, Execute, Close
	opLocal // answered by weft itself, in its place among the other answers
	opNone  // no answer is due
)

// noOp is what opQueue.first returns if no answer is due.
var noOp = op{kind: opNone}

// op is one expected answer.
type op struct {
	kind opKind
	// injected: weft sent the message, not the client, who must not see the answer.
	injected bool
	// answer is the type of the empty message that an opLocal sends. frame, if set, is sent
	// instead. bound is the portal that the message tells about, if shards execute that
	// portal.
	answer byte
	frame  []byte
	bound  *gathering
	// begins: the message opens a transaction block.
	begins bool
	// run is what is counted when an opExecute is answered.
	run run
	// spread is the command that goes to the other shards when this op completes.
	spread *spread
	// rows says which columns of the result hold OIDs, once that is known.
	rows *catalog.Rows
	// learns is the statement that is described. version is that of the unnamed statement,
	// which may have been replaced by the time of the answer.
	learns  *planned
	version uint32
	// fetches describes the cursor over several shards that a FETCH reads from.
	fetches *plan.Description
	// copies writes the rows of the answer as COPY data.
	copies *outlet
	// quiet: the client sees the answer, but not that the backend is ready.
	quiet bool
	// sure: if the op fails, its backend is lost.
	sure bool
	// settles: a Sync that weft sends, or a COMMIT in the place of the client's Execute,
	// whose answer tells how a transaction ended.
	settles bool
	// void: a Sync of the client's that follows no Execute.
	void bool
	// hidden is how many of the parameters weft has added to the client's.
	hidden int
	// stmt is the backend's statement of an opParse.
	stmt *pool.Statement
	// client is the client's statement of an opParse that the client sent, or the statement
	// that a Close has taken out.
	client *statement
	// prev is the unnamed statement before this op replaced it, kept where an
	// earlier op may still fail.
	prev *unnamed
	// unnamedBy is what the backend held under the empty name before this op.
	unnamedBy uint64
	// shadow is the portal whose name a Bind takes.
	shadow *shadow
	// stalePortal: a Bind of the unnamed portal replaces a stale portal.
	stalePortal bool
	// described receives what an opDescribeStatement is told.
	described *description
	// text says how the text that went to the backend differs from the client's; nil if
	// both are the same.
	text *edited
	// foreign: the text that went to the backend is not the client's, so positions in the
	// text mean nothing to the client.
	foreign bool
	// server and name are what the backend and the client call the statement.
	server, name string
	// err is what the client is told instead of the backend's error, which weft provoked to
	// make the transaction fail.
	err *pgerr.Error
}

// edited is a text that weft has changed.
type edited struct {
	original string
	edits    parser.Edits
}

// text returns the changed text, which the backend is sent.
func (e *edited) text() string { return e.edits.Apply(e.original) }

// passesRows reports whether rows of the answer go to the client unchanged.
func (o *op) passesRows() bool { return o.copies == nil && (o.rows == nil || !o.rows.Deep()) }

// ends reports whether the answer is a ReadyForQuery.
func (o *op) ends() bool { return o.kind <= opSync }

// opQueue is a first-in-first-out queue that reuses its memory.
type opQueue struct {
	ops  []op
	head int
}

func (q *opQueue) push(o op)   { q.ops = append(q.ops, o) }
func (q *opQueue) empty() bool { return q.head == len(q.ops) }
func (q *opQueue) len() int    { return len(q.ops) - q.head }

// mayFail reports whether one of the answers that are due may be an error.
func (q *opQueue) mayFail() bool {
	return slices.ContainsFunc(q.ops[q.head:], func(o op) bool { return !o.sure })
}

// only reports whether no answers are due but those of these kinds.
func (q *opQueue) only(kinds ...opKind) bool {
	for _, o := range q.ops[q.head:] {
		if !slices.Contains(kinds, o.kind) {
			return false
		}
	}
	return true
}

// endsWithBegin reports whether nothing that has to be answered follows an opBegin.
func (q *opQueue) endsWithBegin() bool {
	for i := len(q.ops) - 1; i >= q.head; i-- {
		if k := q.ops[i].kind; k != opLocal {
			return k == opBegin
		}
	}
	return false
}

// lastExecute returns the newest opExecute; there must be one.
func (q *opQueue) lastExecute() *op {
	for i := len(q.ops) - 1; ; i-- {
		if q.ops[i].kind == opExecute {
			return &q.ops[i]
		}
	}
}

// takeOf takes out the newest ops as long as they tell the client about portal x, and
// returns their messages.
func (q *opQueue) takeOf(x *gathering) (frames []byte) {
	i := len(q.ops)
	for i > q.head && q.ops[i-1].bound == x {
		i--
	}
	for _, o := range q.ops[i:] {
		frames = o.appendAnswer(frames)
	}
	clear(q.ops[i:])
	if q.ops = q.ops[:i]; i == q.head {
		q.ops, q.head = q.ops[:0], 0
	}
	return frames
}

// appendAnswer appends what an opLocal sends.
func (o *op) appendAnswer(dst []byte) []byte {
	if o.frame != nil {
		return append(dst, o.frame...)
	}
	return wire.AppendEmpty(dst, o.answer)
}

// first returns the op that is answered next; its kind is opNone if no answer is due.
func (q *opQueue) first() *op {
	if q.empty() {
		return &noOp
	}
	return &q.ops[q.head]
}

// pop forgets the first op.
func (q *opQueue) pop() {
	q.ops[q.head] = op{}
	q.head++
	if q.head == len(q.ops) {
		q.ops, q.head = q.ops[:0], 0
		if cap(q.ops) > 1024 {
			q.ops = nil
		}
	}
}

// upToEnd returns the ops before the first whose answer is a ReadyForQuery.
func (q *opQueue) upToEnd() []op {
	for i := q.head; i < len(q.ops); i++ {
		if q.ops[i].ends() {
			return q.ops[q.head:i]
		}
	}
	return q.ops[q.head:]
}

// dropSyncs forgets the Syncs behind the first op and returns their number: a backend that
// reads COPY data ignores a Sync.
func (q *opQueue) dropSyncs() (n int) {
	kept := q.ops[:q.head+1]
	for _, o := range q.ops[q.head+1:] {
		if o.kind != opSync {
			kept = append(kept, o)
		} else {
			n++
		}
	}
	q.ops = kept
	return n
}

// reset forgets all ops.
func (q *opQueue) reset() { *q = opQueue{} }

// exchanges counts the ReadyForQuery messages that are due.
func (q *opQueue) exchanges() (n int) {
	for i := q.head; i < len(q.ops); i++ {
		if q.ops[i].ends() {
			n++
		}
	}
	return n
}

// shadowLast notes of which portal the last Bind takes the name.
func (q *opQueue) shadowLast(old *shadow) {
	for i := len(q.ops) - 1; i >= q.head; i-- {
		if q.ops[i].kind == opBind {
			q.ops[i].shadow = old
			return
		}
	}
}
