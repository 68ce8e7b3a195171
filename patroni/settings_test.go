package patroni

import (
	"strings"
	"testing"
	"time"
)

// TestComplaints: settings that do not go well with weft are named, in all ways in which they may be written.
func TestComplaints(t *testing.T) {
	const good = `{"ttl":20,"loop_wait":1,"synchronous_mode":true,"failsafe_mode":true,"postgresql":{"parameters":{"max_prepared_transactions":200}}}`
	s := Scope{Scope: "a"}
	off := strings.Replace(good, `"synchronous_mode":true`, `"synchronous_mode":false`, 1)
	for _, c := range []struct{ name, config, says string }{
		{"as in the example", good, ""},
		{"sync", off, "the cluster declares durability sync: a failover may lose up to maximum_lag_on_failover, 1048576 bytes"},
		{"atomic", strings.Replace(off, `{"ttl"`, `{"maximum_lag_on_failover":5,"ttl"`, 1), "declares durability atomic: a failover may lose up to maximum_lag_on_failover, 5 bytes"},
		{"async", off, ""},
		{"async", strings.Replace(off, `{"ttl"`, `{"maximum_lag_on_failover":99999999,"ttl"`, 1), "maximum_lag_on_failover is 99999999"},
		{"in words", `{"ttl":"20","synchronous_mode":"quorum","failsafe_mode":"on","postgresql":{"parameters":{"max_prepared_transactions":"200"}}}`, ""},
		{"a long ttl", strings.Replace(good, `20,`, `60,`, 1), "ttl is 1m0s, and failover.wait is 45s"},
		{"asynchronous", strings.Replace(good, `"synchronous_mode":true`, `"synchronous_mode":"off"`, 1), "synchronous_mode is off"},
		{"not failsafe", strings.Replace(good, `"failsafe_mode":true`, `"failsafe_mode":null`, 1), "failsafe_mode is off"},
		{"not prepared", strings.Replace(good, `:200`, `:0`, 1), "max_prepared_transactions is 0"},
		{"nothing set", `{}`, "max_prepared_transactions is 0"},
	} {
		settings, err := s.Settings(map[string]string{"/service/a/config": c.config})
		if err != nil {
			t.Fatal(err)
		}
		durability := map[string]string{"sync": "sync", "atomic": "atomic", "async": "async"}[c.name]
		got := strings.Join(settings.Complaints(45*time.Second, durability), "\n")
		if c.says == "" && got != "" || !strings.Contains(got, c.says) {
			t.Errorf("%s: %q", c.name, got)
		}
	}
	for _, bad := range []map[string]string{{}, {"/service/a/config": "{"}, {"/service/a/config": `{"ttl":"x"}`}} {
		if _, err := s.Settings(bad); err == nil {
			t.Errorf("%v is read", bad)
		}
	}
}
