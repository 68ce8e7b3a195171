package verdict

import (
	"encoding/binary"
	"hash/fnv"
	"strconv"

	"weft/heat"
)

// Kind is what a finding is about.
type Kind string

// The kinds.
const (
	Key       Kind = "key"
	Bucket    Kind = "bucket"
	Shard     Kind = "shard"
	Statement Kind = "statement"
	User      Kind = "user"
	Database  Kind = "database"
)

// Kinds are the kinds that can be hot.
var Kinds = []Kind{Key, Bucket, Shard, Statement, User}

// Verdict is what was found.
type Verdict string

// The verdicts.
const (
	Warm      Verdict = "warm"      // it has much of the work of its shard
	Hot       Verdict = "hot"       // it is warm, and its shard is saturated
	Slow      Verdict = "slow"      // its statements take much longer than those of others
	Saturated Verdict = "saturated" // a shard has more work than it can do
	Skewed    Verdict = "skewed"    // the work of a database is on fewer buckets than usual
)

// Reason is why it does not go away by itself.
type Reason string

// The reasons.
const (
	SingleKey Reason = "single_key" // one key has the work, and a key is on one shard
	HotRow    Reason = "hot_row"    // transactions wait for each other's locks on a few rows
	ManyWarm  Reason = "many_warm"  // many keys have a part of the work
	BigTenant Reason = "big_tenant" // one key has had much of the work for long
	Scan      Reason = "scan"       // statements return much more than others do
	Scatter   Reason = "scatter"    // statements ask all shards
	Home      Reason = "home"       // tables that are not sharded have the work
	Moving    Reason = "moving"     // keys count up, and the newest ones have the work
	InStep    Reason = "in_step"    // clients ask in the same second
)

// Class says whether work reads or writes: at least 80 % of it.
type Class string

// The classes; mixed work has none.
const (
	Read  Class = "read"
	Write Class = "write"
	Mixed Class = ""
)

// Object names a thing.
type Object struct {
	Kind     Kind   `json:"k"`
	Database string `json:"d,omitempty"`
	Group    uint32 `json:"g,omitempty"`        // of a key
	ID       uint64 `json:"i,string,omitempty"` // of a key
	Bucket   int32  `json:"b,omitempty"`        // of a bucket
	Shard    string `json:"s,omitempty"`        // of a shard, a statement or a user
	User     string `json:"u,omitempty"`        // of a statement or a user
	Text     string `json:"t,omitempty"`        // of a statement
}

// statementObject names a statement.
func statementObject(s heat.Statement) Object {
	return Object{Kind: Statement, Database: s.Database, Shard: s.Shard, User: s.User, Text: s.Text}
}

// Finding is a verdict about one thing.
type Finding struct {
	Object
	Verdict Verdict `json:"v"`
	Reason  Reason  `json:"r,omitempty"`
	Class   Class   `json:"c,omitempty"`
	On      string  `json:"on,omitempty"` // the shard that has the thing
	In      int32   `json:"in"`           // the bucket of a key, -1 for other things
	Share   float64 `json:"sh"`           // of the work of the shard
	Calls   float64 `json:"n"`            // statements per second
	Busy    float64 `json:"ms"`           // milliseconds of backends per second
	Wait    float64 `json:"w,omitempty"`  // of statements for a connection to the shard, in milliseconds: nine in ten wait less
	CPU     float64 `json:"cpu,omitempty"`
	Cores   float64 `json:"cores,omitempty"` // CPU backends of the shard want so many cores
	Slow    float64 `json:"p,omitempty"`     // milliseconds that one of a hundred statements takes
	Usual   float64 `json:"q,omitempty"`     // the same for the median key; of a database, how many effective buckets it has usually
	Buckets float64 `json:"eb,omitempty"`    // of a database: how many effective ones it has
	Cooler  string  `json:"to,omitempty"`    // a shard that has room
	Cause   string  `json:"by,omitempty"`    // of a shard: the text of the statement that the reason is about
	Value   string  `json:"x,omitempty"`     // of a key
	Known   bool    `json:"y,omitempty"`     // Value is known
	Number  int     `json:"no,omitempty"`    // tells keys of one bucket apart
	Age     float64 `json:"a"`               // seconds since it began
}

// Warns reports whether a warning is due. A warm thing hurts nobody.
func (f *Finding) Warns() bool { return f.Verdict != Warm }

// Presses reports whether a shard that is found to be saturated is so at this moment. A finding outlasts the moment.
func (f *Finding) Presses() bool {
	return f.Verdict == Saturated && (f.Wait*1e6 >= longWait || f.Cores > 0 && f.CPU >= perCore*f.Cores)
}

// WarningID names the warning about a thing. It is the same in all processes, and tells nothing of the
// value of a key but its bucket.
func (f *Finding) WarningID() string {
	h := fnv.New64a()
	part := func(s string) {
		_, _ = h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(s))))
		_, _ = h.Write([]byte(s))
	}
	part(string(f.Kind))
	if f.Kind != Shard { // a saturated shard that becomes a hot one is the same incident
		part(string(f.Verdict))
	}
	part(f.Database)
	part(f.Shard)
	part(f.User)
	part(f.Text)
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(f.Group)<<32|uint64(uint32(f.Bucket+f.In))))
	_, _ = h.Write([]byte{byte(f.Number)})
	return strconv.FormatUint(h.Sum64()>>24, 36)
}

// Warnings returns the findings that warn, each incident once: a shard that is hot is saturated, and a
// bucket that is hot because of one key is hot because of that key.
func Warnings(found []Finding) []Finding {
	hot := map[Object]bool{}
	keys := map[Object]bool{} // buckets with a hot key
	for i := range found {
		if f := &found[i]; f.Verdict == Hot {
			hot[f.Object] = true
			if f.Kind == Key {
				keys[Object{Kind: Bucket, Database: f.Database, Bucket: f.In}] = true
			}
		}
	}
	var out []Finding
	for i := range found {
		f := &found[i]
		if !f.Warns() || f.Verdict == Saturated && hot[f.Object] || f.Kind == Bucket && f.Reason == SingleKey && keys[f.Object] {
			continue
		}
		out = append(out, *f)
	}
	return out
}

// Changes returns the warnings that are new now, and those that are gone.
func Changes(before, now []Finding) (begun, ended []Finding) {
	before, now = Warnings(before), Warnings(now)
	missing := func(from, in []Finding) (out []Finding) {
		have := map[string]bool{}
		for i := range in {
			have[in[i].WarningID()] = true
		}
		for i := range from {
			if !have[from[i].WarningID()] {
				out = append(out, from[i])
			}
		}
		return out
	}
	return missing(now, before), missing(before, now)
}

// classOf says whether work reads or writes.
func classOf(l heat.Load) Class {
	switch all := l.Cost(); {
	case all <= 0:
		return Mixed
	case l.Read.Cost() >= 0.8*all:
		return Read
	case l.Write.Cost() >= 0.8*all:
		return Write
	}
	return Mixed
}
