package heat

// Class is an amount of work of one class, reading or writing. Busy is in nanoseconds.
type Class struct {
	Calls  float64 `json:"c"`
	Rows   float64 `json:"r,omitempty"`
	Bytes  float64 `json:"b,omitempty"`
	Busy   float64 `json:"t"`
	Failed float64 `json:"f,omitempty"`
}

// Load is an amount of work. Failed statements count among the calls.
type Load struct {
	Read  Class `json:"r,omitzero"`
	Write Class `json:"w,omitzero"`
}

// Cost is what the work has cost.
func (l Load) Cost() float64 { return l.Read.Cost() + l.Write.Cost() }

// Calls is how many statements the work was.
func (l Load) Calls() float64 { return l.Read.Calls + l.Write.Calls }

// Busy is for how long backends were busy with the work, in nanoseconds.
func (l Load) Busy() float64 { return l.Read.Busy + l.Write.Busy }

// Cost is what the work has cost.
func (c Class) Cost() float64 { return callCost*c.Calls + c.Busy + byteCost*c.Bytes }

// Plus returns both together.
func (l Load) Plus(o Load) Load {
	return Load{l.Read.plus(o.Read, 1), l.Write.plus(o.Write, 1)}
}

// Times returns f times as much.
func (l Load) Times(f float64) Load {
	return Load{Class{}.plus(l.Read, f), Class{}.plus(l.Write, f)}
}

func (c Class) plus(o Class, f float64) Class {
	return Class{c.Calls + f*o.Calls, c.Rows + f*o.Rows, c.Bytes + f*o.Bytes, c.Busy + f*o.Busy, c.Failed + f*o.Failed}
}

// Load is the work that a sample stands for.
func (s *Sample) Load() Load {
	var l Load
	l.add(s, 1)
	return l
}

// add counts a share of the statements that a sample stands for.
func (l *Load) add(s *Sample, share float64) {
	c := &l.Read
	if s.Write {
		c = &l.Write
	}
	w := s.Weight * share
	c.Calls += w
	c.Rows += w * float64(s.Rows)
	c.Bytes += w * float64(s.Bytes)
	c.Busy += w * float64(s.Busy)
	if s.Failed {
		c.Failed += w
	}
}
