package directory

import (
	"strings"
	"testing"
)

func sample() *Snapshot {
	return New(16, "a", []Shard{
		{Name: "a", Hosts: []string{"10.0.0.1:5432"}, Weight: 1},
		{Name: "b", Hosts: []string{"[::1]:5432", "db.example:5433"}, Options: map[string]string{"sslmode": "require"}, Weight: 1},
	})
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Snapshot)
		want   string // each line of the error, joined by |
	}{
		{"valid", func(*Snapshot) {}, ""},
		{"weight zero", func(s *Snapshot) { s.Shards[1].Weight = 0 }, ""},
		{"one bucket", func(s *Snapshot) { s.BucketCount, s.Placement = 1, []uint16{1} }, ""},
		{"no cluster id", func(s *Snapshot) { s.Cluster = "" }, "cluster: is empty"},
		{"bucket count", func(s *Snapshot) { s.BucketCount = 100 }, "bucket_count: must be a power of two from 1 to 65536, not 100"},
		{"no buckets", func(s *Snapshot) { s.BucketCount = 0 }, "bucket_count: must be a power of two from 1 to 65536, not 0"},
		{"negative", func(s *Snapshot) { s.BucketCount = -4 }, "bucket_count: must be a power of two from 1 to 65536, not -4"},
		{"too many", func(s *Snapshot) { s.BucketCount = 1 << 17 }, "bucket_count: must be a power of two from 1 to 65536, not 131072"},
		{"no shards", func(s *Snapshot) { s.Shards = nil }, "shards: at least one is needed"},
		{"name", func(s *Snapshot) { s.Shards[1].Name = "B:1" }, `shards[1].name: "B:1" must start with a lower-case letter and hold only a-z, 0-9, _ and - (63 at most)`},
		{"same name", func(s *Snapshot) { s.Shards[1].Name = "a" }, `shards[1].name: "a" is also the name of shards[0]`},
		{"no hosts", func(s *Snapshot) { s.Shards[0].Hosts = nil }, "shards[0].hosts: at least one host:port is needed"},
		{"no port", func(s *Snapshot) { s.Shards[0].Hosts[0] = "db" }, `shards[0].hosts[0]: "db" is not host:port, for example 10.0.0.1:5432`},
		{"no host", func(s *Snapshot) { s.Shards[0].Hosts[0] = ":5432" }, `shards[0].hosts[0]: ":5432" is not host:port, for example 10.0.0.1:5432`},
		{"two in one", func(s *Snapshot) { s.Shards[0].Hosts[0] = "a,b:5432" }, `shards[0].hosts[0]: "a,b:5432" is not host:port, for example 10.0.0.1:5432`},
		{"port", func(s *Snapshot) { s.Shards[0].Hosts[0] = "db:70000" }, `shards[0].hosts[0]: "db:70000" has no port between 1 and 65535`},
		{"same host", func(s *Snapshot) { s.Shards[0].Hosts[0] = "[::1]:5432" }, `shards[1].hosts[0]: [::1]:5432 already belongs to shards[0]`},
		{"option", func(s *Snapshot) { s.Shards[1].Options["user"] = "x" }, `shards[1].options.user: is not an option of a shard; those are channel_binding, krbspn, krbsrvname, require_auth, sslcert, sslkey, sslmode, sslnegotiation, sslpassword, sslrootcert, sslsni`},
		{"sslmode", func(s *Snapshot) { s.Shards[1].Options["sslmode"] = "on" }, `shards[1].options.sslmode: "on" must be one of disable, allow, prefer, require, verify-ca, verify-full`},
		{"weight", func(s *Snapshot) { s.Shards[1].Weight = -1 }, `shards[1].weight: must be from 0 to 1000, not -1`},
		{"no home", func(s *Snapshot) { s.Home = "" }, "home: is empty: name the shard that holds undeclared tables"},
		{"home", func(s *Snapshot) { s.Home = "c" }, `home: "c" is not one of the shards`},
		{"pin", func(s *Snapshot) { s.Pins = []Pin{{0, 16, "a"}, {3, 2, "z"}} }, `pins[0].buckets: 0-16 is no range of the buckets 0-15|pins[1].shard: "z" is not one of the shards|pins[1].buckets: 3-2 is no range of the buckets 0-15`},
		{"pins overlap", func(s *Snapshot) { s.SetShards(s.Shards, []Pin{{0, 4, "a"}, {6, 9, "b"}, {4, 5, "a"}}) }, `pins[2].buckets: 4-5 overlaps pins[0], 0-4`},
		{"pin not kept", func(s *Snapshot) { s.Pins = []Pin{{1, 1, "a"}} }, `placement[1]: is on b, and pins[0] wants it on a`},
		{"short map", func(s *Snapshot) { s.Placement = s.Placement[:3] }, "placement: has 3 of 16 buckets"},
		{"hole", func(s *Snapshot) { s.Placement[5] = Unused }, "placement[5]: is a hole: the bucket has no shard"},
		{"missing shard", func(s *Snapshot) { s.Placement[5] = 2 }, "placement[5]: is shard number 2, and there are 2"},
		{"own buckets", func(s *Snapshot) { s.Placement = append(s.Placement, 1, Unused) }, ""},
		{"own bucket", func(s *Snapshot) { s.Placement = append(s.Placement, 1, 7) }, "placement[17]: is shard number 7, and there are 2"},
		{"several", func(s *Snapshot) { s.Home, s.BucketCount = "c", 3 }, `bucket_count: must be a power of two from 1 to 65536, not 3|home: "c" is not one of the shards`},
	} {
		s := sample()
		c.change(s)
		got := ""
		if err := s.Validate(); err != nil {
			got = strings.ReplaceAll(err.Error(), "\n", "|")
		}
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestClone(t *testing.T) {
	s := sample()
	c := s.Clone()
	c.Shards[1].Hosts[0] = "changed:1"
	c.Shards[1].Options["sslmode"] = "disable"
	c.Shards[0].Name = "z"
	if s.Shards[1].Hosts[0] != "[::1]:5432" || s.Shards[1].Options["sslmode"] != "require" || s.Shards[0].Name != "a" {
		t.Errorf("a change of the clone shows in the original: %+v", s)
	}
}

func TestDatabases(t *testing.T) {
	s := &Snapshot{Tables: []Table{{Database: "a", Name: "t"}, {Database: "a", Name: "u"}, {Database: "b", Name: "t"}}}
	if got := strings.Join(s.Databases(), " "); got != "a b" {
		t.Errorf("databases are %q", got)
	}
	if got := new(Snapshot).Databases(); len(got) != 0 {
		t.Errorf("without tables databases are %q", got)
	}
}

func TestClusterIDs(t *testing.T) {
	if a, b := sample().Cluster, sample().Cluster; a == b || len(a) != 16 {
		t.Errorf("cluster ids %s, %s", a, b)
	}
}

func TestDiff(t *testing.T) {
	old := sample()
	old.Tables = declared()
	next := old.Clone()
	next.Pins = []Pin{{0, 7, "a"}}
	next.DropTable("app", "public", "items")
	next.Table("app", "public", "customers").State = Declaring
	next.PutTable(Table{Database: "app", Schema: "public", Name: "new", Kind: Reference})
	next.Shards[0].Hosts = []string{"10.0.0.9:5432"}
	next.Shards[1] = Shard{Name: "c", Hosts: []string{"c:1"}, Options: map[string]string{"sslpassword": "secret", "sslkey": "k"}, Weight: 3}
	want := "~ shard a 10.0.0.1:5432 -> 10.0.0.9:5432\n+ shard c c:1 sslkey=k sslpassword=*** weight=3\n- shard b [::1]:5432,db.example:5433 sslmode=require\n" +
		"+ pin buckets 0-7 on a\n~ placement: 8 of 16 buckets move\n" +
		"~ table app public.customers hash(id) -> hash(id), declaring\n- table app public.items hash(order_id)\n+ table app public.new reference"
	if got := strings.Join(Diff(old, next), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := Diff(old, old.Clone()); len(got) != 0 {
		t.Errorf("no change: %q", got)
	}
	if got := Diff(nil, old); len(got) != 3+len(old.Tables) || got[0] != "+ cluster "+old.Cluster+", 16 buckets, home a" {
		t.Errorf("new cluster: %q", got)
	}
}
