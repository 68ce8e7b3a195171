package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Every command has a manual page with all its flags, and shells complete all of them.
func TestManualAndCompletion(t *testing.T) {
	dir := t.TempDir()
	succeed(t, "manual", dir)
	commands, seen := documented(rootCommand()), 0
	for _, c := range commands {
		data, err := os.ReadFile(filepath.Join(dir, pageName(c)+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		text := string(data)
		for _, want := range []string{c.Short, c.Example} {
			for line := range strings.Lines(want) {
				if !strings.Contains(text, roff(strings.TrimRight(line, "\n"))) {
					t.Errorf("%s: no %q", pageName(c), line)
				}
			}
		}
		words := strings.Fields(c.CommandPath())[1:]
		offered := succeedComplete(t, append(append([]string{}, words...), "--")...)
		for _, f := range flags(c) {
			seen++
			if !strings.Contains(text, roff("--"+f.Name)) || f.Shorthand != "" && !strings.Contains(text, roff("-"+f.Shorthand+", --"+f.Name)) {
				t.Errorf("%s: no --%s", pageName(c), f.Name)
			}
			if !strings.Contains("\n"+offered, "\n--"+f.Name+"\t") && !strings.Contains("\n"+offered, "\n--"+f.Name+"=\t") {
				t.Errorf("%s: --%s is not completed:\n%s", c.CommandPath(), f.Name, offered)
			}
		}
		if len(words) > 0 && !strings.Contains("\n"+succeedComplete(t, words[0][:1]), "\n"+words[0]+"\t") {
			t.Errorf("%s is not completed", c.CommandPath())
		}
		if !strings.Contains(string(read(t, filepath.Join(dir, "weft.1"))), roff(pageName(c))) {
			t.Errorf("weft.1 does not name %s", pageName(c))
		}
	}
	if files, _ := os.ReadDir(dir); len(files) != len(commands) || seen < 30 {
		t.Errorf("%d pages of %d commands, %d flags", len(files), len(commands), seen)
	}
	if offered := succeedComplete(t, "completion", ""); !strings.Contains(offered, "bash\nzsh\nfish\n") {
		t.Errorf("shells that are offered: %s", offered)
	}
}

// succeedComplete returns what a shell that asks weft may offer after the words.
func succeedComplete(t *testing.T, words ...string) string {
	t.Helper()
	code, out, errs := weft(t, append([]string{"__complete"}, words...)...)
	if code != 0 {
		t.Fatalf("%v: exit code %d, %s", words, code, errs)
	}
	return out
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Programs that read pages and scripts find nothing wrong with them, where they are installed.
func TestManualIsReadable(t *testing.T) {
	dir := t.TempDir()
	succeed(t, "manual", dir)
	t.Run("man", func(t *testing.T) {
		if _, err := exec.LookPath("groff"); err != nil {
			t.Skip("groff is not installed")
		}
		for _, c := range documented(rootCommand()) {
			var out, errs bytes.Buffer
			cmd := exec.Command("groff", "-man", "-Kutf8", "-Tutf8", "-ww", "-rLL=200n", "-P-cbou", filepath.Join(dir, pageName(c)+".1"))
			cmd.Stdout, cmd.Stderr = &out, &errs
			if err := cmd.Run(); err != nil || errs.Len() > 0 {
				t.Errorf("%s: %v %s", pageName(c), err, &errs)
			}
			for _, f := range flags(c) {
				if !strings.Contains(out.String(), "--"+f.Name) {
					t.Errorf("%s: --%s cannot be read", pageName(c), f.Name)
				}
			}
		}
	})
	for _, shell := range shells {
		t.Run(shell, func(t *testing.T) {
			if _, err := exec.LookPath(shell); err != nil {
				t.Skip(shell + " is not installed")
			}
			file := write(t, "weft."+shell, succeed(t, "completion", shell))
			if out, err := exec.Command(shell, "-n", file).CombinedOutput(); err != nil {
				t.Errorf("%v %s", err, out)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	defer func(v string) { version = v }(version)
	if out := succeed(t, "version"); !strings.HasPrefix(out, "weft devel") {
		t.Errorf("without a version from the build: %s", out)
	}
	version = "v1.2.3"
	out := succeed(t, "version")
	if !strings.HasPrefix(out, "weft v1.2.3 (go") {
		t.Errorf("weft version: %s", out)
	}
	if flag := succeed(t, "--version"); flag != out {
		t.Errorf("weft --version: %s", flag)
	}
}
