package twopc

// Origin is the server of a participant, and what a commit there waits for.
type Origin struct {
	// Server is what weft.server() returned.
	Server string
	// Hasty says that commits do not wait for standbys unless the session asks for it: the login's synchronous_commit
	// is less than on.
	Hasty bool
	// Replicates says that the server has synchronous standbys.
	Replicates bool
}

// OriginSQL asks a server, in a database with weft's own schema, for its Origin.
const OriginSQL = "SELECT weft.server(), s.reset_val OPERATOR(pg_catalog.<>) 'on' AND s.reset_val OPERATOR(pg_catalog.<>) 'remote_apply', " +
	"pg_catalog.current_setting('synchronous_standby_names') OPERATOR(pg_catalog.<>) '' FROM pg_catalog.pg_settings s WHERE s.name OPERATOR(pg_catalog.=) 'synchronous_commit'"

// ReadOrigin reads the answer to OriginSQL.
func ReadOrigin(row []string) Origin {
	return Origin{Server: row[0], Hasty: row[1] == "t", Replicates: row[2] == "t"}
}
