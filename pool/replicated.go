package pool

import (
	"errors"

	"weft/wire"
)

// Origin is a server, and what a commit there waits for.
type Origin struct {
	// Server is what weft.server() returned; "" if it was not called.
	Server string
	// Hasty says that commits do not wait for standbys unless the session asks for it: the login's synchronous_commit
	// is less than on.
	Hasty bool
	// Replicates says that the server had synchronous standbys when it was asked.
	Replicates bool
}

// ErrUnreplicated says that a transaction was committed or prepared, and that its wait for a synchronous standby was
// cut short: a failover may undo it.
var ErrUnreplicated = errors.New("the wait for a synchronous standby was cut short, and a failover may undo what was committed")

// Unreplicated reports whether a notice says that a commit, or a PREPARE TRANSACTION, has not waited for its synchronous
// standby. PostgreSQL answers as after a success then. The routine is the same in all languages.
func Unreplicated(notice []byte) bool {
	routine, _ := wire.ErrorField(notice, 'R')
	return routine == "SyncRepWaitForLSN"
}

// Dying reports whether a notice is the last word of a backend, which ends at once and answers nothing: its server stops immediately, or starts again
// because another of its processes has crashed. That the connection is lost says as much. The routine is the same in all languages.
func Dying(notice []byte) bool {
	routine, _ := wire.ErrorField(notice, 'R')
	return routine == "quickdie"
}
