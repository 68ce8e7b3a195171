package directory

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Diff tells, one line each, how next differs from old, for a person to read:
// + added, - removed, ~ changed. old is nil when next creates the cluster.
func Diff(old, next *Snapshot) []string {
	var out []string
	if old == nil {
		old = &Snapshot{}
		out = append(out, fmt.Sprintf("+ cluster %s, %d buckets, home %s", next.Cluster, next.BucketCount, next.Home))
	}
	for i := range next.Shards {
		n := &next.Shards[i]
		if o, ok := old.Shard(n.Name); !ok {
			out = append(out, "+ shard "+n.describe())
		} else if a, b := o.describe(), n.describe(); a != b {
			out = append(out, "~ shard "+a+" -> "+strings.TrimPrefix(b, n.Name+" "))
		}
	}
	for i := range old.Shards {
		o := &old.Shards[i]
		if _, ok := next.Shard(o.Name); !ok {
			out = append(out, "- shard "+o.describe())
		}
	}
	return out
}

// describe prints a shard on one line, its options in a fixed order. The
// password of a key file is not for screens.
func (sh *Shard) describe() string {
	var b strings.Builder
	b.WriteString(sh.Name + " " + strings.Join(sh.Hosts, ","))
	for _, k := range slices.Sorted(maps.Keys(sh.Options)) {
		v := sh.Options[k]
		if k == "sslpassword" {
			v = "***"
		}
		b.WriteString(" " + k + "=" + v)
	}
	if sh.Weight != 1 {
		fmt.Fprintf(&b, " weight=%d", sh.Weight)
	}
	return b.String()
}
