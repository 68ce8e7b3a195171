package datum

// Format says how the bytes of a Value are to be read, as in Bind.
type Format int16

// The two formats of the protocol.
const (
	TextFormat   Format = 0
	BinaryFormat Format = 1
)

// Value is one value as it arrived. Bytes is nil for NULL and belongs to
// whoever made the Value.
type Value struct {
	// Type is what PostgreSQL takes the value for: Unknown, or 0, for a literal
	// without a cast; for a parameter the type the server resolved it to.
	Type   Type
	Format Format
	Bytes  []byte
}

// Literal returns the Value of an untyped literal, its quotes and escapes
// already taken off.
func Literal(text []byte) Value {
	if text == nil {
		text = []byte{}
	}
	return Value{Type: Unknown, Bytes: text}
}
