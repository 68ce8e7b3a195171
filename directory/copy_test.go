package directory

import "testing"

func TestCopy(t *testing.T) {
	s := sample()
	s.Version, s.Base = 7, 100
	s.PutTable(Table{Database: "app", Schema: "public", Name: "t", Kind: Reference})
	s.Schemas = map[string]int64{"app": 3}
	s.Entries = NewEntries()
	s.Entries.Put("tenants", []byte("acme"), s.BucketCount, 1)
	s.Entries.Put("tenants", []byte("b"), 1, 1)
	s.Entries.Loaded()
	text, err := s.EncodeCopy()
	if err != nil {
		t.Fatal(err)
	}
	later := s.Clone()
	later.Version, later.Schemas = 9, map[string]int64{"app": 4}
	if again, _ := later.EncodeCopy(); again != text {
		t.Errorf("a change of a schema changes the copy:\n%s\n%s", text, again)
	}
	c, err := DecodeCopy(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Pinned) != 1 || string(c.Pinned[0].Key) != "acme" || c.Pinned[0].Bucket != s.BucketCount {
		t.Errorf("pinned: %+v", c.Pinned)
	}
	r := c.Revive(s.Number())
	if r.Cluster != s.Cluster || len(Diff(s, r)) != 0 || r.Schemas["app"] <= 3 {
		t.Errorf("revived: %+v", r)
	}
	if r.Version = 1; r.Number() <= s.Number() {
		t.Errorf("number %d after %d", r.Number(), s.Number())
	}
	for _, bad := range []string{"", "{}", `{"snapshot":{},"more":1}`, `{"snapshot":{"cluster":"c"}}`} {
		if _, err := DecodeCopy(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}
