package planner

import (
	"bytes"
	"encoding/binary"
	"sync/atomic"

	"weft/memo"
	"weft/parser"
	"weft/plan"
)

const (
	maxCached  = 64 << 10 // longer texts are planned each time: they are rarely sent twice
	exactShare = 8        // this fraction of the memory is for plans that hold for one text only
)

// ID stands for one Env in the keys of a Cache. Plans of an Env with ID 0 are not kept.
type ID uint64

var lastID atomic.Uint64

// NewID returns an ID that no Env of this process has had. Every Env gets one, and a new Env is
// made whenever the database, the role, the search path, the settings, the schema or the
// declarations change: so a plan that was made for an older state is never found again, and ages
// out.
func NewID() ID { return ID(lastID.Add(1)) }

// Cache keeps plans, within a bound of memory. It is safe for concurrent use: a hit takes no lock
// and does not allocate.
//
// Plans do not depend on placement and lookup entries, so nothing is thrown out when buckets move
// or entries come.
type Cache struct {
	norms *memo.Table[*plan.Plan] // by Norm; nil means that the plan depends on the literals
	texts *memo.Table[*plan.Plan] // by text, for plans that depend on the literals

	// planning is PlanLater, gathering is PlanGathered, timing is PlanTimed; tests replace them.
	planning, gathering, timing planning

	misses atomic.Int64
}

// Misses returns how many texts were planned because no plan was known.
func (c *Cache) Misses() int64 { return c.misses.Load() }

type planning func(env *Env, text string, literals []parser.Literal, paramTypes []uint32) *plan.Plan

// NewCache returns a cache that keeps at most about maxBytes.
func NewCache(maxBytes int64) *Cache {
	return &Cache{
		norms:    memo.New[*plan.Plan](maxBytes - maxBytes/exactShare),
		texts:    memo.New[*plan.Plan](maxBytes / exactShare),
		planning: PlanLater, gathering: PlanGathered, timing: PlanTimed,
	}
}

// Plan returns the plan of a text in an environment, making it only if no text
// of the same Norm with the same declared parameter types was seen lately. The
// scan of the text is in s, as parser.Cache.Facts leaves it there. oids are the
// declared types as they stand in a Parse message, count and all; nil for none.
func (c *Cache) Plan(env *Env, s *parser.Scanner, text, oids []byte) *plan.Plan {
	return c.plan(uint64(env.ID), c.planning, env, s, text, oids)
}

// Gathered is Plan for a text whose plan was Postponed and is needed now.
func (c *Cache) Gathered(env *Env, s *parser.Scanner, text, oids []byte) *plan.Plan {
	return c.plan(^uint64(env.ID), c.gathering, env, s, text, oids)
}

// Timed is Plan for a text that runs on a shard whose transaction has another time.
func (c *Cache) Timed(env *Env, s *parser.Scanner, text, oids []byte) *plan.Plan {
	return c.plan(uint64(env.ID)|1<<62, c.timing, env, s, text, oids)
}

func (c *Cache) plan(tag uint64, by planning, env *Env, s *parser.Scanner, text, oids []byte) *plan.Plan {
	if len(oids) <= 2 {
		oids = nil
	}
	miss := func() *plan.Plan {
		c.misses.Add(1)
		return by(env, string(text), s.Literals, types(oids))
	}
	scanned := len(s.Norm) > 0 || len(text) == 0
	if !scanned || len(s.Norm) > maxCached || env.ID == 0 || len(env.Temporary) > 0 {
		return miss()
	}
	norm := memo.Key{Tag: tag, Text: s.Norm, More: oids}
	p, known := c.norms.Get(&norm)
	if p != nil {
		return p
	}
	// The settings that change how a text is cut are part of the Env.
	exact := memo.Key{Tag: tag, Text: text, More: oids}
	if known {
		if p, ok := c.texts.Get(&exact); ok {
			return p
		}
	}
	p = miss()
	switch {
	case !exactOnly(p, s.Norm):
		c.norms.Put(&norm, p, p.Size())
	case !known:
		c.norms.Put(&norm, nil, 0)
	case len(text) <= maxCached:
		c.texts.Put(&exact, p, p.Size())
	}
	return p
}

// exactOnly reports whether a plan holds for its very text only: because the planner says so, or
// because the plan contains values of literals. The name that U&"…" means depends on the literal of
// a UESCAPE clause.
func exactOnly(p *plan.Plan, norm []byte) bool {
	return p.Exact || p.Function != nil || bytes.Contains(norm, []byte(`u&"`)) || bytes.Contains(norm, []byte(`U&"`))
}

// Bytes returns about how much memory the cache holds now.
func (c *Cache) Bytes() int64 { return c.norms.Bytes() + c.texts.Bytes() }

// types decodes the types of a Parse message.
func types(oids []byte) []uint32 {
	var out []uint32
	for i := 2; i+4 <= len(oids); i += 4 {
		out = append(out, binary.BigEndian.Uint32(oids[i:]))
	}
	return out
}
