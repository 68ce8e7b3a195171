package consistency

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Check returns the anomalies of a history. final are the lists as they are in the
// end.
func Check(history []Transaction, final map[string][]string) []Anomaly {
	c := &checker{history: history, final: final, writer: map[string]map[string]int{}, order: map[string][]string{}}
	c.writers()
	c.orders()
	c.reads()
	c.lost()
	if len(c.found) == 0 { // else versions have no order to speak of
		c.cycles()
	}
	return c.found
}

type checker struct {
	history []Transaction
	final   map[string][]string
	// writer has the transaction that appended a value to a key.
	writer map[string]map[string]int
	// order is the longest list of each key.
	order map[string][]string
	found []Anomaly
}

func (c *checker) add(kind, format string, args ...any) {
	c.found = append(c.found, Anomaly{kind, fmt.Sprintf(format, args...)})
}

func (c *checker) writers() {
	for i, t := range c.history {
		for _, op := range t.Ops {
			if op.Append == "" {
				continue
			}
			if c.writer[op.Key] == nil {
				c.writer[op.Key] = map[string]int{}
			}
			if _, twice := c.writer[op.Key][op.Append]; twice {
				panic("value " + op.Append + " is appended twice to " + op.Key)
			}
			c.writer[op.Key][op.Append] = i
		}
	}
}

// orders finds the longest list of each key: all others must be its beginning.
func (c *checker) orders() {
	look := func(key string, list []string) {
		long, short := c.order[key], list
		if len(list) > len(long) {
			long, short = list, c.order[key]
		}
		if !slices.Equal(long[:len(short)], short) {
			c.add("torn", "%s was [%s] and [%s]", key, strings.Join(long, " "), strings.Join(short, " "))
			return
		}
		c.order[key] = long
	}
	for _, key := range slices.Sorted(maps.Keys(c.final)) {
		look(key, c.final[key])
	}
	for _, t := range c.history {
		own := map[string]int{} // what it has appended itself
		for _, op := range t.Ops {
			if op.Append != "" {
				own[op.Key]++
				continue
			}
			if t.Outcome == Committed && own[op.Key] == 0 {
				look(op.Key, op.Read)
			}
		}
	}
	for key, list := range c.order {
		seen := map[string]bool{}
		for _, v := range list {
			if seen[v] {
				c.add("twice", "%s has %s twice", key, v)
			}
			seen[v] = true
		}
	}
}

// reads looks for values that nobody should have seen.
func (c *checker) reads() {
	look := func(who, key string, list []string) {
		for i, v := range list {
			w, ok := c.writer[key][v]
			switch {
			case !ok:
				c.add("torn", "%s saw %s in %s, which nobody has appended", who, v, key)
			case c.history[w].Outcome == Aborted && c.history[w].Name != who:
				c.add("G1a", "%s saw %s in %s, of %s, which was rolled back", who, v, key, c.history[w].Name)
			case i == len(list)-1 && c.history[w].Name != who && c.lastOf(w, key) != v:
				c.add("G1b", "%s saw %s in %s as the last, but %s appended %s too", who, v, key, c.history[w].Name, c.lastOf(w, key))
			}
		}
	}
	for _, t := range c.history {
		for _, op := range t.Ops {
			if op.Append == "" {
				look(t.Name, op.Key, op.Read)
			}
		}
	}
	for key, list := range c.final {
		look("the end", key, list)
	}
}

// lastOf is the last value that a transaction appended to a key.
func (c *checker) lastOf(t int, key string) (v string) {
	for _, op := range c.history[t].Ops {
		if op.Key == key && op.Append != "" {
			v = op.Append
		}
	}
	return v
}

// lost looks for acknowledged values that are not there in the end, and for
// transactions of which a part is.
func (c *checker) lost() {
	for _, t := range c.history {
		var there, missing []string
		for _, op := range t.Ops {
			switch {
			case op.Append == "":
			case slices.Contains(c.final[op.Key], op.Append):
				there = append(there, op.Key+" "+op.Append)
			default:
				missing = append(missing, op.Key+" "+op.Append)
			}
		}
		switch {
		case t.Outcome == Committed && len(missing) > 0:
			c.add("lost", "%s was acknowledged, and %s is not there", t.Name, strings.Join(missing, ", "))
		case t.Outcome == Unknown && len(missing) > 0 && len(there) > 0:
			c.add("lost", "of %s only a part is there: %s, not %s", t.Name, strings.Join(there, ", "), strings.Join(missing, ", "))
		}
	}
}
