package proxy

import "weft/parser"

// identityEdits makes the functions and views that speak of process IDs speak
// of sessions: a client's backend changes, its session does not.
func (s *Session) identityEdits(text string) parser.Edits {
	id := parser.Identity{Self: s.id, Options: parser.Options{NonStandardStrings: s.oldStrings}}
	s.srv.holders.Range(func(pid, sess any) bool {
		id.Pairs = append(id.Pairs, parser.Pair{Session: sess.(*Session).id, Backend: pid.(int32)})
		return true
	})
	edits, err := parser.IdentityEdits(text, id)
	if err != nil {
		return nil // the backend will find it wrong too
	}
	return edits
}
