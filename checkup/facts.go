package checkup

import "time"

// Facts is all that findings are made of.
type Facts struct {
	Now     time.Time
	Cluster string
	Home    string
	// Shards is how many there are, and Declared whether tables are declared.
	Shards   int
	Declared bool
	// MaxPerShard is how many connections to a shard each proxy may open.
	MaxPerShard int
	Servers     []Server
	Proxies     []Proxy
	// Certificates are those that proxies, servers and files show.
	Certificates []Certificate
	// Drift are differences of schemas between shards, and DriftErr is why they could not be compared.
	Drift    []Drift
	DriftErr string
	// Misplaced says which servers are not those of the cluster.
	Misplaced []string
	Points    Points
	Etcd      []Member
	Alarms    []string
}

// Server is a server of a shard.
type Server struct {
	Shard, Address string
	Err            string // why it could not be asked
	Standby        bool
	Version        int // server_version_num
	VersionText    string
	// Connections is how many it takes from those who are no superusers, and Prepared is
	// max_prepared_transactions.
	Connections, Prepared int
	// Ahead is how much its clock is before the clock here, give or take Unsure.
	Ahead, Unsure time.Duration
	// Lacks says what a primary lacks to be as durable as the cluster declares.
	Lacks string
	// Backup says why a primary could not be restored to a point made now.
	Backup string
	// Free and Size are bytes of the disk with the data, 0 if they are not known.
	Free, Size uint64
	// Roles are the roles that may log in, with a digest of the stored password and their
	// attributes. Nil if the user may not see them.
	Roles     map[string]Role
	Databases []Database
}

// Role is a role that may log in.
type Role struct{ Attributes, Password string }

// Database is a database with declared tables.
type Database struct {
	Name     string
	Missing  bool
	Encoding string
	Locale   string // provider, collation and character type
	// Recorded is the version of the collation that the database was made with, and Actual that of
	// the library now. Empty if there is none.
	Recorded, Actual string
	Extensions       map[string]string // versions
}

// Proxy is a proxy that is running.
type Proxy struct{ ID, Address, Version string }

// Certificate is one that is shown to somebody.
type Certificate struct {
	Of    string // whose it is, for people
	Until time.Time
	Err   string
}

// Drift is something that a shard has otherwise than the home shard.
type Drift struct{ Database, Shard, Object, What string }

// Points are the backup points that the directory remembers.
type Points struct {
	Newest time.Time // zero if there is none
	Name   string
	Err    string
}

// Member is a member of etcd.
type Member struct {
	Endpoint, Version, Err string
	Size, Quota            int64
	Leader                 bool // it knows a leader
	Learner                bool
}
