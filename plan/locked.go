package plan

import (
	"fmt"
	"strings"
	"unsafe"
)

// Locked says how a query locks rows of several shards if it does not run whole inside each shard: it is asked without its
// locks for the keys of the rows, these are locked by their keys, and it is asked again for the rows that are locked.
type Locked struct {
	// Look is the query without its locks. Behind the client's columns it has the key columns of all Tables, and then its LIMIT.
	// All is the same without LIMIT, empty if there is none.
	Look, All string
	// Rows is a name in the texts that stands for a condition on the rows.
	Rows   string
	Tables []LockedTable
}

// LockedTable is a table whose rows are locked.
type LockedTable struct {
	// From is the table with the name that the query gives it, as SQL; Name is that name.
	From, Name string
	// Keys are columns that tell rows apart, and Types are their types, as SQL.
	Keys, Types []string
	// Shard are those of them that the shard depends on, by their places.
	Shard []int
	// Clause says how rows are locked, such as FOR UPDATE NOWAIT. Skips: rows that others have locked are passed over.
	Clause string
	Skips  bool
}

func (*Locked) way() {}

func (l *Locked) size() int64 {
	n := int64(unsafe.Sizeof(*l)) + int64(len(l.Look)+len(l.All)+len(l.Rows))
	for i := range l.Tables {
		t := &l.Tables[i]
		n += int64(unsafe.Sizeof(*t)) + int64(len(t.From)+len(t.Name)+len(t.Clause)) + stringsSize(t.Keys) + stringsSize(t.Types) + 8*int64(len(t.Shard))
	}
	return n
}

// Locked returns how rows of several shards are locked by their keys, nil if the plan's way is another.
func (p *Plan) Locked() *Locked {
	l, _ := p.Across.(*Locked)
	return l
}

func (l *Locked) print(b *strings.Builder) {
	fmt.Fprintf(b, "  looked: %s\n", l.Look)
	for i := range l.Tables {
		t := &l.Tables[i]
		fmt.Fprintf(b, "  locked: %s (%s) %s\n", t.From, strings.Join(t.Keys, ", "), t.Clause)
	}
}
