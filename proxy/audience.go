package proxy

// audience is who hears the answers to the statement that runs.
type audience uint8

const (
	// tellsClient means that the client hears everything.
	tellsClient audience = iota
	// tellsPart means that the statement is a part of the client's statement: the client hears
	// everything but that weft is ready.
	tellsPart
	// tellsSink means that the client has not sent the statement: a sink hears what the client
	// would hear.
	tellsSink
)

// audienceEvent is what is run next. When it is over, the audience is the one before.
type audienceEvent uint8

const (
	runsPart   audienceEvent = iota // a part of the client's statement
	runsUnsent                      // a statement that the client has not sent
)

// audiences is the audience after each event.
//
//	            runsPart   runsUnsent
//	tellsClient tellsPart  tellsSink
//	tellsPart   tellsPart  tellsSink
//	tellsSink   tellsSink  tellsSink
var audiences = [...][2]audience{
	tellsClient: {tellsPart, tellsSink},
	tellsPart:   {tellsPart, tellsSink},
	tellsSink:   {tellsSink, tellsSink},
}

// after is the audience that follows when e happens.
func (a audience) after(e audienceEvent) audience { return audiences[a][e] }

// isQuiet reports whether the statement that runs is a part of the client's statement, so that the
// client is not told that weft is ready.
func (o *answers) isQuiet() bool { return o.audience != tellsClient }

// quietly carries out a part of the client's statement. It reports whether the part has failed and
// the client has been told; an error ends the session.
func (o *answers) quietly(part func() error) (failed bool, err error) {
	m, before := o.mark(), o.audience
	o.audience = before.after(runsPart)
	err = part()
	o.audience = before
	return o.failedSince(m), err
}

// divert carries out a part whose answers sink takes in the client's place. It reports whether the
// part has failed. The client has not been told, so the failure is not the client's.
func (o *answers) divert(sink *overheard, part func() error) (failed bool, err error) {
	m, before := o.mark(), o.audience
	o.audience, o.sink = before.after(runsUnsent), sink
	defer func() { o.audience, o.sink, o.faults = before, nil, m }()
	err = part()
	return o.failedSince(m), err
}
