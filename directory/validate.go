package directory

import (
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Problem is one thing that is wrong with a snapshot.
type Problem struct {
	Place  string // a path such as shards[1].hosts[0]
	Reason string
}

func (p *Problem) Error() string { return p.Place + ": " + p.Reason }

// shardName keeps names usable as a part of a prepared transaction's gid (no
// colon, bounded length), in metrics and on a command line.
var shardName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)

// MaxShards keeps the index of a shard different from Unused.
const MaxShards = 1 << 15

// shardOptions are the libpq keywords that a shard may set. Anything else is
// refused: pgconn would send an unknown keyword to the server as a run-time
// parameter, and a misspelt sslmode must not end in a connection without TLS.
// Host, port, user, password and dbname are weft's own to set.
var shardOptions = map[string][]string{
	"sslmode":         {"disable", "allow", "prefer", "require", "verify-ca", "verify-full"},
	"sslrootcert":     nil,
	"sslcert":         nil,
	"sslkey":          nil,
	"sslpassword":     nil,
	"sslsni":          {"0", "1"},
	"sslnegotiation":  {"postgres", "direct"},
	"channel_binding": {"disable", "prefer", "require"},
	"require_auth":    nil,
	"krbsrvname":      nil,
	"krbspn":          nil,
}

// Validate reports every problem of s, joined; each is a *Problem.
func (s *Snapshot) Validate() error { return s.validate(nil) }

// validate is Validate, but skips the tables that are the same in known, which is valid.
func (s *Snapshot) validate(known *Snapshot) error {
	var errs []error
	bad := func(place, format string, args ...any) {
		errs = append(errs, &Problem{place, fmt.Sprintf(format, args...)})
	}
	if s.Cluster == "" {
		bad("cluster", "is empty")
	}
	s.validateDurability(bad)
	s.validateHalt(bad)
	if n := s.BucketCount; n < 1 || n > MaxBucketCount || bits.OnesCount(uint(n)) != 1 {
		bad("bucket_count", "must be a power of two from 1 to %d, not %d", MaxBucketCount, n)
	}
	if n := s.FirstBuckets; n != 0 && !isPart(n, s.BucketCount) {
		bad("first_buckets", "%d is not a number that %d buckets can have become of", n, s.BucketCount)
	}
	if s.Gate != GateOn && s.Gate != GateShut && s.Gate != GateOff {
		bad("atomic_reads", "unknown state %q", s.Gate)
	}
	if len(s.Shards) == 0 {
		bad("shards", "at least one is needed")
	}
	if n := len(s.Shards); n > MaxShards {
		bad("shards", "%d are more than %d", n, MaxShards)
	}
	names := map[string]int{}
	hosts := map[string]string{}
	for i := range s.Shards {
		sh := &s.Shards[i]
		place := fmt.Sprintf("shards[%d]", i)
		if !shardName.MatchString(sh.Name) {
			bad(place+".name", "%q must start with a lower-case letter and hold only a-z, 0-9, _ and - (63 at most)", sh.Name)
		} else if j, dup := names[sh.Name]; dup {
			bad(place+".name", "%q is also the name of shards[%d]", sh.Name, j)
		} else {
			names[sh.Name] = i
		}
		sh.validate(place, hosts, bad)
	}
	if s.Home == "" && len(s.Shards) > 0 {
		bad("home", "is empty: name the shard that holds undeclared tables")
	} else if _, ok := s.Shard(s.Home); !ok && len(s.Shards) > 0 {
		bad("home", "%q is not one of the shards", s.Home)
	}
	if len(errs) > 0 {
		return errors.Join(errs...) // the other checks depend on these
	}
	s.validatePins(bad)
	s.validatePlacement(bad)
	if known != nil && known.BucketCount != s.BucketCount {
		known = nil
	}
	s.validateTables(known, bad)
	return errors.Join(errs...)
}

func (sh *Shard) validate(place string, hosts map[string]string, bad func(place, format string, args ...any)) {
	sh.validateSource(place, bad)
	for h, at := range sh.Servers {
		if i := slices.Index(sh.Hosts, h); at.Weight < 0 {
			bad(fmt.Sprintf("%s.hosts[%d].weight", place, i), "must not be negative, and is %d", at.Weight)
		}
	}
	if len(sh.Hosts) == 0 && !sh.Discovered() {
		bad(place+".hosts", "at least one host:port is needed")
	}
	for i, h := range sh.Hosts {
		at := fmt.Sprintf("%s.hosts[%d]", place, i)
		host, port, err := net.SplitHostPort(h)
		n, perr := strconv.ParseUint(port, 10, 16)
		switch {
		case err != nil || host == "" || strings.ContainsAny(host, ", /"):
			bad(at, "%q is not host:port, for example 10.0.0.1:5432", h)
		case perr != nil || n == 0:
			bad(at, "%q has no port between 1 and 65535", h)
		case hosts[h] != "":
			// One server as two shards would return every row twice.
			bad(at, "%s already belongs to %s", h, hosts[h])
		default:
			hosts[h] = place
		}
	}
	for _, k := range slices.Sorted(maps.Keys(sh.Options)) {
		allowed, known := shardOptions[k]
		if !known {
			bad(place+".options."+k, "is not an option of a shard; those are %s",
				strings.Join(slices.Sorted(maps.Keys(shardOptions)), ", "))
		} else if v := sh.Options[k]; len(allowed) > 0 && !slices.Contains(allowed, v) {
			bad(place+".options."+k, "%q must be one of %s", v, strings.Join(allowed, ", "))
		}
	}
	if sh.Timeline == 0 && (sh.Fork != 0 || sh.Primary != "") || sh.Timeline != 0 && sh.System == "" || sh.Ruling.Timeline > sh.Timeline {
		bad(place+".timeline", "generation %s of %s is not whole", sh.Generation(), sh.Name)
	}
	sh.validateHandover(place, bad)
	if sh.Weight < 0 || sh.Weight > 1000 {
		bad(place+".weight", "must be from 0 to 1000, not %d", sh.Weight)
	}
}

// validateDurability reports what is wrong with the declared durability.
func (s *Snapshot) validateDurability(bad func(place, format string, args ...any)) {
	switch {
	case !s.Durability.Valid():
		bad("durability", "is %q: use sync, atomic or async", string(s.Durability))
	case s.DurabilityEnforced && s.Durability == "":
		bad("durability_enforced", "needs durability")
	}
}
