package throttle

import (
	"math/bits"
	"time"
)

// Table is all rules in effect. It is never changed.
type Table struct {
	// Places are the keys and buckets that rules are about, nil if there are none.
	Places *Places
	all    []*Live
	// The rules of the other kinds by whom they concern.
	shards, users, databases, applications map[string][]*Live
	statements                             map[int64][]*Live
}

// NewTable returns a table, nil if there is no rule.
func NewTable(rules []*Live) *Table {
	if len(rules) == 0 {
		return nil
	}
	t := &Table{all: rules, statements: map[int64][]*Live{}}
	for _, l := range rules {
		switch l.Target.Kind {
		case Key, Bucket:
			if t.Places == nil {
				t.Places = &Places{keys: map[place][]int{}}
			}
			t.Places.add(l)
		case Statement:
			t.statements[l.Target.Statement] = append(t.statements[l.Target.Statement], l)
		case Shard, User, Database, Application:
			by := t.named(l.Target.Kind)
			if *by == nil {
				*by = map[string][]*Live{}
			}
			(*by)[l.Target.Name] = append((*by)[l.Target.Name], l)
		}
	}
	return t
}

// named is where the rules of a kind are whose targets have names.
func (t *Table) named(k Kind) *map[string][]*Live {
	switch k {
	case Shard:
		return &t.shards
	case User:
		return &t.users
	case Database:
		return &t.databases
	case Application, Key, Bucket, Statement:
	}
	return &t.applications
}

// All returns all rules, in the order of NewTable.
func (t *Table) All() []*Live {
	if t == nil {
		return nil
	}
	return t.all
}

// Wants reports whether there are rules of a kind, so that the caller finds out what they ask for.
func (t *Table) Wants(k Kind) bool {
	switch k {
	case Key, Bucket:
		return t.Places != nil
	case Statement:
		return len(t.statements) > 0
	case Shard, User, Database, Application:
	}
	return len(*t.named(k)) > 0
}

// Facts is what is known of a statement.
type Facts struct {
	Database, User, Application string
	Shards                      []string // that it visits
	Statement                   int64    // the id of weft.statements
	Found                       Set      // what Places has found
	Write                       bool
	Priority                    int // below 0: low, 0: normal, above: high
}

// Match appends the rules that concern a statement.
func (t *Table) Match(f *Facts, into []*Live) []*Live {
	add := func(rules []*Live) {
		for _, l := range rules {
			if l.concerns(f) {
				into = append(into, l)
			}
		}
	}
	for found := uint64(f.Found); found != 0; found &= found - 1 {
		if l := t.Places.rules[bits.TrailingZeros64(found)]; l.concerns(f) {
			into = append(into, l)
		}
	}
	if t.shards != nil {
		for _, name := range f.Shards {
			add(t.shards[name])
		}
	}
	if len(t.statements) > 0 {
		for _, l := range t.statements[f.Statement] {
			if l.Target.Database == f.Database && l.concerns(f) {
				into = append(into, l)
			}
		}
	}
	add(t.users[f.User])
	add(t.databases[f.Database])
	add(t.applications[f.Application])
	return into
}

// concerns reports whether a rule is about statements of this class and priority.
func (l *Live) concerns(f *Facts) bool {
	switch {
	case l.Class == Read && f.Write, l.Class == Write && !f.Write:
		return false
	case l.Below == "":
		return true
	}
	return f.Priority < levels[l.Below]-1
}

// Set is a set of rules of a Places.
type Set uint64

// Places are the rules about keys and buckets. It is never changed.
type Places struct {
	rules   []*Live
	keys    map[place][]int
	buckets []int
}

// place names a key.
type place struct {
	database string
	group    uint32
	id       uint64
}

// maxPlaces is how many rules a Set has room for.
const maxPlaces = 64

func (p *Places) add(l *Live) {
	n := len(p.rules)
	if n >= maxPlaces { // the bounds of rules leave no room for so many
		return
	}
	p.rules = append(p.rules, l)
	if l.Target.Kind == Bucket {
		p.buckets = append(p.buckets, n)
		return
	}
	at := place{l.Target.Database, l.Target.Group, l.Target.ID}
	p.keys[at] = append(p.keys[at], n)
}

// Named returns the rules about keys of a name, for Spelled. Different values may have the same name.
func (p *Places) Named(database string, group uint32, id uint64) []int {
	return p.keys[place{database, group, id}]
}

// Spelled returns those of the rules that Named has found whose key is spelled so.
func (p *Places) Spelled(rules []int, value []byte) Set {
	var out Set
	for _, n := range rules {
		if string(p.rules[n].Target.Value) == string(value) {
			out |= 1 << n
		}
	}
	return out
}

// Bucket returns the rules about a bucket of a database, of so many.
func (p *Places) Bucket(database string, bucket, buckets int) Set {
	var out Set
	for _, n := range p.buckets {
		t := &p.rules[n].Target
		if t.Database == database && t.Buckets == buckets && int(t.First) <= bucket && bucket <= int(t.Last) {
			out |= 1 << n
		}
	}
	return out
}

// Without returns the rules that have not ended.
func Without(rules []*Live, now time.Time) []*Live {
	var out []*Live
	for _, l := range rules {
		if !l.Over(now) {
			out = append(out, l)
		}
	}
	return out
}
