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
	// tellsProgram means that a program has sent the statement, as a client would: a sink hears everything.
	tellsProgram
)

// audienceEvent is what is run next. When it is over, the audience is the one before.
type audienceEvent uint8

const (
	runsPart    audienceEvent = iota // a part of the client's statement
	runsUnsent                       // a statement that the client has not sent
	runsProgram                      // messages of a program
)

// audiences is the audience after each event.
//
//	             runsPart   runsUnsent  runsProgram
//	tellsClient  tellsPart  tellsSink   tellsProgram
//	tellsPart    tellsPart  tellsSink   tellsProgram
//	tellsSink    tellsSink  tellsSink   tellsProgram
//	tellsProgram tellsPart  tellsSink   tellsProgram
var audiences = [...][3]audience{
	tellsClient:  {tellsPart, tellsSink, tellsProgram},
	tellsPart:    {tellsPart, tellsSink, tellsProgram},
	tellsSink:    {tellsSink, tellsSink, tellsProgram},
	tellsProgram: {tellsPart, tellsSink, tellsProgram},
}

// after is the audience that follows when e happens.
func (a audience) after(e audienceEvent) audience { return audiences[a][e] }

// isQuiet reports whether the statement that runs is a part of the client's statement, or of a program's, so that the
// sender is not told that weft is ready.
func (o *answers) isQuiet() bool { return o.audience == tellsPart || o.audience == tellsSink }

// hearer hears answers in the client's place.
type hearer interface {
	// take takes bytes that would have been sent to the client.
	take(b []byte)
}

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
func (o *answers) divert(sink hearer, part func() error) (failed bool, err error) {
	return o.hear(runsUnsent, sink, part)
}

// hear carries out what e says. sink takes the answers.
func (o *answers) hear(e audienceEvent, sink hearer, run func() error) (failed bool, err error) {
	m, before, by := o.mark(), o.audience, o.sink
	o.audience, o.sink = before.after(e), sink
	defer func() { o.audience, o.sink, o.faults = before, by, m }()
	err = run()
	return o.failedSince(m), err
}
