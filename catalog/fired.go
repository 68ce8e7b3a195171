package catalog

import (
	"slices"
	"strings"

	"weft/program/flow"
)

// The texts that a trigger function runs with EXECUTE often depend on nothing but the trigger: TG_TABLE_NAME, TG_ARGV.
// Such a function is read once more for each of its triggers, with those values.

// firedTrigger is a trigger whose function runs texts.
type firedTrigger struct {
	table    *Relation
	name     string
	function *source
	v        *vertex
}

// runsTextsOf reports whether a PL/pgSQL function runs SQL that is not in its text.
func runsTextsOf(s *source) bool {
	if s.language != "plpgsql" || s.function.Schema == "weft" {
		return false
	}
	r := readTree(s.language, s.create, s.body)
	return r.ok && r.dynamic
}

// fire connects a trigger with its function, as the trigger runs it.
func (c *connection) fire(t firedTrigger) {
	next := c.functions[t.function]
	if i := slices.IndexFunc(t.table.Triggers, func(o Trigger) bool { return o.Name == t.name }); i >= 0 {
		if src := c.firedSource(t.table, &t.table.Triggers[i], t.function); src != nil {
			next = &vertex{}
			c.body(src, next)
		}
	}
	t.v.next = append(t.v.next, next)
}

// firedSource reads a function as a trigger runs it. It returns nil if a text remains unknown.
func (c *connection) firedSource(rel *Relation, tr *Trigger, s *source) *source {
	if !runsTextsOf(s) {
		return nil
	}
	body, err := flow.Read(s.body, c.flowOf(rel, tr))
	if err != nil || body.Unread > 0 {
		return nil
	}
	r := *readTree(s.language, s.create, s.body)
	r.dynamic = false
	r.texts, r.reads, r.writes = slices.Clone(r.texts), slices.Clone(r.reads), slices.Clone(r.writes)
	r.calls, r.operators = slices.Clone(r.calls), slices.Clone(r.operators)
	for _, st := range body.Statements {
		if st.Dynamic && !r.sql(st.SQL) {
			return nil
		}
	}
	if r.dynamic || r.ddl {
		return nil
	}
	f := *s.function
	out := *s
	out.function, out.runs, out.mentions, out.writes, out.calls = &f, false, nil, nil, nil
	c.words.tree(&out, &r)
	return &out
}

// Fired returns a function as a trigger runs it, if it runs texts that depend on nothing but the trigger, and else the function
// itself.
func (s *Schema) Fired(rel *Relation, tr *Trigger, f *Function) *Function {
	c := s.connection
	if !f.Dynamic || c == nil {
		return f
	}
	i := slices.IndexFunc(c.sources, func(src *source) bool { return src.function == f })
	if i < 0 {
		return f
	}
	src := c.firedSource(rel, tr, c.sources[i])
	if src == nil {
		return f
	}
	v := &vertex{}
	c.body(src, v)
	near := c.close(v, true)
	out := src.function
	out.Mentions, out.Writes, out.Opaque = near.Reads, near.Writes, near.Opaque
	out.Changes, out.Calls = c.changes(v), len(src.calls) > 0
	out.Reach = c.close(v, false)
	return out
}

// Flow returns what is known of a trigger before it is set off, without the keys of its table.
func (s *Schema) Flow(rel *Relation, tr *Trigger) *flow.Trigger {
	if s.connection == nil {
		return &flow.Trigger{Name: tr.Name, Events: events(tr), Statement: !tr.EachRow}
	}
	return s.connection.flowOf(rel, tr)
}

func (c *connection) flowOf(rel *Relation, tr *Trigger) *flow.Trigger {
	t := &flow.Trigger{
		Name: tr.Name, Events: events(tr), Statement: !tr.EachRow,
		Shadowed: func(name string) bool { return c.words.functions[name] != nil }, TypeOf: c.typeOf,
	}
	if tr.Args != "" {
		t.Args = strings.Split(strings.TrimSuffix(tr.Args, "\x00"), "\x00")
	}
	// The rows of a partitioned table set off the triggers of its partitions, under their names.
	if rel.Kind == Table && rel.Parent == nil && len(rel.Children) == 0 && len(c.words.relations[rel.Name.Name]) == 1 {
		t.Schema, t.Table = rel.Schema, rel.Name.Name
		for i := range rel.Columns {
			t.Columns = append(t.Columns, rel.Columns[i].Name)
		}
	}
	return t
}

func events(tr *Trigger) flow.Events {
	var out flow.Events
	for _, e := range []struct {
		on Events
		is flow.Events
	}{{OnInsert, flow.Insert}, {OnUpdate, flow.Update}, {OnDelete, flow.Delete}, {OnTruncate, flow.Truncate}} {
		if tr.Fires&e.on != 0 {
			out |= e.is
		}
	}
	return out
}

// typeOf returns the type of the column that some names mean, or "" if they may mean several.
func (c *connection) typeOf(names []string) string {
	if len(names) < 2 || len(names) > 3 {
		return ""
	}
	list := c.words.named(Name{strings.Join(names[:len(names)-2], ""), names[len(names)-2]})
	if len(list) != 1 {
		return ""
	}
	for _, r := range c.relations {
		if r.Name == list[0] {
			if col := r.Column(names[len(names)-1]); col != nil && col.Type == col.Base {
				return col.TypeName
			}
		}
	}
	return ""
}
