package explain

import (
	"strings"

	"weft/plan"
)

// Change is how a statement is carried out that changes rows on several shards.
type Change struct {
	Type string `json:"Node Type"`
	// Shards are those that run it. Empty if only the rows will tell: Why says so.
	Shards []string `json:"Shards,omitempty"`
	Total  int      `json:"Shards Total"`
	Why    []string `json:"Why,omitempty"`
	// Rows is how many rows have changed or, by a query, have been returned; nil if it has not run.
	Rows *int64 `json:"Actual Rows,omitempty"`
	// SQL is what each of them runs.
	SQL string `json:"SQL"`
	// Read are the queries whose rows it needs, Before what is run before it.
	Read   []Piece   `json:"Read First,omitempty"`
	Before []*Change `json:"Before,omitempty"`
}

// NewChange returns the report of a write that is still to come. What x says of
// pieces is about those that are read first. targets are the shards that run it, nil
// if they are not known before.
func NewChange(x *Execution, w *plan.Write, targets []string) *Report {
	c := x.change(w, targets)
	if g := w.Read(); g != nil {
		for i := range g.Pieces {
			c.Read = append(c.Read, x.piece(i))
		}
	}
	for _, b := range w.Steps() {
		c.Before = append(c.Before, x.change(b, nil))
	}
	return &Report{Change: c}
}

func (x *Execution) change(w *plan.Write, targets []string) *Change {
	c := &Change{Type: "Weft " + w.Verb[:1] + strings.ToLower(w.Verb[1:]), Shards: targets, Total: len(x.Shards), SQL: x.sql(w.Text())}
	switch s := w.Shape.(type) {
	case *plan.Whole:
		c.Why = append(c.Why, "one shard runs the statement as it is")
	case *plan.Rows:
		c.SQL = x.rows(s)
		c.Why = append(c.Why, "each row goes to its own shard")
	case *plan.Share:
		x.split(c, s.Split)
	case *plan.Stream:
		x.split(c, s.Split)
	case *plan.AtHome:
		x.atHome(c)
	case *plan.Own:
		if len(s.Instances) == 0 {
			x.atHome(c)
		}
		x.conditions(c, s.Instances)
	case *plan.Local:
		x.conditions(c, s.Instances)
	case *plan.Copies, *plan.Locking:
		// EXPLAIN of a write of a reference table is the home shard's. Where rows are locked, only
		// the query tells.
	}
	return c
}

// rows returns an INSERT … VALUES with all its rows.
func (x *Execution) rows(r *plan.Rows) string {
	var b strings.Builder
	b.WriteString(x.sql(r.Head))
	for i := range r.Rows {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(" " + x.sql(r.Rows[i].Text))
	}
	return b.String() + " " + x.sql(r.Tail)
}

func (x *Execution) split(c *Change, s *plan.Split) {
	if s.Table == nil {
		x.atHome(c)
		return
	}
	c.Why = append(c.Why, "each row that is read goes to the shard of its key in "+s.Table.Name)
}

func (x *Execution) atHome(c *Change) {
	c.Shards, c.Why = []string{x.Home}, append(c.Why, "its table is on the home shard")
}

func (x *Execution) conditions(c *Change, in []plan.Instance) {
	for i := range in {
		c.Why = append(c.Why, x.condition(&in[i]))
	}
}

func (c *Change) write(w *writer, indent int) {
	if c.Rows != nil {
		w.line(indent, "%s  (rows=%d)", c.Type, *c.Rows)
	} else {
		w.line(indent, "%s", c.Type)
	}
	if len(c.Shards) > 0 {
		w.line(indent+2, "Shards: %d of %d: %s", len(c.Shards), c.Total, strings.Join(c.Shards, ", "))
	}
	for _, why := range c.Why {
		w.line(indent+2, "Why: %s", why)
	}
	if c.SQL != "" {
		w.line(indent+2, "SQL: %s", c.SQL)
	}
	for i := range c.Read {
		p := &c.Read[i]
		w.line(indent+2, "Read First: piece %d: %s", p.Number, p.SQL)
		if len(p.Shards) > 0 {
			w.line(indent+4, "Shards: %s", strings.Join(p.Shards, ", "))
		}
		for _, why := range p.Why {
			w.line(indent+4, "Why: %s", why)
		}
	}
	for i, b := range c.Before {
		w.line(indent+2, "Before: piece %d", len(c.Read)+i+1)
		b.write(w, indent+4)
	}
}
