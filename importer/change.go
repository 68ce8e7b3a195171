package importer

import (
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
)

// LSN is a position in the WAL of the source.
type LSN = pglogrepl.LSN

// Value is one column of a changed row.
type Value struct {
	// Kind is 't' for a value, 'n' for NULL, 'u' for a large value that has not changed and is not told.
	Kind byte
	Text []byte
}

func (v Value) equal(o Value) bool { return v.Kind == o.Kind && string(v.Text) == string(o.Text) }

// param is the value as a parameter of a statement.
func (v Value) param() []byte {
	if v.Kind != 't' {
		return nil
	}
	if v.Text == nil {
		return []byte{}
	}
	return v.Text
}

// Relation is a table as the stream describes it.
type Relation struct {
	Schema, Name string
	Columns      []string
	Key          []bool // by column: part of the replica identity
	Full         bool   // the identity is the whole row
	types        []uint32
	mods         []int32
}

// Change is a change of the source: of one row, or that tables were truncated.
type Change struct {
	Kind byte // 'I', 'U', 'D', 'T'
	Of   *Relation
	// New is the row now, of I and U.
	New []Value
	// Old is the row before, of D, and of U if its key has changed or the identity is full. Columns outside of the identity
	// are NULL in it unless Full.
	Old  []Value
	Full bool
	// Truncated are the tables of T.
	Truncated []*Relation
}

// size is about how many bytes it takes.
func (c *Change) size() int {
	n := 64
	for _, row := range [...][]Value{c.New, c.Old} {
		for i := range row {
			n += 24 + len(row[i].Text)
		}
	}
	return n
}

// event is what the stream says.
type event struct {
	begin    LSN // a transaction with this commit position begins
	relation *Relation
	change   *Change
	end      LSN // a transaction has ended: the position after it
	at       time.Time
}

// decoder turns the messages of pgoutput into events. Relations are those of this stream alone.
type decoder struct {
	relations map[uint32]*Relation
}

func newDecoder() *decoder { return &decoder{relations: map[uint32]*Relation{}} }

// decode reads a message; it may say nothing.
func (d *decoder) decode(data []byte) (e event, err error) {
	m, err := pglogrepl.Parse(data)
	if err != nil {
		return e, fmt.Errorf("a message of the source cannot be read: %w", err)
	}
	switch m := m.(type) {
	case *pglogrepl.BeginMessage:
		e.begin = m.FinalLSN
	case *pglogrepl.CommitMessage:
		e.end, e.at = m.TransactionEndLSN, m.CommitTime
	case *pglogrepl.RelationMessage:
		e.relation = relation(m)
		d.relations[m.RelationID] = e.relation
	case *pglogrepl.InsertMessage:
		e.change, err = d.row('I', m.RelationID, nil, 0, m.Tuple)
	case *pglogrepl.UpdateMessage:
		e.change, err = d.row('U', m.RelationID, m.OldTuple, m.OldTupleType, m.NewTuple)
	case *pglogrepl.DeleteMessage:
		e.change, err = d.row('D', m.RelationID, m.OldTuple, m.OldTupleType, nil)
	case *pglogrepl.TruncateMessage:
		e.change = &Change{Kind: 'T'}
		for _, id := range m.RelationIDs {
			r := d.relations[id]
			if r == nil {
				return e, fmt.Errorf("the source has truncated table %d, which it has not described", id)
			}
			e.change.Truncated = append(e.change.Truncated, r)
		}
	}
	return e, err
}

func relation(m *pglogrepl.RelationMessage) *Relation {
	r := &Relation{Schema: m.Namespace, Name: m.RelationName, Full: m.ReplicaIdentity == byte(FullIdentity)}
	for _, c := range m.Columns {
		r.Columns = append(r.Columns, c.Name)
		r.Key = append(r.Key, c.Flags&1 != 0)
		r.types = append(r.types, c.DataType)
		r.mods = append(r.mods, c.TypeModifier)
	}
	return r
}

func (d *decoder) row(kind byte, id uint32, old *pglogrepl.TupleData, oldType uint8, now *pglogrepl.TupleData) (*Change, error) {
	r := d.relations[id]
	if r == nil {
		return nil, fmt.Errorf("the source has changed a row of table %d, which it has not described", id)
	}
	c := &Change{Kind: kind, Of: r, Full: old != nil && oldType == pglogrepl.UpdateMessageTupleTypeOld}
	var err error
	if c.Old, err = r.values(old); err != nil {
		return nil, err
	}
	if c.New, err = r.values(now); err != nil {
		return nil, err
	}
	if c.Full {
		// The old row is whole: it has the large values that have not changed.
		for i := range c.New {
			if c.New[i].Kind == 'u' {
				c.New[i] = c.Old[i]
			}
		}
	}
	return c, nil
}

func (r *Relation) values(t *pglogrepl.TupleData) ([]Value, error) {
	if t == nil {
		return nil, nil
	}
	if len(t.Columns) != len(r.Columns) {
		return nil, fmt.Errorf("a row of %s.%s has %d columns, the table %d", r.Schema, r.Name, len(t.Columns), len(r.Columns))
	}
	out := make([]Value, len(t.Columns))
	for i, c := range t.Columns {
		switch c.DataType {
		case 't', 'n', 'u':
			out[i] = Value{c.DataType, c.Data}
		default:
			return nil, fmt.Errorf("a value of %s.%s has the unknown form %q", r.Schema, r.Name, c.DataType)
		}
	}
	return out, nil
}
