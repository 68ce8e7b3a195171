package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weft/directory/embedded"
	"weft/pgserver"
	"weft/pgserver/pgtest"
)

// weft runs a command line in this process.
func weft(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// succeed runs a command line that must work, and returns what it printed.
func succeed(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := weft(t, args...)
	if code != 0 || errs != "" {
		t.Fatalf("weft %s: exit code %d, stderr %q, stdout %q", strings.Join(args, " "), code, errs, out)
	}
	return out
}

// unasked takes out of stderr what is said of servers that are not there.
func unasked(errs string) string {
	return regexp.MustCompile(`(?m)^warning: \w+ at \S+ does not say whose it is: .*connection refused; proxies ask before they use it\n`).ReplaceAllString(errs, "")
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func testEtcd(t *testing.T, listen string) *embedded.Server {
	t.Helper()
	e, err := embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir(), Listen: listen, Log: slog.New(slog.DiscardHandler), NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() }) // a second Close does no harm
	return e
}

func TestMistakes(t *testing.T) {
	bad := write(t, "weft.yaml", "etcd: {endpoints: ['127.0.0.1:2379']}\npools: {}\nlisten: x\n")
	for line, want := range map[string]string{
		"serv":                                  `there is no command "serv"; did you mean dev or serve?`,
		"zzz":                                   `there is no command "zzz"`,
		"serve --zzz":                           "unknown flag: --zzz",
		"serve now":                             `"now" is one word too many`,
		"serve -c /none.yaml":                   "config/example.yaml",
		"serve -c " + bad:                       "weft.yaml:2:1: pools: unknown key; did you mean pool?",
		"check":                                 "what to check?",
		"completion":                            "for which shell? bash, zsh, fish",
		"completion tcsh":                       `"tcsh" is not one of bash, zsh, fish`,
		"completion bash zsh":                   `"zsh" is one word too many`,
		"manual":                                "into which directory?",
		"apply":                                 "-f cluster.yaml",
		"apply -f /none.yaml":                   "/none.yaml: no such file",
		"status":                                "where is the directory?",
		"advise":                                "which application?",
		"advise --from x --schema y --shards 2": "leave out --schema",
		"advise -c a --from x":                  "give one of them",
		"advise --from x":                       "how many shards?",
		"advise --from x --shards 1":            "want 2 to 4096",
		"advise --schema x --shards 2":          "which statements?",
		"advise --schema x --shards 2 --log a --statements b": "give one of them",
		"advise -c a --log x":                               "leave out --log",
		"advise --schema /none --statements x --shards 2":   "/none: no such file",
		"advise --from postgres://127.0.0.1:1/x --shards 2": "--from: failed to connect",
		"dev zzz":                   "kill, switch, freeze or thaw",
		"dev --replicas 4":          "--replicas: 4 is not from 0 to 3",
		"dev kill":                  "which shard?",
		"dev switch a b":            `"b" is one word too many`,
		"dev thaw a --dir /none":    "no weft dev is running in /none",
		"move":                      "which buckets? give --buckets",
		"move --buckets 1":          "to which shard? give --to",
		"move --buckets 1 --to s":   "through which proxy",
		"rebalance":                 "through which proxy",
		"rebalance --wait":          "--wait needs --apply",
		"grow-buckets":              "how many buckets?",
		"grow-buckets 8 9":          `"9" is one word too many`,
		"grow-buckets 8":            "through which proxy",
		"shard zzz":                 "add, drain, remove, list, accept or reset",
		"shard add":                 "which shard?",
		"shard add s":               "which server? give host:port",
		"shard add s h:1 x":         `"x" is one word too many`,
		"shard add s h:1":           "through which proxy",
		"shard drain":               "which shard?",
		"shard remove":              "which shard?",
		"shard list x":              `"x" is one word too many`,
		"shard list --proxy u://%z": "--proxy: cannot parse",
		"status --etcd x":           `etcd.endpoints[0]: "x" is not host:port`,
		"status -c a --etcd b":      "leave out --etcd",
		"status -c a --cluster b":   "leave out --etcd and --cluster",
		"status --etcd 127.0.0.1:1": "the directory is unavailable: etcd 127.0.0.1:1",
	} {
		code, out, errs := weft(t, strings.Fields(line)...)
		if code != 1 || !strings.Contains(errs, want) || out != "" {
			t.Errorf("weft %s: exit code %d\nstderr %s\nstdout %s\nwant %s", line, code, errs, out, want)
		}
	}
}

var rewrite = flag.Bool("rewrite", false, "write the texts of --help in testdata/help anew")

// TestHelpTexts holds what --help says of the commands that move, copy and restore rows to testdata/help.
func TestHelpTexts(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range documented(rootCommand()) {
		words := strings.Fields(c.CommandPath())[1:]
		if len(words) == 0 || !slices.Contains([]string{"dev", "move", "rebalance", "grow-buckets", "shard", "import", "backup", "restore"}, words[0]) {
			continue
		}
		file := filepath.Join("testdata", "help", pageName(c)+".txt")
		seen[filepath.Base(file)] = true
		got := succeed(t, append(words, "--help")...)
		if *rewrite {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(file); err != nil || string(want) != got {
			t.Errorf("weft %s --help is not what %s says, -rewrite writes it anew: %v\n%s", strings.Join(words, " "), file, err, got)
		}
	}
	files, err := os.ReadDir(filepath.Join("testdata", "help"))
	if err != nil || len(files) != len(seen) {
		t.Errorf("%d files for %d commands, %v", len(files), len(seen), err)
	}
}

func TestHelp(t *testing.T) {
	root := rootCommand()
	for _, c := range documented(root)[1:] {
		out := succeed(t, append(strings.Fields(c.CommandPath())[1:], "--help")...)
		if !strings.Contains(out, "Examples:\n  "+c.CommandPath()) && !strings.Contains(out, "\n  "+c.CommandPath()) {
			t.Errorf("%s --help has no example:\n%s", c.CommandPath(), out)
		}
	}
	if out := succeed(t); !strings.Contains(out, "weft dev") {
		t.Errorf("weft alone printed\n%s", out)
	}
	if out := succeed(t, "version"); !strings.HasPrefix(out, "weft ") {
		t.Errorf("weft version printed %s", out)
	}
}

func TestCheck(t *testing.T) {
	good := write(t, "weft.yaml", "etcd: {endpoints: ['127.0.0.1:2379']}\nauth: {users: [{name: a, password: 'env:WEFT_TEST_PASSWORD'}]}\n")
	t.Setenv("WEFT_TEST_PASSWORD", "secret")
	if out := succeed(t, "check", "--offline", "-c", good); out != "ok\n" {
		t.Errorf("printed %q", out)
	}
	// What the file refers to must be there, and be right.
	for value, want := range map[string]string{
		"":                "auth.users[0].password: the environment variable WEFT_TEST_PASSWORD is not set",
		"SCRAM-SHA-256$x": `user "a": password`,
	} {
		t.Setenv("WEFT_TEST_PASSWORD", value)
		if code, out, errs := weft(t, "check", "-c", good); code != 1 || !strings.Contains(out, want) || errs != "" {
			t.Errorf("password %q: exit code %d, %q, %q", value, code, out, errs)
		}
	}
	files := write(t, "weft.yaml", "etcd: {endpoints: ['127.0.0.1:2379'], tls: {ca: /none/ca}}\ntls: {cert: /none/cert, key: /none/key}\n")
	code, out, _ := weft(t, "check", "-c", files)
	if code != 1 || !strings.Contains(out, "tls: open /none/cert") || !strings.Contains(out, "etcd.tls.ca: open /none/ca") {
		t.Errorf("missing files: exit code %d, %s", code, out)
	}
	bad := write(t, "cluster.yaml", "shards:\n- {name: A, hosts: ['a']}\n")
	code, out, _ = weft(t, "check", "-f", bad)
	if code != 1 || !strings.Contains(out, "cluster.yaml:2:4: shards[0].name:") || !strings.Contains(out, "cluster.yaml:2:21: shards[0].hosts[0]:") {
		t.Errorf("cluster.yaml: exit code %d, %s", code, out)
	}
}

func TestApplyAndStatus(t *testing.T) {
	e := testEtcd(t, "127.0.0.1:0")
	// One host answers, the other does not.
	up, down := pgtest.Start(t, pgserver.Config{}).Addr(), "127.0.0.1:1"
	config := write(t, "weft.yaml", "cluster: shop\netcd: {endpoints: ['"+e.Endpoint()+"']}\n"+
		"auth: {users: [{name: a, password: 'env:NOT_SET_HERE'}]}\n") // not needed by these commands
	at := []string{"-c", config}
	apply := func(text string, more ...string) (int, string, string) {
		t.Helper()
		return weft(t, append(append([]string{"apply", "-f", write(t, "cluster.yaml", text)}, at...), more...)...)
	}
	expect := func(text, want string, more ...string) {
		t.Helper()
		code, out, errs := apply(text, more...)
		out = regexp.MustCompile(`cluster [0-9a-f]{16}|version \d+`).ReplaceAllStringFunc(out, func(s string) string { return strings.Fields(s)[0] + " N" })
		if code != 0 || unasked(errs) != "" || out != want {
			t.Errorf("exit code %d, stderr %q\n got %s\nwant %s", code, errs, out, want)
		}
	}
	if code, _, errs := weft(t, append([]string{"status"}, at...)...); code != 1 || !strings.Contains(errs, "weft apply") {
		t.Errorf("status without a cluster: %d %q", code, errs)
	}

	two := "bucket_count: 64\nshards:\n- {name: a, hosts: ['" + up + "', '" + down + "'], options: {sslmode: disable, sslpassword: hush}}\n- {name: b, hosts: ['127.0.0.1:2']}\n"
	created := "+ cluster N, 64 buckets, home a\n+ shard a " + up + "," + down + " sslmode=disable sslpassword=***\n+ shard b 127.0.0.1:2\n"
	expect(two, created+"not applied: this was a dry run\n", "--dry-run")
	expect(two, created+"applied: the cluster is at version N\n")
	expect(two, "nothing to change\n")
	expect(two, "nothing to change\n", "--dry-run")

	one := strings.Join(strings.SplitAfter(two, "\n")[:3], "")
	if code, _, errs := apply(one); code != 1 || !strings.Contains(errs, "--prune") {
		t.Errorf("without --prune: %d %q", code, errs)
	}
	for text, want := range map[string]string{
		strings.Replace(two, "64", "128", 1): "bucket_count: the cluster has 64, not 128: weft grow-buckets makes more of them",
		"home: b\n" + two:                    "home: cannot move from a to b",
	} {
		for _, flag := range []string{"--dry-run", "--dry-run=false"} {
			if code, _, errs := apply(text, flag); code != 1 || !strings.Contains(errs, want) {
				t.Errorf("%s: %d %q", want, code, errs)
			}
		}
	}
	expect(one, "- shard b 127.0.0.1:2\n~ placement: 32 of 64 buckets move\napplied: the cluster is at version N\n", "--prune")

	out := succeed(t, "status", "--etcd", e.Endpoint(), "--cluster", "shop")
	for _, want := range []string{
		`(?m)^cluster [0-9a-f]{16}, version \d+, 64 buckets, home a$`,
		`(?m)^a +` + up + ` +primary +primary +1 +1 +64 +100.0% +sslmode=disable sslpassword=\*\*\*$`,
		`(?m)^ +` + down + ` +silent *$`,
		`(?m)^! ` + down + ` of shard a refuses connections$`,
		`(?m)^  Start it or let weft log in there`,
		`(?m)^no table is declared`,
		`(?m)^no proxy is running`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("status has no %s:\n%s", want, out)
		}
	}
	var st status
	if err := json.Unmarshal([]byte(succeed(t, append([]string{"status", "--json"}, at...)...)), &st); err != nil {
		t.Fatal(err)
	}
	if len(st.Shards) != 1 || len(st.Shards[0].Hosts) != 2 || st.Shards[0].Hosts[0].Error != "" || st.Shards[0].Hosts[1].Error == "" || st.Shards[0].Options["sslpassword"] != "***" {
		t.Errorf("status --json: %+v", st)
	}
}
