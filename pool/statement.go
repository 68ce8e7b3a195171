package pool

import (
	"strconv"
	"sync"
	"sync/atomic"

	"weft/catalog"
	"weft/quote"
)

// Statement is one prepared statement as backends know it: one text with its parameter types and
// settings under one name, whichever client of a lane sent it. A backend is sent the statement
// when a session first needs it there.
type Statement struct {
	// Name is the statement's name on every backend. It starts with a control character so that
	// it never meets a name that a client chose.
	Name string
	// SQL is the text; for a statement made with PREPARE, the whole command
	// with Name in the place of the client's name.
	SQL string
	// OIDs is the tail of the Parse message: count and parameter types.
	OIDs string
	// Types are the parameter types in the form of OIDs, as the first backend that parsed the
	// statement inferred them; nil: not known yet. They do not change during the statement's
	// life, because clients encode values for them.
	Types atomic.Pointer[string]
	// ViaSQL says that SQL is a PREPARE command.
	ViaSQL bool
	// Settings are those in force when the client prepared the statement: literals such as dates
	// were read under them.
	Settings *Settings
	// Generation is the schema generation the statement was prepared under.
	Generation uint64

	// Description is the shape of the result's RowDescription (nil: not seen
	// yet, empty: no result), as the client was or would have been told.
	Description atomic.Pointer[[]byte]

	key  statementKey
	refs int
}

type statementKey struct {
	lane       Key
	sql, oids  string
	viaSQL     bool
	settings   uint64
	generation uint64
}

// Database is what all sessions on one database share.
type Database struct {
	Name string
	// Generation counts the schema changes seen. A statement prepared under an earlier
	// generation may have another result by now.
	Generation atomic.Uint64
	// ReadsSequences is set once a client asked for currval or lastval: from
	// then on sessions that write keep their backend.
	ReadsSequences atomic.Bool
	// Effects says which functions may change a session; nil: not known yet.
	Effects atomic.Pointer[catalog.Effects]

	mu    sync.Mutex
	known map[statementKey]*Statement
	next  uint64
}

func newDatabase(name string) *Database {
	return &Database{Name: name, known: map[statementKey]*Statement{}}
}

// Statement returns the shared statement for this text, making it if needed, and counts the
// caller as one of its users. A statement belongs to the lanes of one key: elsewhere the same
// names may mean other tables. With viaSQL the text is what follows the name in a PREPARE command.
func (d *Database) Statement(lane Key, sql, oids string, viaSQL bool, settings *Settings) *Statement {
	k := statementKey{lane: lane, sql: sql, oids: oids, viaSQL: viaSQL, generation: d.Generation.Load()}
	if settings != nil {
		k.settings = settings.hash
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.known[k]
	if s != nil && !s.Settings.Equal(settings) { // a hash collision
		s = nil
	}
	if s != nil {
		s.refs++
		return s
	}
	s = d.make(k, settings)
	d.known[k] = s
	return s
}

// Private returns a statement that is not shared: the transaction that prepares it has its own
// settings, and only its session knows that literals were read under them.
func (d *Database) Private(sql, oids string, viaSQL bool, settings *Settings) *Statement {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.make(statementKey{sql: sql, oids: oids, viaSQL: viaSQL, generation: d.Generation.Load()}, settings)
}

// make makes a statement; d is locked.
func (d *Database) make(k statementKey, settings *Settings) *Statement {
	s := &Statement{
		Name: NamePrefix + strconv.FormatUint(d.next, 36), SQL: k.sql, OIDs: k.oids, ViaSQL: k.viaSQL,
		Settings: settings, Generation: k.generation, key: k, refs: 1,
	}
	if k.viaSQL {
		s.SQL = "PREPARE " + quote.Ident(s.Name) + k.sql
	}
	d.next++
	return s
}

// ParseTypes returns the parameter types for a Parse message of s: the types that are known,
// else those that the client declared.
func (s *Statement) ParseTypes() []byte {
	if t := s.Types.Load(); t != nil {
		return []byte(*t)
	}
	return []byte(s.OIDs)
}

// Forget takes back one use of s.
func (d *Database) Forget(s *Statement) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.refs--
	if s.refs == 0 && d.known[s.key] == s {
		delete(d.known, s.key)
	}
}

// NamePrefix starts the name of every statement weft makes on a backend.
const NamePrefix = "\x01w"

// prepared holds the names of one backend's prepared statements, most recently used first.
type prepared struct {
	byName map[string]*preparedNode
	head   preparedNode // ring
}

type preparedNode struct {
	name       string
	prev, next *preparedNode
}

// touch makes a name the most recently used, and reports whether the backend has it.
func (p *prepared) touch(name string) bool {
	n := p.byName[name]
	if n == nil {
		return false
	}
	if p.head.next != n {
		n.unlink()
		p.push(n)
	}
	return true
}

func (p *prepared) add(name string) {
	if p.touch(name) {
		return
	}
	if p.byName == nil {
		p.reset()
	}
	n := &preparedNode{name: name}
	p.byName[name] = n
	p.push(n)
}

func (p *prepared) remove(name string) {
	if n := p.byName[name]; n != nil {
		n.unlink()
		delete(p.byName, name)
	}
}

// oldest returns the least recently used name if there are more names than limit.
func (p *prepared) oldest(limit int) (string, bool) {
	if len(p.byName) <= limit {
		return "", false
	}
	return p.head.prev.name, true
}

func (p *prepared) reset() {
	p.byName = map[string]*preparedNode{}
	p.head.prev, p.head.next = &p.head, &p.head
}

func (p *prepared) push(n *preparedNode) {
	n.prev, n.next = &p.head, p.head.next
	p.head.next.prev = n
	p.head.next = n
}

func (n *preparedNode) unlink() { n.prev.next, n.next.prev = n.next, n.prev }
