package failover

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weft/pgserver"
	"weft/pgserver/pgtest"
)

// TestClocks kills primaries whose clocks are an hour apart from that of the proxies, and two hours from that of their standbys. Clients meet what they meet in TestKills.
func TestClocks(t *testing.T) {
	found, _ := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if len(found) == 0 {
		t.Skip("a server with a clock of its own needs libfaketime, a package of Debian")
	}
	c := newCluster(t, "--pg-bin", wrongClocks(t, found[0]))
	for _, s := range c.servers(1) {
		at, err := ask(t.Context(), s.Address, "select round(extract(epoch from clock_timestamp()))::text")
		if err != nil {
			t.Fatal(err)
		}
		var epoch int64
		if _, err := fmt.Sscan(at, &epoch); err != nil {
			t.Fatal(err)
		}
		if off := time.Until(time.Unix(epoch, 0)).Abs(); off < 59*time.Minute {
			t.Fatalf("the clock of %s differs by %v only", s.Dir, off)
		}
	}
	// The first round makes another server the primary, the last one goes back to the first.
	c.survive(t, 3, func(round int) int { return (round + 1) % shards }, (*cluster).kill, barSupervisor)
}

// wrongClocks returns a directory of PostgreSQL's programs. The clock of the first server of shard-1 is an hour ahead, that of its standby an hour behind.
func wrongClocks(t *testing.T, library string) string {
	t.Helper()
	install, err := pgserver.Find("")
	if err != nil {
		t.Fatal(err)
	}
	bin := install.Bin
	dir := filepath.Join(pgtest.Dir(t), "bin")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	programs, err := os.ReadDir(bin)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		if p.Name() != "postgres" {
			if err := os.Symlink(filepath.Join(bin, p.Name()), filepath.Join(dir, p.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	script := fmt.Sprintf(`#!/bin/sh
case "$*" in
*/dev/shard-1-1*) export FAKETIME=-1h ;;
*/dev/shard-1*) export FAKETIME=+1h ;;
*) exec %[2]s/postgres "$@" ;;
esac
FAKETIME_DONT_FAKE_MONOTONIC=1 LD_PRELOAD=%[1]s exec %[2]s/postgres "$@"
`, library, bin)
	if err := os.WriteFile(filepath.Join(dir, "postgres"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
