package twopc

// Outcome is how a transaction ended.
type Outcome uint8

// Outcomes.
const (
	Open      Outcome = iota // it has not ended, or nobody knows
	Committed                // for certain, and for ever
	Aborted                  // or it never was
)

var outcomes = []string{"in progress", "committed", "aborted"}

// String returns PostgreSQL's word for it.
func (o Outcome) String() string { return outcomes[o] }

// ParseOutcome reads what String has written; anything else is Open.
func ParseOutcome(s string) Outcome {
	for o, word := range outcomes {
		if s == word {
			return Outcome(o)
		}
	}
	return Open
}

// Verb is the command that makes a prepared transaction end like this.
func (o Outcome) Verb() string {
	if o == Committed {
		return "COMMIT"
	}
	return "ROLLBACK"
}
