package crash

import (
	"fmt"
	"os"
	program "os/exec"
	"strings"
	"testing"

	"weft/integration/harness"
)

// inNamespace is set in the process that has a network of its own.
const inNamespace = "WEFT_TEST_NAMESPACE"

// TestPartition cuts a shard off in each phase of a commit as a router does that loses
// packets: nobody is told. It runs in a network namespace of its own, where the way to
// each shard has an address of its own.
func TestPartition(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		together(t)
		enterNamespace(t)
		return
	}
	ip(t, "link", "set", "lo", "up")
	host := func(shard int) string { return fmt.Sprintf("127.0.0.%d", 10+shard) }
	net := newNetwork(t, "c_partition", host)
	for i, phase := range phases {
		if *rounds == 1 && i%2 != int(*seed)%2 {
			continue // in short, one of two
		}
		for _, before := range []bool{true, false} {
			t.Run(fmt.Sprintf("%.14s/before %t", phase, before), func(t *testing.T) {
				route := func(verb string) func(int) {
					return func(shard int) { ip(t, "route", verb, "blackhole", host(shard)+"/32", "table", "local") }
				}
				net.try(t, phase, before, while, route("add"), route("del"))
			})
		}
	}
}

// enterNamespace runs the test once more, in a namespace of its own.
func enterNamespace(t *testing.T) {
	for _, name := range []string{"unshare", "ip"} {
		if _, err := program.LookPath(name); err != nil {
			t.Skipf("needs %s: %v", name, err)
		}
	}
	if out, err := program.Command("unshare", "-n", "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Skipf("a network namespace cannot be made here: %v %s", err, out)
	}
	args := []string{"-n", os.Args[0], "-test.run=^TestPartition$", "-test.v", fmt.Sprint("-rounds=", *rounds), fmt.Sprint("-seed=", *seed)}
	cmd := program.Command("unshare", args...)
	cmd.Env = append(os.Environ(), inNamespace+"=1", harness.ProgramEnv(t))
	out, err := cmd.CombinedOutput()
	text := string(out)
	if err != nil || !strings.Contains(text, "PASS") || strings.Contains(text, "SKIP") {
		t.Fatalf("%v\n%s", err, text)
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "told") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := program.Command("ip", args...).CombinedOutput(); err != nil {
		t.Errorf("ip %s: %v %s", strings.Join(args, " "), err, out)
	}
}
