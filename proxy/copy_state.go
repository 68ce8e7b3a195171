package proxy

// copyState is how far the dialogue has come with a COPY that reads the client's data.
type copyState uint8

const (
	// noCopy means that no COPY is under way.
	noCopy copyState = iota
	// copyWanted means that a backend waits for data: the relay met its CopyInResponse.
	copyWanted
	// copyUnsynced means that the data of a COPY in the extended protocol has been sent, and that
	// the COPY is answered with the Sync that the client has yet to send.
	copyUnsynced
	// copyLoads means that weft distributes the rows: several shards read data, so no backend can
	// be asked anything.
	copyLoads
)

// copyEvent is what happens to a COPY.
type copyEvent uint8

const (
	copyAsked   copyEvent = iota // a backend has sent a CopyInResponse
	copyTaken                    // the session begins to send data, or asks for answers
	copySent                     // the data has been sent, in the extended protocol
	copyLoading                  // weft begins to distribute rows
	copyOver                     // the COPY has been answered, or weft has distributed the rows
	copyDropped                  // the backend at hand has been closed
)

// copyStates is the state after each event.
//
//	             asked       taken     sent          loading    over    dropped
//	noCopy       copyWanted  noCopy    copyUnsynced  copyLoads  noCopy  noCopy
//	copyWanted   copyWanted  noCopy    copyUnsynced  copyLoads  noCopy  noCopy
//	copyUnsynced copyWanted  noCopy    copyUnsynced  copyLoads  noCopy  noCopy
//	copyLoads    copyWanted  copyLoads copyUnsynced  copyLoads  noCopy  copyLoads
//
// The other shards of copyLoads read on when one backend has been closed.
var copyStates = [...][6]copyState{
	noCopy:       {copyWanted, noCopy, copyUnsynced, copyLoads, noCopy, noCopy},
	copyWanted:   {copyWanted, noCopy, copyUnsynced, copyLoads, noCopy, noCopy},
	copyUnsynced: {copyWanted, noCopy, copyUnsynced, copyLoads, noCopy, noCopy},
	copyLoads:    {copyWanted, copyLoads, copyUnsynced, copyLoads, noCopy, copyLoads},
}

// after is the state that follows when e happens.
func (s copyState) after(e copyEvent) copyState { return copyStates[s][e] }

// noteCopy notes what has happened to a COPY.
func (p *pipe) noteCopy(e copyEvent) { p.copy = p.copy.after(e) }
