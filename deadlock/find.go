package deadlock

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Knot is transactions that wait for each other in a circle, over more than one
// shard.
type Knot struct {
	// Victim is the youngest party in it.
	Victim *Party
	// Steps are its waits, the victim's first.
	Steps []Step
}

// Step is one transaction of a knot that waits for another.
type Step struct {
	waiter, blocker *node
	Waiter, Blocker string // as people shall read them
	Lock            string
	Shard           string
}

// node is a transaction: a party, or a backend that is nobody's.
type node struct {
	party   *Party
	backend Backend
	gid     string
	out     []edge // that it waits for, all of them
	queue   []edge // one of which is enough
	live    bool
	// Of the search for knots.
	index, low int
	stacked    bool
}

// edge is a wait of one node for another. from and to are the backends by which
// they are in it; zero if it is none.
type edge struct {
	to       *node
	from, by Backend
	lock     string
}

func (n *node) key() string {
	switch {
	case n.party != nil:
		return fmt.Sprintf("%s/%d/%d", n.party.Proxy, n.party.Session, n.party.Turn)
	case n.gid != "":
		return n.gid
	}
	return fmt.Sprintf("%s/%d", n.backend.Shard, n.backend.PID)
}

// graph is the facts, joined.
type graph struct {
	nodes    []*node
	parties  []*node
	backends map[Backend]*node
	gids     map[string]*node
}

// Find returns the knots in the facts, and those that are left once the victims of
// others have given way.
func Find(f Facts) []Knot {
	g := join(f)
	var out []Knot
	for again := true; again; {
		again = false
		g.release()
		for _, knot := range g.knots() {
			k, victim, ok := describe(knot)
			if !ok {
				continue
			}
			out = append(out, k)
			victim.live, again = true, true
		}
	}
	return out
}

// join makes transactions of backends.
func join(f Facts) *graph {
	g := &graph{backends: map[Backend]*node{}, gids: map[string]*node{}}
	for i := range f.Parties {
		p := &f.Parties[i]
		n := g.add(&node{party: p})
		g.parties = append(g.parties, n)
		for _, b := range p.Backends {
			g.backends[b] = n
		}
	}
	for _, w := range f.Waits {
		from, e := g.of(w.Backend), edge{from: w.Backend, lock: w.Lock}
		if w.By != 0 {
			e.by = Backend{w.Shard, w.By}
			e.to = g.of(e.by)
		} else {
			e.to = g.prepared(w.GID)
		}
		if e.to == from && e.by == e.from {
			continue
		}
		from.out = append(from.out, e)
	}
	for _, n := range g.parties {
		for _, b := range n.party.Holders {
			n.queue = append(n.queue, edge{to: g.of(b), by: b, lock: "a connection"})
		}
	}
	return g
}

func (g *graph) add(n *node) *node {
	g.nodes = append(g.nodes, n)
	return n
}

func (g *graph) of(b Backend) *node {
	n := g.backends[b]
	if n == nil {
		n = g.add(&node{backend: b})
		g.backends[b] = n
	}
	return n
}

// prepared returns whose prepared transaction that is.
func (g *graph) prepared(gid string) *node {
	for _, n := range g.parties {
		if p := n.party.Prepared; p != "" && strings.HasPrefix(gid, p) {
			return n
		}
	}
	n := g.gids[gid]
	if n == nil {
		n = g.add(&node{gid: gid})
		g.gids[gid] = n
	}
	return n
}

// release marks those that can go on, until there are no more.
func (g *graph) release() {
	for again := true; again; {
		again = false
		for _, n := range g.nodes {
			if n.live || slices.ContainsFunc(n.out, func(e edge) bool { return !e.to.live }) {
				continue
			}
			if len(n.queue) > 0 && !slices.ContainsFunc(n.queue, func(e edge) bool { return e.to.live }) {
				continue
			}
			n.live, again = true, true
		}
	}
}

// waits are the edges of a node to others that cannot go on.
func (n *node) waits(f func(e edge)) {
	for _, list := range [][]edge{n.out, n.queue} {
		for _, e := range list {
			if !e.to.live {
				f(e)
			}
		}
	}
}

// knots returns the strongly connected components of what cannot go on, by
// Tarjan's algorithm.
func (g *graph) knots() [][]*node {
	for _, n := range g.nodes {
		n.index, n.low, n.stacked = 0, 0, false
	}
	var stack []*node
	var out [][]*node
	next := 1
	var visit func(n *node)
	visit = func(n *node) {
		n.index, n.low = next, next
		next++
		stack, n.stacked = append(stack, n), true
		n.waits(func(e edge) {
			switch {
			case e.to.index == 0:
				visit(e.to)
				n.low = min(n.low, e.to.low)
			case e.to.stacked:
				n.low = min(n.low, e.to.index)
			}
		})
		if n.low != n.index {
			return
		}
		at := slices.Index(stack, n)
		knot := slices.Clone(stack[at:])
		stack = stack[:at]
		for _, m := range knot {
			m.stacked = false
		}
		out = append(out, knot)
	}
	for _, n := range g.nodes {
		if !n.live && n.index == 0 {
			visit(n)
		}
	}
	return out
}

// describe makes a knot of a component. It is none if nobody in it waits, if one
// shard sees all of it, or if no proxy has told of anybody in it.
func describe(nodes []*node) (k Knot, victim *node, ok bool) {
	crosses := false
	entries := map[*node]Backend{} // by which a node is in the knot
	through := func(n *node, b Backend) {
		was, ok := entries[n]
		crosses = crosses || b.PID == 0 || ok && was != b
		entries[n] = b
	}
	for _, n := range nodes {
		if n.party != nil && (k.Victim == nil || n.party.compare(k.Victim) > 0) {
			k.Victim, victim = n.party, n
		}
		n.waits(func(e edge) {
			if !slices.Contains(nodes, e.to) {
				return
			}
			through(n, e.from)
			through(e.to, e.by)
			shard := e.from.Shard
			if shard == "" {
				shard = n.party.Queue
			}
			k.Steps = append(k.Steps, Step{waiter: n, blocker: e.to, Lock: e.lock, Shard: shard})
		})
	}
	if len(k.Steps) == 0 || !crosses || k.Victim == nil {
		return Knot{}, nil, false
	}
	for i := range k.Steps {
		st := &k.Steps[i]
		st.Waiter, st.Blocker = st.waiter.name(k.Victim), st.blocker.name(k.Victim)
	}
	slices.SortStableFunc(k.Steps, func(a, b Step) int {
		return cmp.Or(-cmp.Compare(first(a, &k), first(b, &k)), cmp.Compare(a.waiter.key(), b.waiter.key()), cmp.Compare(a.blocker.key(), b.blocker.key()))
	})
	return k, victim, true
}

func first(s Step, k *Knot) int {
	if s.waiter.party == k.Victim {
		return 1
	}
	return 0
}

// name is how the victim's client shall read of a transaction: as a process, as
// PostgreSQL does it. Processes of the victim's own proxy have the numbers that
// its clients know.
func (n *node) name(victim *Party) string {
	switch p := n.party; {
	case p != nil && p.Proxy == victim.Proxy:
		return fmt.Sprintf("process %d", p.Session)
	case p != nil:
		return fmt.Sprintf("process %d of proxy %s", p.Session, p.Proxy)
	case n.gid != "":
		return fmt.Sprintf("prepared transaction %q", n.gid)
	}
	return fmt.Sprintf("process %d of shard %s", n.backend.PID, n.backend.Shard)
}

// Detail tells who waits for whom, in PostgreSQL's words.
func (k *Knot) Detail() string {
	var b strings.Builder
	for i, s := range k.Steps {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s waits for %s on shard %s; blocked by %s.", strings.ToUpper(s.Waiter[:1])+s.Waiter[1:], s.Lock, s.Shard, s.Blocker)
	}
	return b.String()
}
