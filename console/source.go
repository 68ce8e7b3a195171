package console

import (
	"context"
	"time"
)

// Source is the proxy, as the console sees it.
type Source interface {
	Version() string
	// Proxy is what this proxy is called among others.
	Proxy() string
	Sessions() []Session
	Servers() []Server
	Pools() []Pool
	Shards() []Shard
	Placement() []Range
	Tables() []Sharded
	Statements() []Statement
	Stats() []Stat
	Settings() []Setting
	// Transactions asks the shards.
	Transactions(ctx context.Context) []Transaction
	// Moves and MoveRounds ask the home shard, and the other proxies who is in the way.
	Moves(ctx context.Context) []Move
	MoveRounds(ctx context.Context) []Round
	// Buckets lists the buckets of the viewer's database. With sizes, the shards are asked what
	// they hold.
	Buckets(ctx context.Context, sizes bool) []Bucket
	// Heat asks all proxies for one aspect of what is hot; with values, for values of keys.
	Heat(ctx context.Context, what Aspect, values bool) Heat
	// Recordings lists the recording of transactions on this proxy, if there is one.
	Recordings() []Recording
	// Warnings lists what is hot, slow or saturated; with values, it names keys by theirs.
	Warnings(ctx context.Context, values bool) []Warning
	// Throttles lists the limits in effect. It asks the other proxies what they have counted; with values, it
	// names keys by theirs.
	Throttles(ctx context.Context, values bool) []Throttle
	// Queues lists the queues of hot keys of this proxy; with values, it names the keys.
	Queues(values bool) []Queue
	// Replicas lists the servers of all shards, as this proxy has seen them last.
	Replicas() []Replica
	// Failovers lists the changes of primaries, the latest first.
	Failovers(ctx context.Context) []Failover
	// Backups lists the points to which all shards can be restored, the latest first.
	Backups(ctx context.Context) []Backup
	// Losses lists the transactions that failovers have harmed, the latest first.
	Losses(ctx context.Context) []Loss
}

// Viewer is who looks. As in pg_stat_activity, what is others' is seen by superusers and
// members of pg_read_all_stats, and by users of the admin database. All others see that it
// is there, and whose it is.
type Viewer struct {
	User string
	// Database is where the viewer is: declarations of other databases are not shown.
	Database string
	All      bool
}

func (v Viewer) sees(user string) bool { return v.All || v.User == user }

// hidden is what others see of a statement.
const hidden = "<insufficient privilege>"

// Session is one client.
type Session struct {
	ID             int64
	User, Database string
	Application    string
	Address        string
	State          string // idle, active, idle in transaction, waiting for a bucket on its way, …
	Connected      time.Time
	Statement      string    // normalised; the last one, if none runs
	Since          time.Time // when it began, or ended
	Shard          string    // of the backend at hand
	BackendPID     int64
	Shards         int64  // whose backends it holds
	Pinned         string // why it keeps them
}

// Server is one connection to a shard.
type Server struct {
	Shard, Database, User string
	PID                   int64
	State                 string // idle or used
	Session               int64  // that has it; 0 for none
}

// Pool is the connections of one user to one database on one shard.
type Pool struct {
	Shard, Database, User, Mode string
	Open, Idle, Waiting         int64
	Limit                       int64 // of the user's connections to the shard; 0: that of the shard
}

// Shard is one shard of the cluster.
type Shard struct {
	Name                string
	Hosts               []string
	Home                bool
	Weight, Buckets     int64
	Paused              bool
	Open, Used, Waiting int64
	Statements          int64
	Seconds             float64
	Median, NinetyNinth float64 // about, in milliseconds
	QueueWaits          int64
	QueueSeconds        float64
	ConnectionLimit     int64
	State               string
	// Primary is the address of the primary, or of the last one while none is known, and Generation is the highest that is known.
	Primary, Generation string
	PrimaryState        string // steady, seeking, split or unknown
	// Durable says whether the shard is as durable as the cluster declares, nil if nothing is declared or known, and Lacks what it lacks.
	Durable *bool
	Lacks   string
	AtGate  int64 // sessions that wait because of PAUSE, DRAIN SHARD, or because there is no primary
}

// Range is consecutive buckets on one shard.
type Range struct {
	First, Last int64
	Shard       string
}

// Sharded is one declared table.
type Sharded struct {
	Database, Schema, Name string
	Kind                   string // sharded or reference
	Columns                []string
	Vindex                 string
	State                  string
}

// Statement is what was counted of one normalised statement.
type Statement struct {
	ID                          int64
	User, Database, Text, Kind  string
	Calls, Errors, Rows, Shards int64
	Total, Min, Max, Mean       time.Duration
	Since                       time.Time
}

// Recording is a sample of transactions of one database that is kept by this proxy.
type Recording struct {
	Database, State   string // recording or over
	Share             float64
	Since, Until      time.Time
	Seen, Kept, Bytes int64
}

// Stat is what was counted of one kind of statements.
type Stat struct {
	Kind                string
	Count               int64
	Seconds             float64
	Median, NinetyNinth float64 // about, in milliseconds
}

// Setting is one key of weft.yaml, with its value in effect. Secrets are not among
// them.
type Setting struct {
	Name, Value string
	// Reload: a change takes effect when the file is read again.
	Reload bool
}

// Transaction is one of several shards that has not come to its end.
type Transaction struct {
	GID, Database, Shard, State string
	Age                         *float64 // in seconds
	Role, Proxy, Decider        string
	Participants                []string
}

// Move is one job that carries rows to other shards.
type Move struct {
	Job, Database, Kind, State, Reason string
	From, To                           []string
	Done, Buckets                      int64
	Rows, Bytes                        int64
	Rate                               float64   // bytes per second
	ETA                                time.Time // zero if not known
	Median, NinetyNinth, Max           float64   // of what writers were held for, in milliseconds
	ReadNinetyNinth                    float64
	Rounds, GivenUp                    int64
	BlockedBy                          string
	User, Proxy                        string
	Started, Ended                     time.Time
}

// Round is one round of a job.
type Round struct {
	Number        int64
	Job, Database string
	Ended         time.Time
	Ways          string
	Buckets       int64
	Outcome       string
	Rows, Bytes   int64
	Writes, Reads float64 // how long they were held, in milliseconds
}

// Bucket is one bucket of a database.
type Bucket struct {
	Number      int64
	Shard       string
	Known       bool // whether Rows and Bytes are
	Rows, Bytes int64
	MovingTo    string
}
