package stream

import "io"

// Key is one key of an order.
type Key struct {
	Column           int
	Desc, NullsFirst bool
	Compare          Comparer
}

// Comparer orders two values of one type, in the format that the Comparer was made for. Neither
// value is NULL.
type Comparer func(a, b []byte) int

// Merge returns the rows of all parts in the order of the keys; each part must be in that order.
// Rows with equal keys come in the order of the parts.
//
// Merge keeps the current row of each part, in the part's own memory: it reads the next row of a
// part only when the current row has been yielded and another row is wanted.
func Merge(keys []Key, parts ...Rows) Rows {
	switch len(parts) {
	case 0:
		return none{}
	case 1:
		return parts[0]
	}
	columns := make([]int, len(keys))
	for i, k := range keys {
		columns[i] = k.Column
	}
	m := &merged{keys: keys, picker: newPicker(columns), inputs: make([]head, len(parts)), tree: make([]int, len(parts))}
	values := make([][]byte, len(keys)*len(parts))
	for i, p := range parts {
		m.inputs[i] = head{rows: p, keys: values[i*len(keys) : (i+1)*len(keys)]}
	}
	return m
}

type merged struct {
	keys   []Key
	picker picker
	inputs []head

	// tree is a tournament. The inputs are its leaves, numbered from len(inputs); the parent of
	// node n is n/2. Element n is the loser of the match at n, element 0 the overall winner. The
	// first Next fills the tree.
	tree    []int
	started bool
	err     error
}

// head is a part and its current row.
type head struct {
	rows Rows
	row  []byte
	keys [][]byte // the values of row's sort keys, nil for NULL
	done bool
}

func (m *merged) Next() ([]byte, error) {
	if m.err != nil {
		return nil, m.err
	}
	if m.started {
		m.advance(m.tree[0])
		m.replay(m.tree[0])
	} else {
		m.start()
	}
	if m.err != nil {
		return nil, m.err
	}
	winner := &m.inputs[m.tree[0]]
	if winner.done {
		m.err = io.EOF
		return nil, io.EOF
	}
	return winner.row, nil
}

// start reads the first row of every part and plays all matches.
func (m *merged) start() {
	m.started = true
	for i := range m.inputs {
		m.advance(i)
		m.tree[i] = -1 // wins every match, and so ends on top
	}
	for i := len(m.inputs) - 1; i >= 0; i-- {
		m.replay(i)
	}
}

// advance reads the next row of a part.
func (m *merged) advance(i int) {
	in := &m.inputs[i]
	row, err := in.rows.Next()
	if err == nil {
		err = m.picker.pick(row, in.keys)
	}
	switch {
	case err == nil:
		in.row = row
	case err == io.EOF:
		in.row, in.done = nil, true
		clear(in.keys)
	case m.err == nil:
		m.err = err
	}
}

// replay plays the matches between a leaf and the top.
func (m *merged) replay(i int) {
	for n := (i + len(m.inputs)) / 2; n > 0; n /= 2 {
		if other := m.tree[n]; i >= 0 && (other < 0 || m.before(other, i)) {
			m.tree[n], i = i, other
		}
	}
	m.tree[0] = i
}

// before reports whether the row of input a comes before the row of input b.
func (m *merged) before(a, b int) bool {
	left, right := &m.inputs[a], &m.inputs[b]
	if left.done || right.done {
		return !left.done
	}
	for i := range m.keys {
		if c := m.keys[i].compare(left.keys[i], right.keys[i]); c != 0 {
			return c < 0
		}
	}
	return a < b
}

// compare orders two values, nil for NULL.
func (k *Key) compare(a, b []byte) int {
	c := 0
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil || b == nil:
		if (a == nil) == k.NullsFirst {
			return -1
		}
		return 1
	default:
		c = k.Compare(a, b)
	}
	if k.Desc {
		return -c
	}
	return c
}
