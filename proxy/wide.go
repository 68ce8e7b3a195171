package proxy

import "weft/parser"

// wide is the bound portals whose execution concerns more than the backend that answers the client. What is noted of a portal is
// forgotten when the portal is executed or closed, when another one takes its name, and when its transaction ends.
type wide struct {
	everywhere map[string]*spread // portals whose execution goes to every shard
	forAll     map[string]forAll  // portals whose execution is for all participants of the block
}

// noteEverywhere notes that a portal's execution goes to every shard.
func (w *wide) noteEverywhere(portal []byte, e *spread) {
	if w.everywhere == nil {
		w.everywhere = map[string]*spread{}
	}
	w.everywhere[string(portal)] = e
}

// noteForAll notes the statement that all participants run when a portal is executed.
func (w *wide) noteForAll(portal []byte, sql string, f *parser.Facts) {
	if w.forAll == nil {
		w.forAll = map[string]forAll{}
	}
	w.forAll[string(portal)] = forAll{sql, f}
}

// takeForAll returns, once, the statement that all participants run.
func (w *wide) takeForAll(portal []byte) (all forAll, ok bool) {
	all, ok = w.forAll[string(portal)]
	delete(w.forAll, string(portal))
	return all, ok
}

// forget forgets a portal, and forgetAll all of them.
func (w *wide) forget(portal []byte) {
	delete(w.everywhere, string(portal))
	delete(w.forAll, string(portal))
}

func (w *wide) forgetAll() {
	clear(w.everywhere)
	clear(w.forAll)
}
