package proxy

// scriptState is how a text of several statements stands.
type scriptState uint8

const (
	// noScript means that no text of several statements runs.
	noScript scriptState = iota
	// scriptRuns means that a text runs. No block is open, or the open block is the client's.
	scriptRuns
	// scriptOwns means that a text runs, and that the open block is the text's, not the client's.
	scriptOwns
	// scriptFailed means that a statement of the text has failed. No block is open, or the open
	// block is the client's.
	scriptFailed
	// scriptFailedOwning means that a statement of the text has failed, and that the open block is
	// the text's, not the client's.
	scriptFailedOwning
)

// scriptEvent is what happens to a text of several statements.
type scriptEvent uint8

const (
	scriptBegins        scriptEvent = iota // a text begins
	scriptBeginsInBlock                    // a text begins in an open block, which becomes its own
	scriptOpens                            // weft opens a block for the text
	scriptYields                           // the text's block is about to end, or the client's BEGIN takes it
	scriptFails                            // a statement fails, of a text if one runs
	scriptEnds                             // the text is over
)

// scriptStates is the state after each event.
//
//	                   begins              begins in block     opens               yields        fails               ends
//	noScript           scriptRuns          scriptOwns          noScript            noScript      noScript            noScript
//	scriptRuns         scriptRuns          scriptOwns          scriptOwns          scriptRuns    scriptFailed        noScript
//	scriptOwns         scriptOwns          scriptOwns          scriptOwns          scriptRuns    scriptFailedOwning  noScript
//	scriptFailed       scriptFailed        scriptFailedOwning  scriptFailedOwning  scriptFailed  scriptFailed        noScript
//	scriptFailedOwning scriptFailedOwning  scriptFailedOwning  scriptFailedOwning  scriptFailed  scriptFailedOwning  noScript
var scriptStates = [...][6]scriptState{
	noScript:           {scriptRuns, scriptOwns, noScript, noScript, noScript, noScript},
	scriptRuns:         {scriptRuns, scriptOwns, scriptOwns, scriptRuns, scriptFailed, noScript},
	scriptOwns:         {scriptOwns, scriptOwns, scriptOwns, scriptRuns, scriptFailedOwning, noScript},
	scriptFailed:       {scriptFailed, scriptFailedOwning, scriptFailedOwning, scriptFailed, scriptFailed, noScript},
	scriptFailedOwning: {scriptFailedOwning, scriptFailedOwning, scriptFailedOwning, scriptFailed, scriptFailedOwning, noScript},
}

// after is the state that follows when e happens.
func (s scriptState) after(e scriptEvent) scriptState { return scriptStates[s][e] }

// isRunning reports whether a text of several statements runs.
func (k *script) isRunning() bool { return k.state != noScript }

// ownsBlock reports whether the open block is the text's, not the client's.
func (k *script) ownsBlock() bool { return k.state == scriptOwns || k.state == scriptFailedOwning }

// hasFailed reports whether a statement of the text has failed.
func (k *script) hasFailed() bool { return k.state >= scriptFailed }

// fail notes that the statement under way has failed, if it is one of a text of several.
func (k *script) fail() { k.note(scriptFails) }

// note notes what has happened to the text.
func (k *script) note(e scriptEvent) { k.state = k.state.after(e) }
