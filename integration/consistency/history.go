package consistency

// Outcome is what a client was told of its transaction.
type Outcome uint8

// The outcomes.
const (
	Committed Outcome = iota
	Aborted
	Unknown // nobody told
)

// Transaction is what one client did at one time.
type Transaction struct {
	Name    string
	Outcome Outcome
	Ops     []Op
}

// Op is one step of it. An append was carried out if Outcome says so; a read has
// what it saw.
type Op struct {
	Key    string
	Append string   // the value, if it is one
	Read   []string // the list, if it is none
}

// Anomaly is something that must not be.
type Anomaly struct {
	Kind string // G0, G1a, G1b, G1c, lost, torn, twice
	What string
}

func (a Anomaly) String() string { return a.Kind + ": " + a.What }
