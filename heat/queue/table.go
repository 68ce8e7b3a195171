package queue

import (
	"encoding/binary"
	"hash/fnv"

	"weft/heat/ferry"
)

// Key is a value of a shard key. Group and ID name it as package heat does, and Value is its whole spelling: different values may
// have the same ID.
type Key struct {
	Database string
	Group    uint32
	ID       uint64
	Value    string
}

// Sum is a number for the key that is the same in all proxies, and tells nothing of the value.
func (k *Key) Sum() uint64 {
	h := fnv.New64a()
	_, _ = h.Write(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, k.Group), k.ID))
	_, _ = h.Write([]byte(k.Database + "\x00" + k.Value))
	return h.Sum64()
}

// Hot is a key that is hot, with what is done about it.
type Hot struct {
	Key
	// Shard has the key. Words name the key for people, and Hidden is the same without the value.
	Shard, Words, Hidden string
	// Row is the queue of transactions that write, and Pier where reads begin; nil for none.
	Row  *Row
	Pier *ferry.Pier
}

// Table is all hot keys. It is never changed.
type Table struct {
	all  []*Hot
	keys map[name][]*Hot
}

type name struct {
	database string
	group    uint32
	id       uint64
}

// NewTable returns a table, nil if no key is hot.
func NewTable(all []*Hot) *Table {
	if len(all) == 0 {
		return nil
	}
	t := &Table{all: all, keys: map[name][]*Hot{}}
	for _, h := range all {
		at := name{h.Database, h.Group, h.ID}
		t.keys[at] = append(t.keys[at], h)
	}
	return t
}

// All returns all hot keys, in the order of NewTable.
func (t *Table) All() []*Hot {
	if t == nil {
		return nil
	}
	return t.all
}

// Named returns the hot keys of a name, for Spelled.
func (t *Table) Named(database string, group uint32, id uint64) []*Hot {
	return t.keys[name{database, group, id}]
}

// Spelled returns that one of the keys that Named has found which is spelled so, nil if none is.
func Spelled(named []*Hot, value []byte) *Hot {
	for _, h := range named {
		if h.Value == string(value) {
			return h
		}
	}
	return nil
}
