package twopc

// Outcome is how a transaction ended.
type Outcome uint8

// Outcomes.
const (
	Open      Outcome = iota // the transaction has not ended, or its outcome is not known
	Committed                // the transaction is committed, for certain and for ever
	Aborted                  // the transaction is rolled back, or never existed
)

var outcomes = []string{"in progress", "committed", "aborted"}

// String returns PostgreSQL's word for the outcome.
func (o Outcome) String() string { return outcomes[o] }

// ParseOutcome reads the result of String; anything else is Open.
func ParseOutcome(s string) Outcome {
	for o, word := range outcomes {
		if s == word {
			return Outcome(o)
		}
	}
	return Open
}

// Verb is the first word of the command that ends a prepared transaction with the outcome.
func (o Outcome) Verb() string {
	if o == Committed {
		return "COMMIT"
	}
	return "ROLLBACK"
}
