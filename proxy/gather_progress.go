package proxy

import (
	"weft/datum"
	"weft/finish"
	"weft/plan"
)

// progress is how far one attempt at a write has come. An attempt can be repeated after its
// transaction has been rolled back, and then begins with restart.
//
// returned and gave have an entry for each step before the write, once the steps have begun.
type progress struct {
	// supplied are the values that weft supplies to an INSERT, once they have been drawn.
	supplied [][]byte
	// claims are the lookup entries that were taken for the rows beforehand.
	claims []lookupClaim
	// met are the entries that were not taken because other rows have the values.
	met []lookupClaim
	// astray says that a row of met was sent to another shard than its own.
	astray bool
	// items are the values of plan.LookupKey.Items for the rows.
	items map[*plan.LookupKey][]datum.Value
	// returned are the rows of those steps whose rows are divided among the shards, by step.
	returned [][][]byte
	// gave says, by step, which shards have given rows of a locking step; nil for other steps.
	gave [][]bool
	// shares are the divided inputs, by shard; nil if no input is divided.
	shares []*finish.Inputs
	// begun says that a step has written something.
	begun bool
}

// selectVerb is the verb of a step that only reads.
const selectVerb = "SELECT"

// beginSteps makes room for what n steps return.
func (p *progress) beginSteps(n int) { p.returned, p.gave = make([][][]byte, n), make([][]bool, n) }

// endStep notes that a step has been carried out.
func (p *progress) endStep(verb string) { p.begun = p.begun || verb != selectVerb }

// gaveNone reports whether a shard has no rows of the locking step that a write goes along with:
// the write has nothing to do there. step counts from 1; 0 is no step.
func (p *progress) gaveNone(step, shard int) bool {
	return step > 0 && p.gave[step-1] != nil && !p.gave[step-1][shard]
}

// restart forgets an attempt whose transaction has been rolled back.
func (p *progress) restart() {
	p.supplied, p.claims, p.met, p.astray, p.returned, p.begun = nil, nil, nil, false, nil, false
}

// repeat is whether a statement that has failed may be carried out once more, without the
// client's knowledge: only if its transaction has nothing but the statement, and if the client
// has been sent nothing of the result.
type repeat struct {
	alone  bool // the statement is a transaction by itself
	passed bool // the client's output has rows, or their description
	told   bool // the client has been told the columns of RETURNING
	// stray is why the statement is to be carried out once more; nil if it is not.
	stray error
	// rows are those in the client's output. They can be taken back until the first of them is
	// sent.
	rows retained
}

// possible reports whether the statement may be carried out once more.
func (t *repeat) possible() bool { return t.alone && !t.passed && !t.told }

// takeBack takes rows back from the client's output, if it can.
func (t *repeat) takeBack(s *Session) {
	if t.passed && t.rows.takeBack(s) {
		t.passed = false
	}
}
