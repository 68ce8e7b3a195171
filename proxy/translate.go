package proxy

import (
	"encoding/binary"
	"sync"

	"weft/catalog"
	"weft/parser"
	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// Types and tables that users make have different OIDs on every shard. Clients know the
// OIDs of the home shard, so messages from and to other shards are translated.

// translations are the translations for all databases and shards, at their last version.
type translations struct {
	mu     sync.Mutex
	byLane map[translationKey]*translation
	homes  map[string]*homeTypes
}

type translationKey struct{ database, shard string }

type translation struct {
	version int64
	*catalog.Translation
}

type homeTypes struct {
	version int64
	types   *catalog.Types
}

// translationTo returns the translation between the session and a shard; nil if none is
// needed.
func (h *held) translationTo(l *pool.Lane) (*catalog.Translation, error) {
	if l == h.s.lane || l.Shard().Name == h.s.lane.Shard().Name || !h.s.route.hasTables {
		return nil, nil
	}
	if h.s.record.done.bits&(parser.DDL|parser.Opaque) != 0 && h.s.route.holdsHome() && h.conn != nil && h.conn.Lane() == l {
		return h.privateTranslation()
	}
	version := h.s.route.snap.Schemas[h.s.db.Name]
	way := h.way(l)
	if way.translates == h.s.route.snap {
		return way.translation, nil
	}
	t := &h.s.srv.memory.translations
	key := translationKey{h.s.db.Name, l.Shard().Name}
	t.mu.Lock()
	known, home := t.byLane[key], t.homes[h.s.db.Name]
	t.mu.Unlock()
	if known == nil || known.version != version {
		if home == nil || home.version != version {
			types, err := catalog.LoadTypes(h.s.route.askHome)
			if err != nil {
				return nil, err
			}
			home = &homeTypes{version, types}
		}
		types, err := catalog.LoadTypes(func(sql string) ([][]string, error) { return h.s.route.ask(l, sql) })
		if err != nil {
			return nil, err
		}
		known = &translation{version, catalog.NewTranslation(home.types, types)}
		t.mu.Lock()
		if t.byLane == nil {
			t.byLane, t.homes = map[translationKey]*translation{}, map[string]*homeTypes{}
		}
		t.byLane[key], t.homes[h.s.db.Name] = known, home
		t.mu.Unlock()
	}
	way.translates, way.translation = h.s.route.snap, known.Translation
	return known.Translation, nil
}

// privateTranslation is the translation for a transaction that may have made types of its
// own.
func (h *held) privateTranslation() (*catalog.Translation, error) {
	if err := h.s.tx.quiesce(); err != nil {
		return nil, err
	}
	home, err := catalog.LoadTypes(h.s.route.askHome)
	if err != nil {
		return nil, err
	}
	here, err := catalog.LoadTypes(func(sql string) ([][]string, error) { return askHere(h.conn, sql) })
	if err != nil {
		return nil, err
	}
	return catalog.NewTranslation(home, here), nil
}

// untranslatable is the error for a type that only one shard has.
func untranslatable(err error) *pgerr.Error {
	return pgerr.New(pgerr.InternalError, "the shard's answer cannot be translated: %s", err.Error()).
		WithHint("Was the schema changed on a shard without weft?")
}

// describeRows translates a RowDescription in place and notes which columns of the rows
// that follow must be translated, too.
func (h *held) describeRows(o *op, body []byte) error {
	rows, err := h.translate.RowDescription(body)
	if err != nil {
		return untranslatable(err)
	}
	switch {
	case o.rows != nil:
		*o.rows = rows
	case rows.Deep() && o.kind == opQuery:
		kept := rows // a copy: only here rows outlives the message
		o.rows = &kept
	}
	if st := h.s.prepared.learning(o); st != nil {
		if st.shape = shallow; rows.MayBeDeep() {
			st.shape = deep
		}
	}
	return nil
}

// learning returns the statement that an answer describes, nil if it has been replaced.
func (ps *prepared) learning(o *op) *planned {
	if o.learns == &ps.unnamed.planned && o.version != ps.unnamed.version {
		return nil
	}
	return o.learns
}

// shape says whether rows of a statement can hold OIDs.
type shape uint8

const (
	unseen shape = iota
	shallow
	deep
)

// describeBound has the backend describe a portal whose binary rows may hold OIDs, so that
// the OIDs can be found. The client does not see the answer.
func (ps *portals) describeBound(portal []byte, pl *planned, tail []byte) {
	if pl.shape == shallow || !binaryResult(tail) {
		delete(ps.rows, string(portal))
		return
	}
	rows := new(catalog.Rows)
	if ps.rows == nil {
		ps.rows = map[string]*catalog.Rows{}
	}
	ps.rows[string(portal)] = rows
	ps.s.pipe.unsent.B = wire.AppendDescribe(ps.s.pipe.unsent.B, 'P', string(portal))
	ps.s.pipe.ops.push(op{kind: opDescribePortal, injected: true, learns: pl, version: ps.s.prepared.unnamed.version, rows: rows})
}

// binaryResult reports whether a Bind asks for binary results; tail is the part of the Bind
// after the names.
func binaryResult(tail []byte) bool {
	skip16 := func(b []byte) ([]byte, bool) {
		if len(b) < 2 {
			return nil, false
		}
		n := 2 * int(binary.BigEndian.Uint16(b))
		return b[2:], len(b) >= 2+n
	}
	b, ok := skip16(tail)
	if !ok {
		return false
	}
	b = b[2*int(binary.BigEndian.Uint16(tail)):]
	if len(b) < 2 {
		return false
	}
	n := int(binary.BigEndian.Uint16(b))
	b = b[2:]
	for range n {
		if len(b) < 4 {
			return false
		}
		l := int32(binary.BigEndian.Uint32(b))
		b = b[4:]
		if l > 0 {
			if int(l) > len(b) {
				return false
			}
			b = b[l:]
		}
	}
	if b, ok = skip16(b); !ok {
		return false
	}
	for i := 1; i < len(b); i += 2 {
		if b[i] != 0 {
			return true
		}
	}
	return false
}

// oidsHere returns the types of a Parse as the backend at hand knows them. If the backend
// lacks a type, it says so itself.
func (h *held) oidsHere(oids []byte) []byte {
	if here, err := h.translate.ParseOIDs(oids); err == nil {
		return here
	}
	return oids
}

// bindHere translates the OIDs in the binary parameters of a Bind. If that cannot be done,
// the backend says what is wrong with the parameters.
func (h *held) bindHere(pl *planned, tail []byte) []byte {
	types := pl.params
	if types == nil {
		types = pl.oids
	}
	if here, err := h.translate.Bind(tail, types); err == nil {
		return here
	}
	return tail
}
