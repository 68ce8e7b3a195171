package directory

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Diff tells how next differs from old, in lines for people: + added, - removed, ~ changed. old is
// nil when next creates the cluster.
func Diff(old, next *Snapshot) []string {
	var out []string
	if old == nil {
		old = &Snapshot{}
		out = append(out, fmt.Sprintf("+ cluster %s, %d buckets, home %s", next.Cluster, next.BucketCount, next.Home))
	}
	for i := range next.Shards {
		n := &next.Shards[i]
		if o, ok := old.Shard(n.Name); !ok {
			out = append(out, "+ shard "+n.describe())
		} else if a, b := o.describe(), n.describe(); a != b {
			out = append(out, "~ shard "+a+" -> "+strings.TrimPrefix(b, n.Name+" "))
		} else if o.System != "" && o.System != n.System {
			out = append(out, fmt.Sprintf("~ shard %s is another server: %s -> %s", n.Name, o.System, n.System))
		} else if o.Timeline != n.Timeline {
			out = append(out, fmt.Sprintf("~ shard %s is on timeline %d, and %s is its primary", n.Name, n.Timeline, n.Primary))
		}
	}
	for i := range old.Shards {
		o := &old.Shards[i]
		if _, ok := next.Shard(o.Name); !ok {
			out = append(out, "- shard "+o.describe())
		}
	}
	jobs := diffJobs(old, next)
	out = append(out, jobs...)
	for _, p := range next.Pins {
		if !slices.Contains(old.Pins, p) {
			out = append(out, "+ pin "+p.describe())
		}
	}
	for _, p := range old.Pins {
		if !slices.Contains(next.Pins, p) {
			out = append(out, "- pin "+p.describe())
		}
	}
	if old.BucketCount > 0 && old.BucketCount != next.BucketCount {
		out = append(out, fmt.Sprintf("~ %d buckets -> %d", old.BucketCount, next.BucketCount))
	} else if n, _ := moves(old, next); n > 0 && len(jobs) == 0 {
		out = append(out, fmt.Sprintf("~ placement: %d of %d buckets move", n, next.BucketCount))
	}
	if old.Durability != next.Durability || old.DurabilityEnforced != next.DurabilityEnforced {
		out = append(out, "~ durability is "+next.describeDurability())
	}
	if old.Gate != next.Gate {
		out = append(out, "~ atomic reads are "+next.Gate.describe())
	}
	return append(out, diffTables(old, next)...)
}

// diffJobs is Diff for the jobs: those that are new, and those that go on.
func diffJobs(old, next *Snapshot) []string {
	var out []string
	for i := range next.Moves {
		m := &next.Moves[i]
		was := old.FindMove(m.ID)
		switch {
		case was != nil && was.State != MoveFailed && m.Kind == MoveJoin && !was.Join.Reaches(m.Join):
			out = append(out, "~ job "+m.ID+", which waits, goes on with another server: shard "+m.Join.describe()+" joins")
		case was != nil && (was.State != MoveFailed || m.State == MoveFailed):
		case was != nil:
			out = append(out, "~ job "+m.ID+", which has failed, goes on: "+m.Describe())
		case m.Kind == MoveJoin && m.Join != nil:
			out = append(out, "+ shard "+m.Join.describe()+", which joins by a job")
		case m.Kind == MoveLeave:
			out = append(out, "- shard "+m.Shard+", which is drained and leaves by a job")
		default:
			n := 0
			from, to := next.PlacementOf(m.Database, m.Group), next.Targets[m.ID]
			for b := range min(len(from), len(to)) {
				if from[b] != to[b] {
					n++
				}
			}
			out = append(out, fmt.Sprintf("~ database %s: %d of %d buckets move by a job", m.Database, n, next.BucketCount))
		}
	}
	return out
}

// Describe says what a job does.
func (m *Move) Describe() string {
	switch m.Kind {
	case MoveJoin:
		return "shard " + m.Shard + " joins"
	case MoveLeave:
		return "shard " + m.Shard + " leaves"
	}
	return "it moves rows of database " + m.Database
}

// diffTables is Diff for the declared tables, which both snapshots keep ordered.
func diffTables(old, next *Snapshot) []string {
	var out []string
	a, b := old.Tables, next.Tables
	for len(a) > 0 || len(b) > 0 {
		order := 0
		switch {
		case len(a) == 0:
			order = 1
		case len(b) == 0:
			order = -1
		default:
			order = a[0].compare(b[0].Database, b[0].Schema, b[0].Name)
		}
		switch {
		case order < 0:
			out = append(out, "- table "+a[0].describe())
			a = a[1:]
		case order > 0:
			out = append(out, "+ table "+b[0].describe())
			b = b[1:]
		default:
			if !a[0].Equal(&b[0]) {
				out = append(out, "~ table "+a[0].describe()+" -> "+strings.TrimPrefix(b[0].describe(), b[0].title()+" "))
			}
			a, b = a[1:], b[1:]
		}
	}
	return out
}

func (p Pin) describe() string {
	return fmt.Sprintf("buckets %d-%d on %s", p.First, p.Last, p.Shard)
}

func (t *Table) title() string { return t.Database + " " + t.Schema + "." + t.Name }

// describe prints a declaration on one line.
func (t *Table) describe() string {
	var b strings.Builder
	b.WriteString(t.title())
	if t.Kind == Sharded {
		b.WriteString(" " + t.Vindex.String() + "(")
		for i, c := range t.Columns {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(c.Name)
		}
		b.WriteString(")")
	} else {
		b.WriteString(" " + string(t.Kind))
	}
	if t.State != Active {
		b.WriteString(", " + string(t.State))
	}
	return b.String()
}

// describe prints a shard on one line, with its options in a fixed order and without the password
// of a key file.
func (sh *Shard) describe() string {
	var b strings.Builder
	b.WriteString(sh.Name + " " + strings.Join(sh.Hosts, ","))
	if sh.Discovered() {
		b.WriteString(" (" + sh.Source() + ")")
	}
	for _, h := range slices.Sorted(maps.Keys(sh.Servers)) {
		at := sh.Servers[h]
		fmt.Fprintf(&b, " %s(zone %q, weight %d, reads %v)", h, at.Zone, max(1, at.Weight), !at.NoReads)
	}
	for _, k := range slices.Sorted(maps.Keys(sh.Options)) {
		v := sh.Options[k]
		if k == "sslpassword" {
			v = "***"
		}
		b.WriteString(" " + k + "=" + v)
	}
	if sh.Weight != 1 {
		fmt.Fprintf(&b, " weight=%d", sh.Weight)
	}
	return b.String()
}

func (s *Snapshot) describeDurability() string {
	switch {
	case s.Durability == "":
		return "not declared"
	case s.DurabilityEnforced:
		return string(s.Durability) + ", enforced"
	}
	return string(s.Durability)
}

func (g Gate) describe() string {
	if g == GateOn {
		return "on"
	}
	return string(g)
}
