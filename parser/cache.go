package parser

import (
	"sync/atomic"
	"unsafe"

	"weft/memo"
)

const (
	maxCached  = 64 << 10 // longer keys are not kept: such texts are rarely sent twice
	exactShare = 8        // this fraction of the memory is for facts that hold for one text only
)

// Cache keeps the facts of texts by their Norm, within a bound of memory. It is safe for concurrent use: a hit takes no lock
// and does not allocate.
type Cache struct {
	norms *memo.Table[*Facts] // by shortened Norm; nil facts say that the facts depend on the literals
	texts *memo.Table[*Facts] // by text and options, for those

	misses atomic.Int64
}

// Misses is how many texts were parsed because their facts were not known.
func (c *Cache) Misses() int64 { return c.misses.Load() }

// NewCache returns a cache that keeps at most about maxBytes.
func NewCache(maxBytes int64) *Cache {
	return &Cache{norms: memo.New[*Facts](maxBytes - maxBytes/exactShare), texts: memo.New[*Facts](maxBytes / exactShare)}
}

// Facts returns the facts of a text, parsing it only if no text of the same Norm was seen lately. The scan is left in s for
// the caller. The facts of a text that cannot be scanned or parsed have Err set; they are not kept.
func (c *Cache) Facts(s *Scanner, text []byte, opt Options) *Facts {
	if !s.Scan(text, opt) {
		return parseFacts(string(text), opt)
	}
	key := shorten(s.short, s.Norm)
	short := len(key) < len(s.Norm)
	if short {
		s.short = key
	}
	if len(key) > maxCached {
		return parseFacts(string(text), opt)
	}
	norm := memo.Key{Text: key}
	facts, known := c.norms.Get(&norm)
	if facts != nil {
		return facts
	}
	exact := memo.Key{Tag: opt.Tag(), Text: text}
	if known {
		if facts, ok := c.texts.Get(&exact); ok {
			return facts
		}
	}
	if short && !known {
		facts = ParseFacts(dummyText(key))
	}
	if facts == nil || facts.Err != nil || facts.Exact {
		facts = parseFacts(string(text), opt)
	}
	if facts.Err == nil {
		facts.Norm = string(key)
	}
	c.misses.Add(1)
	switch {
	case facts.Err != nil:
	case !facts.Exact:
		// Texts of one Norm have the same tokens whatever the options were that cut them.
		c.norms.Put(&norm, facts, facts.size())
	case !known:
		c.norms.Put(&norm, nil, 0)
	case len(text) <= maxCached:
		c.texts.Put(&exact, facts, facts.size())
	}
	return facts
}

// Bytes returns about how much memory the cache holds now.
func (c *Cache) Bytes() int64 { return c.norms.Bytes() + c.texts.Bytes() }

// Tag returns the options as a number, for keys of caches.
func (o Options) Tag() uint64 {
	if o.NonStandardStrings {
		return 1
	}
	return 0
}

func (f *Facts) size() int64 {
	if f == nil {
		return 0
	}
	const header = int64(unsafe.Sizeof("")) + 8
	n := int64(unsafe.Sizeof(*f)) + 16 + int64(len(f.Norm))
	for _, list := range [][]string{f.Funcs, f.Relations} {
		for _, s := range list {
			n += header + int64(len(s))
		}
		n += header * int64(cap(list)-len(list))
	}
	for _, s := range f.Settings {
		n += int64(unsafe.Sizeof(s)) + int64(len(s.Name)) + 8
	}
	for _, ch := range f.Channels {
		n += int64(unsafe.Sizeof(ch)) + int64(len(ch.Name)) + 8
	}
	for _, p := range f.Prepared {
		n += int64(unsafe.Sizeof(p)) + int64(len(p.Name)) + 8 + p.Body.size()
	}
	return n
}
