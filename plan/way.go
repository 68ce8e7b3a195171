package plan

// Way is how a text is carried out that no shard can run alone. Its types are Gather, Write, Copy, Locked
// and Postponed. A plan has one way at most.
type Way interface {
	way() // tells the types of the sum
	size() int64
}

// Postponed says that a Gather may be possible but has not been made yet. Most texts with a key
// condition never need one.
type Postponed struct{}

func (*Gather) way()    {}
func (*Write) way()     {}
func (*Copy) way()      {}
func (*Postponed) way() {}

func (*Postponed) size() int64 { return 0 }

// Gather returns how rows of several shards are gathered, nil if the plan's way is another.
func (p *Plan) Gather() *Gather {
	g, _ := p.Across.(*Gather)
	return g
}

// Write returns how rows of several shards are written, nil if the plan's way is another.
func (p *Plan) Write() *Write {
	w, _ := p.Across.(*Write)
	return w
}

// Copy returns how a COPY concerns several shards, nil if the plan's way is another.
func (p *Plan) Copy() *Copy {
	c, _ := p.Across.(*Copy)
	return c
}

// IsPostponed reports whether the way has not been planned yet.
func (p *Plan) IsPostponed() bool {
	_, ok := p.Across.(*Postponed)
	return ok
}
