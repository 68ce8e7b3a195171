package proxy

import "weft/pool"

// keptState is what has become of a Parse message whose shard was not known when it came.
type keptState uint8

const (
	// noParse means that no Parse is kept.
	noParse keptState = iota
	// parseKept means that the Parse waits for the next message of the client.
	parseKept
	// parsePlaced means that the Parse has been sent to a shard, for the Bind that is being
	// handled.
	parsePlaced
	// parsePlacedFree means that the Parse has been sent to a shard and another would do as well.
	parsePlacedFree
)

// keptEvent is what happens to a kept Parse.
type keptEvent uint8

const (
	keeps      keptEvent = iota // a Parse comes, or must find its shard again
	sends                       // the Parse is about to be sent, or dropped
	places                      // the Parse has found its shard by the Bind
	placesFree                  // the Parse has found one shard of several that would do
	binds                       // a Bind begins, or has taken the shard
)

// keptStates is the state after each event.
//
//	                keeps      sends    places       placesFree       binds
//	noParse         parseKept  noParse  parsePlaced  parsePlacedFree  noParse
//	parseKept       parseKept  noParse  parsePlaced  parsePlacedFree  parseKept
//	parsePlaced     parseKept  noParse  parsePlaced  parsePlacedFree  noParse
//	parsePlacedFree parseKept  noParse  parsePlaced  parsePlacedFree  noParse
var keptStates = [...][5]keptState{
	noParse:         {parseKept, noParse, parsePlaced, parsePlacedFree, noParse},
	parseKept:       {parseKept, noParse, parsePlaced, parsePlacedFree, parseKept},
	parsePlaced:     {parseKept, noParse, parsePlaced, parsePlacedFree, noParse},
	parsePlacedFree: {parseKept, noParse, parsePlaced, parsePlacedFree, noParse},
}

// after is the state that follows when e happens.
func (s keptState) after(e keptEvent) keptState { return keptStates[s][e] }

// keptParse is a Parse message that is kept until its shard is known.
type keptParse struct {
	state keptState
	body  []byte     // valid until the next Parse is kept
	lane  *pool.Lane // where the Parse has been sent, if it is placed
}

// waits reports whether a Parse has not been sent.
func (k *keptParse) waits() bool { return k.state == parseKept }

// keep keeps the Parse message with this body.
func (k *keptParse) keep(body []byte) {
	k.body = append(k.body[:0], body...)
	k.keepAgain()
}

// keepAgain keeps the Parse that was about to be sent: its shard must be found again.
func (k *keptParse) keepAgain() { k.state, k.lane = k.state.after(keeps), nil }

// take says that the Parse is about to be sent, or is skipped.
func (k *keptParse) take() { k.state, k.lane = k.state.after(sends), nil }

// place says that the Parse goes to a shard that its Bind needs. free: another shard would do as
// well.
func (k *keptParse) place(l *pool.Lane, free bool) {
	e := places
	if free {
		e = placesFree
	}
	k.state, k.lane = k.state.after(e), l
}

// bind takes the shard that the Parse was sent to, nil if it must be found by the Bind.
func (k *keptParse) bind() (l *pool.Lane, free bool) {
	l, free = k.lane, k.state == parsePlacedFree
	k.state, k.lane = k.state.after(binds), nil
	return l, free
}
