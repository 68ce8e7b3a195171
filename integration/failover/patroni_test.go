package failover

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/dev/patroni"
)

// Patroni is asked for another primary while clients write: they see no error. Its settings are those that weft check wants, and the servers
// are found by its keys. Its hooks run weft's commands.
func TestPatroni(t *testing.T) {
	if _, err := patroni.Find(); err != nil {
		t.Skip("Patroni is an own package that not every machine with PostgreSQL has: ", err)
	}
	c := newCluster(t, "--patroni")
	if text, err := c.weft("check"); err != nil || strings.Contains(text, "Patroni") {
		t.Errorf("weft check: %v: %s", err, text)
	}
	// With the settings of weft dev a Patroni that gets no processor for some seconds gives its primary up.
	for shard := range shards {
		c.configure(shard, map[string]any{"ttl": 120, "retry_timeout": 55})
	}
	c.openBank()
	w := startWork(t, c.listen)
	w.goesOn()
	c.awaitStandby(1)
	before, timelines := c.primary(1), c.primary(0).Timeline+c.primary(1).Timeline
	if text, err := c.weft("switchover", "shard-1", "--to", before.Address); err == nil || !strings.Contains(text, "is the primary already") {
		t.Errorf("to the primary: %v: %s", err, text)
	}
	text, err := c.weft("switchover", "shard-1", "--wait", "60s", "--for", "4m")
	if err != nil {
		t.Fatalf("switchover: %v: %s", err, text)
	}
	t.Log(text)
	if now := c.primary(1); now.Address == before.Address {
		t.Errorf("%s is the primary still", now.Address)
	}
	w.goesOn()
	w.stop()
	for _, e := range w.errors {
		t.Error(e)
	}
	if n := c.primary(0).Timeline + c.primary(1).Timeline - timelines; n != 1 {
		t.Errorf("primaries have changed %d times", n)
	}
	if strings.Contains(c.out.String(), "the servers of a shard are not found") {
		t.Error("the proxy does not find the servers that Patroni runs")
	}
	c.hooks(1)
	if got := c.mustAsk("select sum(balance) from account"); got != fmt.Sprint(accounts*funds) {
		t.Errorf("the accounts hold %s", got)
	}
}

// hooks lets Patroni run weft fence before it promotes, and weft drain before it stops a server, and makes it do both.
func (c *cluster) hooks(shard int) {
	c.t.Helper()
	name, dir := fmt.Sprintf("shard-%d", shard), filepath.Join(c.dir, "patroni") // where Patroni's user may read and write
	program, config := filepath.Join(dir, "weft"), filepath.Join(dir, "weft.yaml")
	for to, from := range map[string]string{program: c.program, config: filepath.Join(c.dir, "weft.yaml")} {
		if err := os.WriteFile(to, []byte(read(from)), 0o755); err != nil {
			c.t.Fatal(err)
		}
	}
	hook := func(what, command string) (run, said string) {
		said = filepath.Join(dir, what)
		script := filepath.Join(dir, what+".sh")
		text := fmt.Sprintf("#!/bin/sh\n%s %s -c %s >> %s 2>&1\nstatus=$?\necho exit $status >> %[4]s\nexit $status\n", program, command, config, said)
		if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
			c.t.Fatal(err)
		}
		return script, said
	}
	fence, fenced := hook("fence", "fence --shard "+name+" --wait 60s --on-timeout refuse")
	drain, drained := hook("drain", "drain "+name+" --wait 60s --for 2m")
	c.configure(shard, map[string]any{"postgresql": map[string]any{"pre_promote": fence, "before_stop": drain}})
	c.t.Cleanup(func() {
		if c.t.Failed() {
			c.t.Logf("the hooks said: %s%s", read(fenced), read(drained))
		}
	})
	c.awaitStandby(shard)
	c.killPrimary(shard)
	if text := read(fenced); !strings.Contains(text, "have let go") || !strings.Contains(text, "exit 0") {
		c.t.Errorf("Patroni has promoted a server, and weft fence said: %s", text)
	}
	c.mustAsk("select count(*) from account")

	c.awaitStandby(shard)
	old := c.primary(shard)
	c.order("switch", shard)
	await(c.t, "another primary", func() bool { return c.primary(shard).Address != old.Address })
	if text := read(fenced); strings.Count(text, "exit 0") != 2 {
		c.t.Errorf("after a switchover: %s", text)
	}
	// Patroni before 3.1 has no hook for the stop of a primary, and runs none.
	if text := read(drained); text != "" && !strings.Contains(text, "is drained") {
		c.t.Errorf("weft drain said: %s", text)
	}
	c.mustAsk("select count(*) from account")
}

func read(path string) string {
	text, _ := os.ReadFile(path) // a file that is not there has no text
	return string(text)
}

// configure changes the settings of Patroni that all servers of a shard share, and waits until they have them.
func (c *cluster) configure(shard int, settings map[string]any) {
	c.t.Helper()
	text, err := json.Marshal(settings)
	if err != nil {
		c.t.Fatal(err)
	}
	servers := c.servers(shard)
	await(c.t, "Patroni takes settings", func() bool {
		req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPatch, "http://"+c.patroniOf(servers[0]).REST.Listen+"/config", bytes.NewReader(text))
		if err != nil {
			c.t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode == http.StatusOK
	})
	for _, s := range servers {
		await(c.t, s.Address+" has the settings", func() bool {
			var now map[string]any
			if json.Unmarshal([]byte(read(filepath.Join(s.Dir, "patroni.dynamic.json"))), &now) != nil {
				return false
			}
			return contains(now, settings)
		})
	}
}

// contains reports whether settings have those that were changed.
func contains(now, changed map[string]any) bool {
	for name, want := range changed {
		inner, nested := want.(map[string]any)
		got, _ := now[name].(map[string]any)
		if nested && !contains(got, inner) || !nested && fmt.Sprint(now[name]) != fmt.Sprint(want) {
			return false
		}
	}
	return true
}
