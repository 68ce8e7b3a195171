package proxy

import "weft/parser"

// What all participants of a block must run, such as SET, SAVEPOINT and set_config, is
// bound on one of them. The others run it when that is executed, and those that join later
// when they do.

// forAll is what the other participants run when a portal is executed.
type forAll struct {
	text  string
	facts *parser.Facts
}

// setsModes reports whether a text opens a block that is open already, with options: like
// SET TRANSACTION it changes what the transaction may do.
func (s *Session) setsModes(text []byte, f *parser.Facts) bool {
	return s.block.open && opensBlock(f) && joinable(text) != nil
}

// bindForAll makes ready for a Bind of such a statement.
func (s *Session) bindForAll(portal []byte, pl *planned, f *parser.Facts) error {
	if err := s.snapshotsFor(f); err != nil {
		return err
	}
	lane := s.atHand()
	sql, home := elsewhere(string(pl.text), f)
	if home {
		lane = s.lane
	}
	if err := s.useLane(lane); err != nil || !s.block.open {
		return err
	}
	if s.forAll == nil {
		s.forAll = map[string]forAll{}
	}
	s.forAll[string(portal)] = forAll{sql, f}
	return nil
}
