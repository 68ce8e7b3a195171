package patroni

import (
	"encoding/json"
	"testing"

	"weft/pgserver"
)

// What Patroni 3.0 says of a shard, and what is made of it.
func TestView(t *testing.T) {
	for _, tc := range []struct {
		name, text    string
		leader        string
		follows, sync bool // of b
	}{
		{
			name:   "both run",
			text:   `{"members": [{"name": "a", "role": "leader", "state": "running", "timeline": 2}, {"name": "b", "role": "sync_standby", "state": "running", "timeline": 2, "lag": 0}]}`,
			leader: "a", follows: true, sync: true,
		},
		{
			name:   "asynchronous, as later versions say it",
			text:   `{"members": [{"name": "a", "role": "leader", "state": "running", "timeline": 2}, {"name": "b", "role": "replica", "state": "streaming", "timeline": 2}]}`,
			leader: "a", follows: true,
		},
		{
			name:   "not rewound yet",
			text:   `{"members": [{"name": "a", "role": "leader", "state": "running", "timeline": 3}, {"name": "b", "role": "replica", "state": "running", "timeline": 2}]}`,
			leader: "a",
		},
		{
			name: "the primary starts",
			text: `{"members": [{"name": "a", "role": "leader", "state": "starting"}, {"name": "b", "role": "replica", "state": "stopped", "lag": "unknown"}]}`,
		},
		{name: "nobody", text: `{"members": []}`},
	} {
		var v view
		if err := json.Unmarshal([]byte(tc.text), &v); err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		follows, sync := v.standby("b")
		if v.leader() != tc.leader || follows != tc.follows || sync != tc.sync {
			t.Errorf("%s: leader %q, follows %v, synchronous %v", tc.name, v.leader(), follows, sync)
		}
		if follows, _ := v.standby(tc.leader); follows {
			t.Errorf("%s: the leader follows itself", tc.name)
		}
	}
}

func TestSettings(t *testing.T) {
	s := New(Config{Name: "shard-0", Etcd: "127.0.0.1:2379", Dir: "/d/patroni", Servers: []pgserver.Config{{Dir: "/d/shard-0", Port: 6500, User: "postgres"}, {Dir: "/d/shard-0-1", Port: 6504, User: "postgres"}}})
	text, err := s.settings(s.members[1])
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Scope, Name string
		Bootstrap   struct {
			DCS struct {
				Sync       bool `json:"synchronous_mode"`
				PostgreSQL struct{ Parameters map[string]string }
			}
		}
		PostgreSQL struct {
			Listen     string
			DataDir    string `json:"data_dir"`
			Parameters map[string]string
		}
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.Scope != "shard-0" || got.Name != "shard-0-1" || !got.Bootstrap.DCS.Sync || got.PostgreSQL.Listen != "127.0.0.1:6504" || got.PostgreSQL.DataDir != "/d/shard-0-1" {
		t.Errorf("%s", text)
	}
	// A standby with fewer prepared transactions than its primary would not start.
	if shared := got.Bootstrap.DCS.PostgreSQL.Parameters; shared["max_prepared_transactions"] == "" || shared["wal_level"] != "logical" {
		t.Errorf("shared settings: %v", shared)
	}
	if own := got.PostgreSQL.Parameters; own["max_prepared_transactions"] != "" || own["shared_buffers"] == "" {
		t.Errorf("settings of the server: %v", own)
	}
}

func TestLastPrimary(t *testing.T) {
	type c = pgserver.Control
	for _, tc := range []struct {
		name string
		all  []c
		want int
	}{
		{"stopped in good order", []c{{Timeline: 3, Standby: true}, {Timeline: 3}}, 1},
		{"killed before the old primary was rewound", []c{{Timeline: 2}, {Timeline: 3}}, 1},
		{"killed while the primary started", []c{{Timeline: 2}, {Timeline: 3, Standby: true}}, 1},
		{"killed while both started", []c{{Timeline: 3, Standby: true}, {Timeline: 3, Standby: true}}, -1},
		{"one", []c{{Timeline: 1}}, 0},
	} {
		if got := lastPrimary(tc.all); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}
