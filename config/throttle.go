package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/console"
	"weft/directory"
	"weft/executor"
	"weft/heat/throttle"
	"weft/pgerr"
)

// Throttle declares a throttle without an end: one target, one limit.
type Throttle struct {
	// Database is the target, or where a key, a bucket or a statement is.
	Database string `yaml:"database"`
	// Table and Key name a value of a shard key; a list is that of several columns.
	Table string `yaml:"table"`
	Key   any    `yaml:"key"`

	Bucket      *Buckets `yaml:"bucket"`
	Shard       string   `yaml:"shard"`
	Statement   string   `yaml:"statement"` // an id of weft.statements
	User        string   `yaml:"username"`
	Application string   `yaml:"application_name"`

	Rate        Rate  `yaml:"rate"`
	Concurrency int   `yaml:"concurrency"`
	Share       Ratio `yaml:"share"`
	Refuse      bool  `yaml:"refuse"`

	// Class is read, write or any, and Mode is enforce or observe. Empty: any, enforce.
	Class string `yaml:"class"`
	Mode  string `yaml:"mode"`
	// Below: only statements of a lower priority. Empty: all.
	Below string `yaml:"below"`
	// MaxWait is how long a statement waits before it is refused. Absent: throttle.UsualWait.
	MaxWait *time.Duration `yaml:"max_wait"`
	Reason  string         `yaml:"reason"`
}

// Rate is a number of statements per second: 200, or 200/s.
type Rate float64

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Rate) UnmarshalText(text []byte) error {
	n, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(string(text), "/s")), 64)
	if err != nil || !(n > 0) {
		return fmt.Errorf("%q is not a number of statements per second: write for example 200/s", text)
	}
	*r = Rate(n)
	return nil
}

// String writes it so that UnmarshalText reads it; nothing for no rate.
func (r Rate) String() string {
	if r == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(r), 'g', -1, 64) + "/s"
}

// errUndeclared says that the table of a key is not sharded yet.
var errUndeclared = errors.New("the table is not sharded yet")

// Rule returns the throttle as the directory keeps it, in a cluster.
func (t *Throttle) Rule(s *directory.Snapshot) (throttle.Rule, error) {
	r, err := t.form()
	if err != nil {
		return r, err
	}
	switch r.Target.Kind {
	case throttle.Key:
		name, err := (&Table{Database: t.Database, Table: t.Table}).Resolve()
		if err != nil {
			return r, err
		}
		d := s.Table(name.Database, name.Schema, name.Table)
		if d == nil || d.Kind != directory.Sharded {
			return r, errUndeclared
		}
		if r.Target, err = executor.KeyTarget(d, keyText(t.Key), s.BucketCount); err != nil {
			return r, plainly(err)
		}
		r.Target.Shown = console.Printable(r.Target.Shown)
	case throttle.Bucket:
		if n := len(s.PlacementOf(t.Database, "")); t.Bucket.Last >= n {
			return r, fmt.Errorf("there is no bucket %d: the last is %d", t.Bucket.Last, n-1)
		}
		r.Target.Buckets = s.BucketCount
	case throttle.Shard:
		if _, ok := s.Shard(t.Shard); !ok {
			return r, fmt.Errorf("there is no shard %q", t.Shard)
		}
	case throttle.Statement, throttle.User, throttle.Database, throttle.Application:
	}
	return r, plainly(r.Validate())
}

// plainly is an error without SQLSTATE.
func plainly(err error) error {
	if e := (*pgerr.Error)(nil); errors.As(err, &e) {
		return errors.New(e.Message)
	}
	return err
}

// form is the throttle as far as the file alone says it.
func (t *Throttle) form() (throttle.Rule, error) {
	r := throttle.Rule{
		Class: throttle.Any, Mode: throttle.Enforce, Below: t.Below, Origin: throttle.Declared, MaxWait: throttle.UsualWait, Reason: t.Reason,
		Limit: throttle.Limit{Rate: float64(t.Rate), Concurrency: t.Concurrency, Share: float64(t.Share), Refuse: t.Refuse},
	}
	if t.Class != "" {
		r.Class = throttle.Class(t.Class)
	}
	if t.Mode != "" {
		r.Mode = throttle.Mode(t.Mode)
	}
	if t.MaxWait != nil {
		r.MaxWait = *t.MaxWait
	}
	var err error
	if r.Target, err = t.target(); err != nil {
		return r, err
	}
	return r, plainly(r.Validate())
}

// target is whom the throttle concerns, as far as the file alone says it.
func (t *Throttle) target() (out throttle.Target, err error) {
	var given []throttle.Kind
	for _, k := range []struct {
		kind throttle.Kind
		set  bool
	}{
		{throttle.Key, t.Key != nil || t.Table != ""},
		{throttle.Bucket, t.Bucket != nil},
		{throttle.Shard, t.Shard != ""},
		{throttle.Statement, t.Statement != ""},
		{throttle.User, t.User != ""},
		{throttle.Application, t.Application != ""},
	} {
		if k.set {
			given = append(given, k.kind)
		}
	}
	within := len(given) == 1 && slices.Contains([]throttle.Kind{throttle.Key, throttle.Bucket, throttle.Statement}, given[0])
	if t.Database != "" && !within {
		given = append(given, throttle.Database)
	}
	switch {
	case len(given) != 1:
		return out, fmt.Errorf("a throttle has one target, not %d: write one of table with key, bucket, shard, statement, username, database, application_name", len(given))
	case within && t.Database == "":
		return out, fmt.Errorf("database: is needed, for a %s", given[0])
	}
	out = throttle.Target{Kind: given[0], Database: t.Database}
	switch out.Kind {
	case throttle.Key:
		if t.Key == nil || t.Table == "" {
			return out, errors.New("table and key belong together")
		}
		out.Name, out.Value = t.Table, []byte(keyText(t.Key))
	case throttle.Bucket:
		out.First, out.Last = int32(t.Bucket.First), int32(t.Bucket.Last)
	case throttle.Statement:
		if out.Statement, err = strconv.ParseInt(t.Statement, 10, 64); err != nil {
			return out, fmt.Errorf("statement: %q is not an id of weft.statements", t.Statement)
		}
	case throttle.Shard:
		out.Name, out.Database = t.Shard, ""
	case throttle.User:
		out.Name, out.Database = t.User, ""
	case throttle.Application:
		out.Name, out.Database = t.Application, ""
	case throttle.Database:
		out.Name, out.Database = t.Database, ""
	}
	return out, nil
}

// keyText is a key as executor.ReadKey reads it.
func keyText(key any) string {
	list, several := key.([]any)
	if !several {
		return fmt.Sprint(key)
	}
	fields := make([]*string, len(list))
	for i, v := range list {
		if v != nil {
			text := fmt.Sprint(v)
			fields[i] = &text
		}
	}
	return executor.Row(fields)
}

// throttleProblems adds what is wrong with the throttles, as far as the file alone says it.
func (c Cluster) throttleProblems(ps *Problems) {
	type concern struct{ target, class string }
	seen := map[concern]int{}
	for i := range c.Throttles {
		place := fmt.Sprintf("throttles[%d]", i)
		r, err := c.Throttles[i].form()
		if err != nil {
			ps.add(place, "%v", err)
			continue
		}
		at := concern{fmt.Sprintf("%+v", r.Target), string(r.Class)}
		if j, dup := seen[at]; dup {
			ps.add(place, "concerns the same as throttles[%d]", j)
		}
		seen[at] = i
	}
	if n := len(c.Throttles); n > throttle.MaxManual {
		ps.add("throttles", "there are %d, and not more than %d at a time", n, throttle.MaxManual)
	}
}

// Rules returns the throttles of the file in a cluster. Those of tables that are not sharded yet are left out, and later has
// their tables.
func (c Cluster) Rules(s *directory.Snapshot) (rules []throttle.Rule, later []string, err error) {
	var errs []error
	for i := range c.Throttles {
		t := &c.Throttles[i]
		switch r, err := t.Rule(s); {
		case errors.Is(err, errUndeclared):
			later = append(later, t.Table+" in database "+t.Database)
		case err != nil:
			errs = append(errs, fmt.Errorf("throttles[%d]: %w", i, err))
		default:
			rules = append(rules, r)
		}
	}
	return rules, later, errors.Join(errs...)
}

// DescribeThrottle returns a declared throttle as a Throttle of a file, by the names of its keys.
func DescribeThrottle(r *throttle.Rule) map[string]any {
	t, out := &r.Target, map[string]any{}
	set := func(name string, value any, given bool) {
		if given {
			out[name] = value
		}
	}
	set("database", t.Database, t.Database != "")
	switch t.Kind {
	case throttle.Key:
		out["table"], out["key"] = t.Name, string(t.Value)
		if fields := strings.Split(string(t.Value), "\x00"); len(fields) > 1 {
			list := make([]any, len(fields))
			for i, f := range fields {
				if f != "\xff" {
					list[i] = f
				}
			}
			out["key"] = list
		}
	case throttle.Bucket:
		out["bucket"] = fmt.Sprintf("%d-%d", t.First, t.Last)
	case throttle.Statement:
		out["statement"] = strconv.FormatInt(t.Statement, 10)
	case throttle.Shard, throttle.User, throttle.Database, throttle.Application:
		out[string(t.Kind)] = t.Name
	}
	set("rate", Rate(r.Limit.Rate).String(), r.Limit.Rate != 0)
	set("concurrency", r.Limit.Concurrency, r.Limit.Concurrency != 0)
	set("share", r.Limit.Share, r.Limit.Share != 0)
	set("refuse", true, r.Limit.Refuse)
	set("class", string(r.Class), r.Class != throttle.Any)
	set("mode", string(r.Mode), r.Mode != throttle.Enforce)
	set("below", r.Below, r.Below != "")
	set("max_wait", r.MaxWait.String(), r.MaxWait != throttle.UsualWait)
	set("reason", r.Reason, r.Reason != "")
	return out
}
