package throttle

import (
	"math"
	"strconv"
	"strings"
	"time"

	"weft/pgerr"
)

// The bounds of rules.
const (
	// MaxManual is how many rules of users there may be at a time, those that are declared included.
	MaxManual = 40
	// MaxAutomatic is how many automatic rules a configuration may allow.
	MaxAutomatic = 24
	// MaxLasts is how long a rule may last.
	MaxLasts = 30 * 24 * time.Hour
	// UsualWait is how long a transaction waits at most if a rule does not say, and MaxWait is the
	// longest wait that a rule may ask for.
	UsualWait = 500 * time.Millisecond
	MaxWait   = time.Minute
	// maxText bounds the reason of a rule and the names in its target, in bytes.
	maxText = 1000
)

// Kind is what a rule is about.
type Kind string

// The kinds.
const (
	Key         Kind = "key"
	Bucket      Kind = "bucket"
	Shard       Kind = "shard"
	Statement   Kind = "statement"
	User        Kind = "username"
	Database    Kind = "database"
	Application Kind = "application_name"
)

// Kinds are all kinds.
var Kinds = []Kind{Key, Bucket, Shard, Statement, User, Database, Application}

// Target is whom a rule concerns.
type Target struct {
	Kind Kind `json:"kind"`
	// Database is the database of a key, a bucket or a statement.
	Database string `json:"database,omitempty"`
	// Name is that of a shard, a user, a database or an application; the table of a key.
	Name string `json:"name,omitempty"`
	// Group and ID name a key as package heat does, and Value is its spelling: two keys may have the
	// same ID. Shown is the spelling for people.
	Group uint32 `json:"group,omitempty"`
	ID    uint64 `json:"id,string,omitempty"`
	Value []byte `json:"value,omitempty"`
	Shown string `json:"shown,omitempty"`
	// First and Last are buckets, of Buckets.
	First   int32 `json:"first,omitempty"`
	Last    int32 `json:"last,omitempty"`
	Buckets int   `json:"buckets,omitempty"`
	// Statement is an id of weft.statements.
	Statement int64 `json:"statement,string,omitempty"`
}

// Same reports whether two rules concern the same.
func (t *Target) Same(o *Target) bool {
	return t.Kind == o.Kind && t.Database == o.Database && t.Name == o.Name && t.Group == o.Group && t.ID == o.ID &&
		string(t.Value) == string(o.Value) && t.First == o.First && t.Last == o.Last && t.Statement == o.Statement
}

// Words names the target for people.
func (t *Target) Words() string {
	switch t.Kind {
	case Key:
		return "key " + t.Shown + " of " + strings.TrimPrefix(t.Name, "public.")
	case Bucket:
		if t.First == t.Last {
			return "bucket " + strconv.Itoa(int(t.First))
		}
		return "buckets " + strconv.Itoa(int(t.First)) + "-" + strconv.Itoa(int(t.Last))
	case Statement:
		return "statement " + strconv.FormatInt(t.Statement, 10)
	case User:
		return "user " + t.Name
	case Application:
		return "application " + t.Name
	case Shard, Database:
	}
	return string(t.Kind) + " " + t.Name
}

// Class is which statements a rule concerns.
type Class string

// The classes.
const (
	Any   Class = "any"
	Read  Class = "read"
	Write Class = "write"
)

// Mode is whether a rule does something.
type Mode string

// The modes.
const (
	Enforce Mode = "enforce"
	Observe Mode = "observe" // what would be done is counted, and nothing is done
)

// Origin is who has made a rule.
type Origin string

// The origins.
const (
	Manual    Origin = "manual"
	Automatic Origin = "automatic"
	Declared  Origin = "declared" // by a file: the rule has no end
)

// Limit is what those may do whom a rule concerns: exactly one field is set.
type Limit struct {
	Rate        float64 `json:"rate,omitempty"`        // statements per second, in the whole cluster
	Concurrency int     `json:"concurrency,omitempty"` // transactions at a time, in the whole cluster
	Share       float64 `json:"share,omitempty"`       // of the time of a shard's processors
	Refuse      bool    `json:"refuse,omitempty"`      // nothing
}

// Rule is a limit for a target and a time.
type Rule struct {
	// ID and Revision are set by the directory. A rule that is replaced keeps its ID.
	ID       int64 `json:"-"`
	Revision int64 `json:"-"`
	// Left is how long the rule lasts from now on, as the directory says.
	Left time.Duration `json:"-"`

	Target  Target        `json:"target"`
	Class   Class         `json:"class"`
	Limit   Limit         `json:"limit"`
	MaxWait time.Duration `json:"max_wait"`
	// Below: only statements that are less urgent than this priority are concerned; "" for all.
	Below   string        `json:"below,omitempty"`
	Mode    Mode          `json:"mode"`
	Origin  Origin        `json:"origin"`
	Reason  string        `json:"reason,omitempty"`
	By      string        `json:"by,omitempty"` // the user who has made the rule
	Created time.Time     `json:"created"`
	Lasts   time.Duration `json:"lasts"` // 0 for a rule that is declared
	// Raises is how often an automatic rule was raised since it was needed last.
	Raises int `json:"raises,omitempty"`
}

// Room reports whether there is room for another rule of a user among those that are stored.
func Room(stored []Rule) bool {
	n := 0
	for i := range stored {
		if stored[i].Origin != Automatic {
			n++
		}
	}
	return n < MaxManual
}

// Validate reports what is wrong with a rule, for the client that makes it.
func (r *Rule) Validate() error {
	if err := r.Limit.validate(); err != nil {
		return err
	}
	switch {
	case r.Origin == Declared && r.Lasts != 0:
		return invalid("a throttle that is declared has no end")
	case r.Origin != Declared && (r.Lasts <= 0 || r.Lasts > MaxLasts):
		return invalid("a throttle lasts longer than 0 s and at most 30 days, not %s", r.Lasts)
	case r.MaxWait < 0 || r.MaxWait > MaxWait:
		return invalid("max_wait is from 0 to %s, not %s", MaxWait, r.MaxWait)
	case r.Class != Any && r.Class != Read && r.Class != Write:
		return invalid("class %q is not one of any, read, write", r.Class)
	case r.Mode != Enforce && r.Mode != Observe:
		return invalid("mode %q is not one of enforce, observe", r.Mode)
	case r.Below != "" && levels[r.Below] == 0:
		return invalid("below %q is not one of normal, high", r.Below)
	case len(r.Reason) > maxText:
		return invalid("the reason has %d bytes, more than %d", len(r.Reason), maxText)
	}
	return r.Target.validate()
}

func (l Limit) validate() error {
	given := 0
	for _, set := range []bool{l.Rate != 0, l.Concurrency != 0, l.Share != 0, l.Refuse} {
		if set {
			given++
		}
	}
	switch {
	case given != 1:
		return invalid("a throttle has one limit, not %d", given).WithHint("Give rate => '200/s', concurrency => '2', share => '0.1' or refuse => 'true'.")
	case l.Rate < 0 || math.IsNaN(l.Rate) || l.Rate > 1e9 || l.Rate != 0 && l.Rate < 1e-3:
		return invalid("a rate is from 0.001 to 1000000000 statements per second").WithHint("refuse => 'true' lets no statement pass.")
	case l.Concurrency < 0 || l.Concurrency > 1e6:
		return invalid("a concurrency is from 1 to 1000000 transactions").WithHint("refuse => 'true' lets no statement pass.")
	case l.Share < 0 || math.IsNaN(l.Share) || l.Share > 1:
		return invalid("a share is above 0, and at most 1")
	}
	return nil
}

func (t *Target) validate() error {
	if len(t.Name) > maxText || len(t.Value) > maxText || len(t.Shown) > 8*maxText {
		return invalid("a name or a value has more than %d bytes", maxText)
	}
	switch t.Kind {
	case Key:
		if t.Name == "" || t.Value == nil {
			return invalid("a key needs a table and a value")
		}
	case Bucket:
		if t.First < 0 || t.Last < t.First {
			return invalid("%d-%d is not a range of buckets", t.First, t.Last)
		}
	case Statement:
	case Shard, User, Database, Application:
		if t.Name == "" {
			return invalid("the throttle does not name a %s", t.Kind)
		}
	default:
		return invalid("the throttle has no target")
	}
	return nil
}

// levels are the priorities that a rule may name in Below, and how urgent they are. 0 is normal.
var levels = map[string]int{"normal": 1, "high": 2}

func invalid(format string, args ...any) *pgerr.Error {
	return pgerr.New(pgerr.InvalidParameterValue, format, args...)
}

// Words is the limit for people, as weft.throttles shows it.
func (l Limit) Words() string {
	switch {
	case l.Rate != 0:
		return number(l.Rate) + "/s"
	case l.Concurrency != 0:
		return strconv.Itoa(l.Concurrency) + " at a time"
	case l.Share != 0:
		return number(100*l.Share) + " % of a shard"
	}
	return "nothing"
}

// sentence says what the rule allows.
func (r *Rule) sentence() string {
	what := map[Class]string{Any: "statements", Read: "reads", Write: "writes"}[r.Class]
	verb := " is"
	if r.Target.Kind == Bucket && r.Target.First != r.Target.Last {
		verb = " are"
	}
	who := r.Target.Words() + verb
	switch l := r.Limit; {
	case l.Rate != 0:
		return who + " limited to " + number(l.Rate) + " " + what + " per second"
	case l.Concurrency != 0:
		return who + " limited to " + strconv.Itoa(l.Concurrency) + " transactions at a time"
	case l.Share != 0:
		return who + " limited to " + number(100*l.Share) + " % of the time of a shard"
	}
	return who + " closed to " + what + " for now"
}

// number writes a number without needless digits.
func number(x float64) string {
	if x >= 100 {
		x = math.Round(x)
	}
	return strconv.FormatFloat(x, 'g', 10, 64)
}
