package directory

import (
	"crypto/rand"
	"encoding/hex"
	"maps"
	"slices"

	"weft/patroni"
	"weft/primary"
	"weft/vindex"
)

// DefaultBucketCount is how many buckets a cluster has by default: enough to spread evenly over
// hundreds of shards, few enough that the placement map is a page of memory.
const DefaultBucketCount = 4096

// MaxBucketCount keeps a bucket number in 16 bits.
const MaxBucketCount = 1 << 16

// Snapshot is the cluster at one version. It is immutable: to change the cluster, work on a Clone
// inside Store.Update.
type Snapshot struct {
	// Version is the store's revision of this snapshot. It grows with every
	// change and is set by the store, never by the author of a change.
	Version int64 `json:"-"`

	// Cluster is a random id given at creation. It is part of the names of prepared transactions,
	// so that two clusters on one server never resolve each other's transactions, and it tells a
	// re-created cluster from the old one.
	Cluster string `json:"cluster"`

	// BucketCount is a power of two. It only grows: see Grow.
	BucketCount int `json:"bucket_count"`

	// FirstBuckets is how many buckets the cluster was created with, 0 if it still has as many. See
	// Numbering.
	FirstBuckets int `json:"first_buckets,omitempty"`

	// Home is the name of the shard that holds every undeclared table.
	Home string `json:"home"`

	// Shards are in the order in which they were declared.
	Shards []Shard `json:"shards"`

	// Pins are ranges of buckets that stay on a shard. They do not overlap.
	Pins []Pin `json:"pins,omitempty"`

	// Placement maps buckets to indexes into Shards. Beyond BucketCount come the buckets of pinned
	// lookup values and isolated ones, one each, or Unused. SetShards updates Placement when Shards or Pins change.
	Placement []uint16 `json:"placement"`

	// Placements are where the buckets of databases are whose rows are elsewhere than Placement
	// says, by PlacementKey. See PlacementOf.
	Placements map[string][]uint16 `json:"placements,omitempty"`

	// Moves are the jobs that carry rows to other shards.
	Moves []Move `json:"moves,omitempty"`
	// Past are the last jobs that have changed the set of shards and are over, the latest first.
	Past []PastMove `json:"past,omitempty"`

	// Targets are the placements that jobs work towards, by the ID of the job.
	Targets map[string][]uint16 `json:"targets,omitempty"`

	// Isolated are the keyspace IDs whose rows have a bucket of their own, with the bucket, by
	// database. See BucketOf.
	Isolated map[string]map[vindex.ID]int `json:"isolated,omitempty"`

	// Remapped is, by database, the version since which its values have the buckets that they have. What
	// a transaction has noted by an older snapshot names other buckets.
	Remapped map[string]int64 `json:"remapped,omitempty"`

	// Tables are the declared tables, ordered by database, schema and name.
	Tables []Table `json:"tables,omitempty"`

	// Functions are the functions that run on the shard of an argument.
	Functions []Function `json:"functions,omitempty"`

	// Schemas counts the schema changes of each database: a schema read at an older count must be
	// read again.
	Schemas map[string]int64 `json:"schemas,omitempty"`

	// Sequences counts, by database, how often sequences were set to other values: values drawn in
	// advance before that are void. A schema change makes them void, too.
	Sequences map[string]int64 `json:"sequences,omitempty"`

	// Vacated is, by database, the version at which it was to become unused: proxies close their
	// idle connections to the database.
	Vacated map[string]int64 `json:"vacated,omitempty"`

	// Gate says whether transactions of several shards keep readers with
	// weft.read = 'atomic' from seeing a part of them.
	Gate Gate `json:"gate,omitempty"`

	// Durability is what commits are to survive, and DurabilityEnforced says that transactions of several shards are not committed where that
	// is not so.
	Durability         primary.Durability `json:"durability,omitempty"`
	DurabilityEnforced bool               `json:"durability_enforced,omitempty"`

	// Halt, if not nil, keeps clients' messages waiting on all proxies, for a moment. It is never changed in place.
	Halt *Halt `json:"halt,omitempty"`

	// Pending are changes of schemas that are being committed.
	Pending []Pending `json:"pending,omitempty"`

	// Base is added to Version for numbers that must keep growing when a lost store was rebuilt.
	// See Number.
	Base int64 `json:"base,omitempty"`

	// Entries are the entries of lookups, which change independently of the snapshot. Nil if the
	// snapshot does not come from a watch. See Entry.
	Entries *Entries `json:"-"`

	// Foreign is why statements must not be routed by this snapshot any more: the directory
	// describes another cluster now. Usually nil. See Current.
	Foreign error `json:"-"`

	// own is what Isolated has for the database that For was called for.
	own map[vindex.ID]int

	// common is the cluster's own placement and groups are the placements of the database's groups, in
	// a snapshot that For has made.
	common []uint16
	groups map[string][]uint16

	// sums are the sums of the encoded parts, if s was stored or loaded. Copies share the map, and
	// it is never changed.
	sums map[string]string
}

// Gate says whether atomic reads are switched off. Between on and off there is a state in which no
// proxy reads atomically but all still commit through the gate. A switch stays in that state until
// every proxy has acknowledged it.
type Gate string

// The states of the gate.
const (
	GateOn   Gate = ""     // transactions commit through the gate, and may read through it
	GateShut Gate = "shut" // transactions commit through the gate, and may not read through it
	GateOff  Gate = "off"
)

// Shard is one PostgreSQL server, or one primary with its standbys.
type Shard struct {
	Name string `json:"name"`

	// Hosts are "host:port". If there are several, one is the primary; the
	// pool finds out which.
	Hosts []string `json:"hosts"`

	// Options are libpq connection keywords beyond host, port, user, password
	// and dbname, such as sslmode and sslrootcert. See shardOptions.
	Options map[string]string `json:"options,omitempty"`

	// Weight is this shard's share of the buckets relative to the others'. A shard of weight 0
	// gets no buckets.
	Weight int `json:"weight"`

	// State says what the shard may be given. See ShardState.
	State ShardState `json:"state,omitempty"`

	// System is the identifier that PostgreSQL gave the server at initdb, and that its standbys
	// share. A server with another identifier is not accepted as the shard. Empty: not known yet.
	System string `json:"system,omitempty"`

	// Timeline and Fork are the rest of the highest generation that a primary of the shard was seen with: a primary of a lower one is
	// not used. They only grow. Timeline 0 stands for the first one, which servers have before any failover.
	Timeline uint32      `json:"timeline,omitempty"`
	Fork     primary.LSN `json:"fork,omitempty"`

	// Primary is the address of the server that was the primary when Timeline was entered: a hint.
	Primary string `json:"primary,omitempty"`

	// Ruling is what an operator has said last about the primary. A generation only grows within one ruling.
	Ruling primary.Ruling `json:"ruling,omitzero"`

	// Servers is what is said of single servers, by their address in Hosts.
	Servers map[string]Server `json:"servers,omitempty"`

	// Patroni, if not nil, runs the servers: Hosts are those that it was last known to have.
	Patroni *patroni.Scope `json:"patroni,omitempty"`

	// Names, if there are any, are what Hosts are found by: see Find.
	Names []string `json:"names,omitempty"`

	// Drain, if not nil, keeps new work from the shard on all proxies. It is never changed in place.
	Drain *Drain `json:"drain,omitempty"`

	// Fence, if not 0, is a timeline that is over, though no server has a higher one yet: a standby is about to be promoted. No proxy
	// uses a primary of this timeline or a lower one. It only grows, unless an operator takes it back.
	Fence uint32 `json:"fence,omitempty"`
}

// Server is what the directory says of one server of a shard, as a standby that clients read.
type Server struct {
	// Zone is where the server is. Proxies prefer standbys of their own zone.
	Zone string `json:"zone,omitempty"`
	// Weight is how much of the reads the server gets, relative to the others. 0 is 1.
	Weight int `json:"weight,omitempty"`
	// NoReads: clients never read the server as a standby.
	NoReads bool `json:"no_reads,omitempty"`
}

// Server returns what is said of the server at an address.
func (sh *Shard) Server(address string) Server { return sh.Servers[address] }

// Generation returns the highest generation that a primary of the shard was seen with.
func (sh *Shard) Generation() primary.Generation {
	return primary.Generation{System: sh.System, Timeline: sh.Timeline, Fork: sh.Fork}
}

// Raise enters a generation of the shard, and the address of the server that has it. It reports whether that changes anything: a generation of another
// system, one that is not above the one that is known, and the first timeline of all are not entered.
func (sh *Shard) Raise(g primary.Generation, at string) bool {
	known := sh.Generation()
	switch {
	case sh.System == "" || g.System != sh.System || g.Timeline <= 1:
		return false
	case g.Above(known):
		sh.Timeline, sh.Fork, sh.Primary, sh.Drain = g.Timeline, g.Fork, at, nil
	case g.Timeline == known.Timeline && known.Fork == 0 && g.Fork != 0:
		sh.Fork = g.Fork
	case g.Timeline == known.Timeline && !g.Parted(known) && at != "" && at != sh.Primary:
		sh.Primary = at
	default:
		return false
	}
	return true
}

// Accept says that of the primaries of a timeline the one at an address is right, which has the generation. Accept forgets what is known of others.
func (sh *Shard) Accept(g primary.Generation, at string) {
	sh.Timeline, sh.Fork, sh.Primary, sh.Drain = g.Timeline, g.Fork, at, nil
	sh.Ruling = primary.Ruling{Number: sh.Ruling.Number + 1, Timeline: g.Timeline, Address: at}
}

// Reset forgets the generation, so that a server of any timeline may be the primary. The system is kept.
func (sh *Shard) Reset() {
	sh.Timeline, sh.Fork, sh.Primary, sh.Fence = 0, 0, "", 0
	sh.Ruling = primary.Ruling{Number: sh.Ruling.Number + 1}
}

// Adopt says that the shard is another server from now on, or that it is not known which.
func (sh *Shard) Adopt(system string) {
	sh.System, sh.Timeline, sh.Fork, sh.Primary, sh.Fence = system, 0, 0, "", 0
	if sh.Ruling.Address != "" {
		sh.Ruling = primary.Ruling{Number: sh.Ruling.Number + 1}
	}
}

// Reaches reports whether both entries lead to the same servers in the same way.
func (sh *Shard) Reaches(other *Shard) bool {
	return slices.Equal(sh.Hosts, other.Hosts) && maps.Equal(sh.Options, other.Options)
}

// ReachesAt reports whether both entries lead to the server at an address in the same way, whatever other servers they have.
func (sh *Shard) ReachesAt(other *Shard, address string) bool {
	return slices.Contains(sh.Hosts, address) && slices.Contains(other.Hosts, address) && maps.Equal(sh.Options, other.Options)
}

// ShardState says what a shard may be given.
type ShardState string

// The states of a shard.
const (
	ShardActive ShardState = ""
	// ShardDraining says that a job takes the shard's buckets away and that it gets no others.
	ShardDraining ShardState = "draining"
	// ShardReadOnly says that the shard's rows may not be changed.
	ShardReadOnly ShardState = "read_only"
)

// New returns the first snapshot of a new cluster, with a fresh cluster id and
// its buckets placed.
func New(bucketCount int, home string, shards []Shard, pins ...Pin) *Snapshot {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the process instead
	s := &Snapshot{Cluster: hex.EncodeToString(id[:]), BucketCount: bucketCount, Home: home}
	s.SetShards(shards, pins)
	return s.Clone()
}

// Clone returns a deep copy that the caller may change.
func (s *Snapshot) Clone() *Snapshot {
	c := *s
	c.Shards = slices.Clone(s.Shards)
	for i := range c.Shards {
		c.Shards[i].Hosts = slices.Clone(c.Shards[i].Hosts)
		c.Shards[i].Options = maps.Clone(c.Shards[i].Options)
		c.Shards[i].Servers = maps.Clone(c.Shards[i].Servers)
	}
	c.Pins = slices.Clone(s.Pins)
	c.Placement = slices.Clone(s.Placement)
	c.Placements = clonePlacements(s.Placements)
	c.Targets = clonePlacements(s.Targets)
	c.Isolated = cloneIsolated(s.Isolated)
	c.Remapped = maps.Clone(s.Remapped)
	c.Moves = slices.Clone(s.Moves)
	c.Past = slices.Clone(s.Past)
	for i := range c.Moves {
		c.Moves[i].clone()
	}
	c.Tables = slices.Clone(s.Tables)
	for i := range c.Tables {
		c.Tables[i].clone()
	}
	c.Schemas = maps.Clone(s.Schemas)
	c.Sequences = maps.Clone(s.Sequences)
	c.Vacated = maps.Clone(s.Vacated)
	c.Pending = slices.Clone(s.Pending)
	c.Functions = slices.Clone(s.Functions)
	for i := range c.Functions {
		c.Functions[i].Vindex.Params = cloneParams(c.Functions[i].Vindex.Params)
	}
	return &c
}

// clonePlacements returns a copy of a map of placements and of its placements.
func clonePlacements(m map[string][]uint16) map[string][]uint16 {
	c := maps.Clone(m)
	for key, p := range c {
		c[key] = slices.Clone(p)
	}
	return c
}

// Shard returns the shard of that name. The result shares memory with the snapshot and is read
// only.
func (s *Snapshot) Shard(name string) (*Shard, bool) {
	for i := range s.Shards {
		if s.Shards[i].Name == name {
			return &s.Shards[i], true
		}
	}
	return nil, false
}

// HomeShard returns the home shard. A validated snapshot always has one.
func (s *Snapshot) HomeShard() *Shard {
	h, _ := s.Shard(s.Home)
	return h
}
