package seek

// Hurry has the servers of a shard looked at soon, because a session needs a standby that is up to date.
func (s *Seeker) Hurry(shard string) {
	if w := s.find(shard); w != nil {
		w.Hurry()
	}
}
