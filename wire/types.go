package wire

// Message types sent by clients.
const (
	Bind         = 'B'
	Close        = 'C'
	CopyData     = 'd' // both directions
	CopyDone     = 'c' // both directions
	CopyFail     = 'f'
	Describe     = 'D'
	Execute      = 'E'
	Flush        = 'H'
	FunctionCall = 'F'
	Parse        = 'P'
	Password     = 'p' // also SASL responses
	Query        = 'Q'
	Sync         = 'S'
	Terminate    = 'X'
)

// Message types sent by servers.
const (
	Authentication           = 'R'
	BackendKeyData           = 'K'
	BindComplete             = '2'
	CloseComplete            = '3'
	CommandComplete          = 'C'
	CopyBothResponse         = 'W'
	CopyInResponse           = 'G'
	CopyOutResponse          = 'H'
	DataRow                  = 'D'
	EmptyQueryResponse       = 'I'
	ErrorResponse            = 'E'
	FunctionCallResponse     = 'V'
	NegotiateProtocolVersion = 'v'
	NoData                   = 'n'
	NoticeResponse           = 'N'
	NotificationResponse     = 'A'
	ParameterDescription     = 't'
	ParameterStatus          = 'S'
	ParseComplete            = '1'
	PortalSuspended          = 's'
	ReadyForQuery            = 'Z'
	RowDescription           = 'T'
)

// Transaction states in ReadyForQuery.
const (
	TxIdle   = 'I'
	TxActive = 'T'
	TxFailed = 'E'
)

// PostgreSQL's own limits on a message's length field.
const (
	// LargeLimit bounds messages that carry text, parameters or rows.
	LargeLimit = 0x3fffffff - 1
	// SmallLimit bounds messages that have no business being long.
	SmallLimit = 10000
	// StartupLimit bounds the packet before the first frame.
	StartupLimit = 10000
)

// FrontendLimit returns the largest length a client's message of this type may
// declare, or 0 if there is no such type.
func FrontendLimit(typ byte) int {
	switch typ {
	case Query, FunctionCall, Bind, Parse, CopyData:
		return LargeLimit
	case Terminate, Close, Describe, Execute, Flush, Sync, CopyDone, CopyFail:
		return SmallLimit
	}
	return 0
}
