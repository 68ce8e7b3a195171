package plan

// Text is SQL with holes for what differs between executions.
type Text []Part

// PartKind says what a Part is.
type PartKind uint8

// The kinds of parts.
const (
	// SQL is SQL text, used verbatim.
	SQL PartKind = iota
	// Lit is the Index-th literal of the client's text, verbatim; with Negative, in parentheses
	// and after a minus sign.
	Lit
	// Input is a subquery in parentheses with the rows of the Index-th piece.
	Input
	// Now is the start of the transaction, as a constant of type timestamptz.
	Now
	// TypeOf is the name of the type of column Column of piece Index.
	TypeOf
	// Rest is a subquery in parentheses: the query inside a Command, over the pieces' rows.
	Rest
	// Given is the client's parameter Index, counted from 0. It may get another number in the
	// filled text.
	Given
	// Supplied is the Index-th value of Generate.
	Supplied
	// Held is the Index-th of Rows.Cells.
	Held
)

// Part is a piece of SQL or a hole.
type Part struct {
	Kind     PartKind
	SQL      string
	Index    int
	Column   int
	Negative bool
}

// Fill fills the holes of a Text. Each function appends to dst.
type Fill struct {
	Literal func(dst []byte, i int) []byte
	Input   func(dst []byte, i int) []byte
	Now     func(dst []byte) []byte
	Type    func(dst []byte, piece, column int) []byte
	Rest    func(dst []byte) []byte
	// Own fills the holes of INSERT … VALUES: Given, Supplied, Held.
	Own func(dst []byte, kind PartKind, i int) []byte
}

// Append appends the text with its holes filled.
func (t Text) Append(dst []byte, f *Fill) []byte {
	for i := range t {
		switch p := &t[i]; p.Kind {
		case SQL:
			dst = append(dst, p.SQL...)
		case Lit:
			if p.Negative {
				dst = append(dst, "(-"...)
			}
			dst = f.Literal(dst, p.Index)
			if p.Negative {
				dst = append(dst, ')')
			}
		case Input:
			dst = f.Input(dst, p.Index)
		case Now:
			dst = f.Now(dst)
		case TypeOf:
			dst = f.Type(dst, p.Index, p.Column)
		case Rest:
			dst = f.Rest(dst)
		case Given, Supplied, Held:
			dst = f.Own(dst, p.Kind, p.Index)
		}
	}
	return dst
}

// Has reports whether a text has a hole of that kind.
func (t Text) Has(k PartKind) bool {
	for i := range t {
		if t[i].Kind == k {
			return true
		}
	}
	return false
}
