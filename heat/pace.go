package heat

import (
	"cmp"
	"hash/fnv"
	"slices"
)

// mostPaces bounds the statements of a shard that a brief tells the times of.
const mostPaces = 8

// Pace is how long a statement takes on one shard, in the last moment.
type Pace struct {
	ID    uint64    `json:"i"` // of database, user, text and shard, the same through every proxy
	Calls float64   `json:"c"` // per second
	Times Histogram `json:"h"`
}

// Paces are the heaviest statements of each shard.
type Paces map[string][]Pace

// paces returns how long the heaviest statements of each shard take.
func (p *Picture) paces() Paces {
	f, out := p.perSecond(), Paces{}
	all := slices.SortedFunc(slices.Values(p.statements.heap), heavier[Statement])
	for _, e := range all {
		if list := out[e.Name.Shard]; len(list) < mostPaces && e.Load.Calls() > 0 {
			out[e.Name.Shard] = append(list, Pace{ID: e.Name.hash(), Calls: e.Load.Calls() * f, Times: e.Times})
		}
	}
	return out
}

// hash returns a number that stands for the statement.
func (s Statement) hash() uint64 {
	h := fnv.New64a()
	for _, part := range []string{s.Database, s.User, s.Shard, s.Text} {
		_, _ = h.Write([]byte(part))
		_, _ = h.Write([]byte{0})
	}
	return h.Sum64()
}

// Merge returns what two proxies say together.
func (p Paces) Merge(o Paces) Paces {
	out := Paces{}
	for _, x := range []Paces{p, o} {
		for shard, list := range x {
			for _, one := range list {
				at := slices.IndexFunc(out[shard], func(q Pace) bool { return q.ID == one.ID })
				if at < 0 {
					out[shard] = append(out[shard], one)
					continue
				}
				q := &out[shard][at]
				q.Calls += one.Calls
				q.Times.Merge(&one.Times, 1)
			}
		}
	}
	for shard, list := range out {
		slices.SortFunc(list, func(a, b Pace) int {
			return cmp.Or(cmp.Compare(b.Calls*b.Times.Quantile(0.5), a.Calls*a.Times.Quantile(0.5)), cmp.Compare(a.ID, b.ID))
		})
		out[shard] = list[:min(len(list), 2*mostPaces)]
	}
	return out
}

// Room is what one shard's connections are used for at this moment.
type Room struct {
	Lent    int `json:"l"` // work for clients, not counting those that sessions keep between transactions
	Waiting int `json:"w"` // clients that wait for one
	Most    int `json:"m"` // how many there may be by configuration
}

// Plus returns both together.
func (r Room) Plus(o Room) Room {
	return Room{r.Lent + o.Lent, r.Waiting + o.Waiting, r.Most + o.Most}
}
