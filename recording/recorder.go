package recording

import (
	"math/rand/v2"
	"sync"
)

const (
	// MaxTransactions is how many transactions a Recorder keeps.
	MaxTransactions = 10_000
	// MaxBytes bounds about how much memory they take.
	MaxBytes = 16 << 20
	// MaxExecutions and MaxValues bound what is kept of one transaction, and of one execution.
	MaxExecutions = 200
	MaxValues     = 200
)

// Execution is one statement of a transaction, with what is known of its values: those of its
// parameters in order, then those of its literals.
type Execution struct {
	Text   string  `json:"t,omitempty"` // normalised
	ID     int64   `json:"s,omitempty"` // of the text, where texts are known by numbers
	Values []Value `json:"v,omitempty"`
}

// Transaction is one transaction that was recorded.
type Transaction []Execution

// bytes is about how much memory the transaction takes. Texts are shared with the caches.
func (t Transaction) bytes() int {
	n := 24
	for i := range t {
		n += 64
		for _, v := range t[i].Values {
			n += 24 + 8*len(v)
		}
	}
	return n
}

// Recorder keeps a sample of the transactions of one database. It is safe for concurrent use.
type Recorder struct {
	Database string
	Key      Key
	Share    float64 // of all transactions that are looked at

	mu    sync.Mutex
	kept  []Transaction
	bytes int
	seen  int64
}

// Chosen reports whether the transaction that begins is to be recorded.
func (r *Recorder) Chosen() bool { return r.Share >= 1 || rand.Float64() < r.Share }

// Put takes over a transaction that has ended.
func (r *Recorder) Put(t Transaction) {
	if len(t) == 0 {
		return
	}
	size := t.bytes()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen++
	at := int64(len(r.kept))
	if at >= MaxTransactions || r.bytes+size > MaxBytes {
		// All transactions so far have the same chance to be among the kept ones.
		if at = rand.Int64N(r.seen); at >= int64(len(r.kept)) {
			return
		}
		if r.bytes += size - r.kept[at].bytes(); r.bytes > MaxBytes {
			r.bytes -= size - r.kept[at].bytes()
			return
		}
		r.kept[at] = t
		return
	}
	r.kept, r.bytes = append(r.kept, t), r.bytes+size
}

// State is how full a Recorder is.
type State struct {
	Seen, Kept, Bytes int64
}

// State returns how full the Recorder is.
func (r *Recorder) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return State{r.seen, int64(len(r.kept)), int64(r.bytes)}
}

// Transactions returns what has been kept. The caller changes nothing in it.
func (r *Recorder) Transactions() []Transaction {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Transaction(nil), r.kept...)
}
