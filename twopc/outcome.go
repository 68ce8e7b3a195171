package twopc

import (
	"errors"
	"fmt"

	"weft/pgerr"
)

// Outcome is how a transaction ended, as its server knows it.
type Outcome uint8

// Outcomes.
const (
	Open      Outcome = iota // it has not ended; a prepared one is open too
	Committed                // for certain, and for ever
	Aborted                  // or it never was
	Forgotten                // so long ago that the server does not know
)

var outcomes = []string{"in progress", "committed", "aborted", "forgotten"}

// String returns PostgreSQL's word for it.
func (o Outcome) String() string { return outcomes[o] }

// ReadOutcome reads the answer of pg_xact_status. The server's complaint that
// it has not given such an id yet means that it crashed before anything of the
// transaction was durable.
func ReadOutcome(status string, err error) (Outcome, error) {
	if e := (*pgerr.Error)(nil); errors.As(err, &e) && e.Code == pgerr.InvalidParameterValue {
		return Aborted, nil
	}
	if err != nil {
		return Open, err
	}
	if status == "" {
		return Forgotten, nil
	}
	for o, word := range outcomes {
		if status == word {
			return Outcome(o), nil
		}
	}
	return Open, fmt.Errorf("unknown state of a transaction: %q", status)
}

// Verb is the command that makes a prepared transaction end like this.
func (o Outcome) Verb() string {
	if o == Committed {
		return "COMMIT"
	}
	return "ROLLBACK"
}

// Step is what is to be done about a participant.
type Step uint8

// Steps.
const (
	Done     Step = iota
	Commit        // the prepared transaction
	Rollback      // the prepared transaction
	End           // the backend that has not prepared: nobody waits for it
	Wait          // it is being done
	Missing       // the transaction is committed, and this shard has lost its part
)

var steps = []string{"done", "commit", "roll back", "end", "wait", "missing"}

func (s Step) String() string { return steps[s] }

// Found is what a participant says: whether a transaction is prepared under the
// name, and how the one that was to be ended.
type Found struct {
	Prepared bool
	Outcome  Outcome
}

// Next returns the step that brings a participant to where the decider is.
func Next(decided Outcome, f Found) Step {
	switch decided {
	case Committed:
		switch {
		case f.Prepared:
			return Commit
		case f.Outcome == Open: // somebody else is about to
			return Wait
		case f.Outcome == Aborted:
			return Missing
		}
		return Done
	case Aborted:
		switch {
		case f.Prepared:
			return Rollback
		case f.Outcome == Open: // it could still prepare, with nobody to end it
			return End
		}
		return Done
	}
	return Wait
}
