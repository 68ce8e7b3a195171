package primary

// Ruling is what an operator has said last about the primary of a shard, where evidence does not tell which server is right. The directory keeps
// it. The zero Ruling says nothing.
type Ruling struct {
	// Number counts the rulings of a shard. With a new one, generations that were known before count no more.
	Number uint32 `json:"number"`
	// Timeline and Address say that of this timeline the server at the address is the primary, and no other. They are empty if the operator
	// has only let the generation be forgotten.
	Timeline uint32 `json:"timeline,omitempty"`
	Address  string `json:"address,omitempty"`
}

// Accepts reports whether the ruling names the primary of a timeline.
func (r Ruling) Accepts(timeline uint32) bool { return r.Address != "" && r.Timeline == timeline }

// Bars reports whether a primary with a timeline and an address is one that the operator has decided against.
func (r Ruling) Bars(timeline uint32, address string) bool {
	return r.Accepts(timeline) && r.Address != address
}
