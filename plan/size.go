package plan

import "unsafe"

// Size returns about how many bytes the plan holds, for a cache that is bounded
// in bytes. Tables are not counted: all plans of a schema share them.
func (p *Plan) Size() int64 {
	if p == nil {
		return 0
	}
	const piece = 16 // overhead of one allocation
	n := int64(unsafe.Sizeof(*p)) + piece + int64(len(p.Missing))
	n += instancesSize(p.Instances)
	if g := p.Generate; g != nil {
		n += int64(unsafe.Sizeof(*g)) + 3*piece
		for i := range g.Values {
			n += int64(unsafe.Sizeof(g.Values[i])) + int64(len(g.Values[i].Sequence)+len(g.Values[i].Type))
		}
		for i := range g.Edits {
			n += int64(unsafe.Sizeof(g.Edits[i])) + int64(len(g.Edits[i].Text))
		}
		n += stringsSize(g.Columns)
	}
	n += stringsSize(p.Lots)
	if h := p.HomeDraws; h != nil {
		n += int64(unsafe.Sizeof(*h)) + piece + stringsSize(h.Sequences)
	}
	if c := p.Change; c != nil {
		n += int64(unsafe.Sizeof(*c)) + 3*piece
		for _, d := range c.Drops {
			n += d.size()
		}
		for _, r := range c.Renames {
			n += r.From.size() + r.To.size()
		}
		for _, r := range c.Columns {
			n += int64(unsafe.Sizeof(r)) + r.Table.size() + int64(len(r.From)+len(r.To))
		}
		for _, x := range c.Types {
			n += int64(unsafe.Sizeof(x)) + x.Table.size() + int64(len(x.Column)+len(x.Name))
		}
		for _, x := range c.Adds {
			n += x.Table.size() + x.Like.size()
		}
		for _, x := range c.Adopts {
			n += x.size()
		}
		for _, x := range c.Fills {
			n += int64(unsafe.Sizeof(x)) + x.Table.size() + int64(len(x.Column)) + stringsSize(x.Key)
		}
		if c.Again != nil {
			n += int64(unsafe.Sizeof(*c.Again)) + c.Again.Name.size() + c.Again.Table.size()
		}
		n += int64(len(c.Elsewhere)) + c.Timed.size()
	}
	if f := p.Function; f != nil {
		n += int64(unsafe.Sizeof(*f)) + int64(len(f.Name)+len(f.Column)) + 64
		for name, a := range f.Args {
			n += 2*int64(unsafe.Sizeof(a)) + int64(len(name)+len(a.Text)) + 2*piece
		}
	}
	if p.Across != nil {
		n += p.Across.size()
	}
	if e := p.Explain; e != nil {
		n += int64(unsafe.Sizeof(*e)) + int64(len(e.Format)) + 2*piece
		for _, o := range e.Options {
			n += int64(unsafe.Sizeof(o)) + int64(len(o.Name)+len(o.Value))
		}
	}
	if e := p.Refusal; e != nil {
		n += int64(unsafe.Sizeof(*e)) + int64(len(e.Message)+len(e.Detail)+len(e.Hint)) + 4*piece
	}
	return n + int64(len(p.Params))*4 + stringsSize(p.Why) + 2*piece
}

func (g *Gather) size() int64 {
	if g == nil {
		return 0
	}
	// Known is set later; it is counted as being as large as the texts.
	n := int64(unsafe.Sizeof(*g)) + 64 + 2*g.Remainder.size() + g.Peek.size() + stringsSize(g.Why) + g.Otherwise.size()
	for i := range g.Pieces {
		p := &g.Pieces[i]
		n += int64(unsafe.Sizeof(*p)) + 2*p.Text.size() + int64(len(p.Name)) + stringsSize(p.Types) + stringsSize(p.Collations) + 8*int64(len(p.Forbid))
		for j := range p.Instances {
			n += p.Instances[j].size()
		}
	}
	for i := range g.Lend {
		n += g.Lend[i].Table.size() + stringsSize(g.Lend[i].Columns)
	}
	if c := g.Command; c != nil {
		n += int64(unsafe.Sizeof(*c)) + c.Text.size() + 2*c.Query.size()
	}
	if m := g.Native; m != nil {
		n += int64(unsafe.Sizeof(*m)) + 64 + 16*int64(len(m.Order))
		if a := m.Aggregate; a != nil {
			n += 64 + 24*int64(len(a.Outputs)) + 8*int64(len(a.Groups))
		}
	}
	return n
}

func (w *Write) size() int64 {
	if w == nil {
		return 0
	}
	p := w.Shape.parts()
	n := int64(unsafe.Sizeof(*w)) + 64 + w.Shape.size() + p.lent.size() + 2*p.text.size() + instancesSize(p.instances)
	if q := p.query; q != nil {
		n += int64(unsafe.Sizeof(*q)) + q.Gather.size() + q.Text.size()
	}
	for _, s := range p.steps {
		n += s.size()
	}
	return n
}

func instancesSize(in []Instance) int64 {
	n := int64(0)
	for i := range in {
		n += in[i].size()
	}
	return n
}

// The sizes of shapes are without their parts.

func (s *Local) size() int64   { return int64(unsafe.Sizeof(*s)) }
func (s *AtHome) size() int64  { return int64(unsafe.Sizeof(*s)) }
func (s *Share) size() int64   { return int64(unsafe.Sizeof(*s)) + s.Split.size() }
func (s *Stream) size() int64  { return int64(unsafe.Sizeof(*s)) + s.Split.size() }
func (s *Own) size() int64     { return int64(unsafe.Sizeof(*s)) }
func (s *Whole) size() int64   { return int64(unsafe.Sizeof(*s)) + claimsSize(s.Conflict) }
func (s *Locking) size() int64 { return int64(unsafe.Sizeof(*s)) }

func (s *Copies) size() int64 {
	return int64(unsafe.Sizeof(*s)) + s.Then.size() + stringsSize(s.Locks)
}

func (r *Rows) size() int64 {
	n := int64(unsafe.Sizeof(*r)) + r.Head.size() + r.Tail.size()
	for i := range r.Rows {
		n += int64(unsafe.Sizeof(r.Rows[i])) + r.Rows[i].Text.size() + 8*int64(len(r.Rows[i].Keys)) + claimsSize(r.Rows[i].Conflict)
	}
	for i := range r.Cells {
		n += int64(unsafe.Sizeof(r.Cells[i])) + r.Cells[i].Text.size() + int64(len(r.Cells[i].As))
	}
	return n
}

// claimsSize is the size of what a row claims in lookups.
func claimsSize(keys []*LookupKey) (n int64) {
	for _, k := range keys {
		n += int64(unsafe.Sizeof(*k))
		for _, item := range k.Items {
			n += item.size()
		}
	}
	return n
}

func (s *Split) size() int64 {
	n := int64(unsafe.Sizeof(*s)) + 8*int64(len(s.Columns))
	for i := range s.Fixed {
		n += s.Fixed[i].size()
	}
	for i := range s.Draws {
		n += int64(unsafe.Sizeof(s.Draws[i])) + int64(len(s.Draws[i].Sequence)+len(s.Draws[i].Type))
	}
	return n
}

func (t Text) size() int64 {
	n := int64(16)
	for i := range t {
		n += int64(unsafe.Sizeof(t[i])) + int64(len(t[i].SQL))
	}
	return n
}

func (in *Instance) size() int64 {
	const piece = 16 // overhead of one allocation
	n := int64(unsafe.Sizeof(*in)) + int64(len(in.Name)) + piece
	for i := range in.Bounds {
		n += in.Bounds[i].Source.size() + 8
	}
	lists := append([][]Set{in.IDs}, in.Keys...)
	if p := in.Policy; p != nil {
		n += int64(unsafe.Sizeof(*p)) + int64(len(p.Name)) + piece
		lists = append(lists, []Set{p.Set})
	}
	if k := in.Lookup; k != nil {
		n += int64(unsafe.Sizeof(*k)) + int64(len(k.Name)) + 256 // and its vindex
		lists = append(lists, k.Keys...)
	}
	for _, sets := range lists {
		n += int64(unsafe.Sizeof(sets)) + piece
		for _, set := range sets {
			n += int64(unsafe.Sizeof(set)) + piece
			for j := range set {
				n += set[j].size()
			}
		}
	}
	return n
}

func (s *Source) size() int64 {
	n := int64(unsafe.Sizeof(*s)) + int64(len(s.Text))
	if s.Expr != nil {
		n += 16 + s.Expr.Left.size() + s.Expr.Right.size()
	}
	return n
}

func (n Name) size() int64 { return int64(unsafe.Sizeof(n)) + int64(len(n.Schema)+len(n.Table)) }

func stringsSize(list []string) int64 {
	n := int64(0)
	for _, s := range list {
		n += int64(unsafe.Sizeof(s)) + int64(len(s)) + 8
	}
	return n
}
