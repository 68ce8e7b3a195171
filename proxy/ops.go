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

// opKind is what weft waits for from a backend, in the order it was sent.
type opKind uint8

const (
	opQuery    opKind = iota // simple query: everything up to ReadyForQuery
	opFunction               // function call: the same
	opSync                   // ReadyForQuery
	opParse
	opBind
	opDescribeStatement
	opDescribePortal
	opExecute
	opClose
	opBegin // a block is opened by weft: Bind, Execute, Close
	opLocal // answered by weft itself, in its place among the others
	opNone  // nothing is outstanding
)

// noOp stands for the answer nobody waits for.
var noOp = op{kind: opNone}

// op is one expected answer.
type op struct {
	kind opKind
	// injected ops were sent by weft, not by the client, who must not see the
	// answer.
	injected bool
	// answer is the frame an opLocal sends, or frame if that is set. bound is the portal
	// that it tells about, if shards execute that.
	answer byte
	frame  []byte
	bound  *gathering
	// begins: it opens a transaction block.
	begins bool
	// run is what is counted when an opExecute is answered.
	run run
	// spread is the command that goes to the other shards when this completes.
	spread *spread
	// rows receives which columns of the result hold OIDs, or says so.
	rows *catalog.Rows
	// learns is the statement that is described; version is the unnamed
	// statement's, which may be another by the time of the answer.
	learns  *planned
	version uint32
	// fetches is what is known of the cursor over several shards that it fetches from.
	fetches *plan.Description
	// copies writes the rows of the answer as COPY data.
	copies *outlet
	// quiet: the client sees the answer, but not that the backend is ready.
	quiet bool
	// sure: if it fails, its backend is lost.
	sure bool
	// settles: a Sync of weft's own, or a COMMIT in the place of the client's
	// Execute, that tells how a transaction ended.
	settles bool
	// hidden is how many of the parameters are weft's own and not the client's.
	hidden int
	// stmt is the server's statement of an opParse.
	stmt *pool.Statement
	// client is the client's statement of an opParse it sent itself, or the
	// one that a Close has taken out.
	client *statement
	// prev is the unnamed statement before this op replaced it, kept where an
	// earlier op may still fail.
	prev *unnamed
	// unnamedBy is what the backend held under the empty name before.
	unnamedBy uint64
	// stalePortal: a Bind of the unnamed portal takes the place of a stale one.
	stalePortal bool
	// described receives what an opDescribeStatement is told.
	described *description
	// text says how the text that went to the backend differs from the
	// client's; nil if it does not.
	text *edited
	// foreign: the text that went to the backend is none of the client's, so
	// places in it mean nothing to it.
	foreign bool
	// server and name are what the backend and the client call the statement.
	server, name string
	// err is what the client is told in the place of the backend's error: weft
	// provoked that to make the transaction fail.
	err *pgerr.Error
}

// edited is a text that weft has changed.
type edited struct {
	original string
	edits    parser.Edits
}

// text is what the backend is sent.
func (e *edited) text() string { return e.edits.Apply(e.original) }

// passesRows reports whether rows of the answer can go on as they are.
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

// mayFail reports whether an error may still come of what is outstanding.
func (q *opQueue) mayFail() bool {
	return slices.ContainsFunc(q.ops[q.head:], func(o op) bool { return !o.sure })
}

// only reports whether nothing but these kinds is outstanding.
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

// takeOf takes out the newest ops that tell the client of a portal and nothing else, and
// returns what they tell.
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

// first returns the op answered next; its kind is opNone if none is
// outstanding.
func (q *opQueue) first() *op {
	if q.empty() {
		return &noOp
	}
	return &q.ops[q.head]
}

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

// upToEnd returns the ops before the first that ends with ReadyForQuery.
func (q *opQueue) upToEnd() []op {
	for i := q.head; i < len(q.ops); i++ {
		if q.ops[i].ends() {
			return q.ops[q.head:i]
		}
	}
	return q.ops[q.head:]
}

// dropSyncs forgets the Syncs behind the first op, and returns how many there
// were: a backend that reads COPY data takes no notice of them.
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

// reset forgets everything outstanding.
func (q *opQueue) reset() { *q = opQueue{} }
