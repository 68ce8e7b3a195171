package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// module is something that is linked into weft.
type module struct {
	path, version string
	licences      []licence
	notice        string // of the module's own NOTICE file
}

func (m module) title() string { return strings.TrimSpace(m.path + " " + m.version) }

// licence is one text that a module is under.
type licence struct {
	name       string // as SPDX calls it; a text may hold several
	copyrights []string
	text       string
}

// linked returns the modules of ./cmd/weft in the order of their paths, Go's own library first.
func linked(root string) ([]module, error) {
	library, err := standardLibrary(root)
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{}
	var out []module
	for _, arch := range []string{"amd64", "arm64"} {
		cmd := exec.Command("go", "list", "-deps", "-json=Module", "./cmd/weft")
		cmd.Dir, cmd.Stderr = root, os.Stderr
		cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=1", "GOPROXY=off")
		list, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		for d := json.NewDecoder(bytes.NewReader(list)); ; {
			var p struct {
				Module *struct {
					Path, Version, Dir string
					Main               bool
				}
			}
			if err := d.Decode(&p); err == io.EOF {
				break
			} else if err != nil {
				return nil, err
			}
			if p.Module == nil || p.Module.Main || dirs[p.Module.Path] != "" {
				continue
			}
			dirs[p.Module.Path] = p.Module.Dir
			out = append(out, module{path: p.Module.Path, version: p.Module.Version})
		}
	}
	slices.SortFunc(out, func(a, b module) int { return strings.Compare(a.path, b.path) })
	for i := range out {
		if err := out[i].read(dirs[out[i].path]); err != nil {
			return nil, fmt.Errorf("%s: %w", out[i].title(), err)
		}
	}
	copied, err := copies(root)
	return append(append([]module{library}, out...), copied...), err
}

// copied are the directories of files of others that are in this repository, and in the binary.
var copied = []struct{ path, version, dir string }{
	{"uPlot", "1.6.32", "dashboard/static/uplot"},
}

// copies returns what is copied into this repository.
func copies(root string) ([]module, error) {
	var out []module
	for _, c := range copied {
		m := module{path: c.path, version: c.version}
		if err := m.read(filepath.Join(root, c.dir)); err != nil {
			return nil, fmt.Errorf("%s: %w", m.title(), err)
		}
		out = append(out, m)
	}
	return out, nil
}

// standardLibrary is what Go itself puts into every program. NOTICE does not name its version: the same
// source is built by several.
func standardLibrary(root string) (module, error) {
	cmd := exec.Command("go", "env", "GOROOT")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return module{}, fmt.Errorf("go env: %w", err)
	}
	m := module{path: "Go's standard library and runtime"}
	dir := strings.TrimSpace(string(out))
	if _, err := os.Stat(filepath.Join(dir, "LICENSE")); err != nil {
		dir = filepath.Dir(dir) // distributions put it beside or above
	}
	return m, m.read(dir)
}

// embedded are the sources of others inside a module whose licence is a comment in a file of theirs.
var embedded = map[string][]string{
	"github.com/pganalyze/pg_query_go/v6": {"parser/include/protobuf-c.h", "parser/xxhash.c"},
}

// read finds the licences and the notice in the directory of a module.
func (m *module) read(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		upper := strings.ToUpper(e.Name())
		legal := strings.HasPrefix(upper, "LICENSE") || strings.HasPrefix(upper, "LICENCE") || strings.HasPrefix(upper, "COPYING")
		own := strings.HasPrefix(upper, "NOTICE")
		if e.IsDir() || !legal && !own {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		if own {
			m.notice = string(data)
			continue
		}
		l, err := read(string(data))
		if err != nil {
			return fmt.Errorf("%s: %w", e.Name(), err)
		}
		m.licences = append(m.licences, l)
	}
	for _, name := range embedded[m.path] {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		l, err := read(firstComment(string(data)))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		m.licences = append(m.licences, l)
	}
	if len(m.licences) == 0 {
		return errors.New("no licence found")
	}
	return nil
}

// firstComment returns what the first comment of a C file says.
func firstComment(source string) string {
	_, text, _ := strings.Cut(source, "/*")
	text, _, _ = strings.Cut(text, "*/")
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(l), "*"), " ")
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// marks are words by which a licence is known. The three clauses of BSD contain the two, so they come first.
var marks = []struct {
	name  string
	words []string
}{
	{"Apache-2.0", []string{"apache license", "version 2.0"}},
	{"MPL-2.0", []string{"mozilla public license"}},
	{"GPL", []string{"gnu general public license"}},
	{"LGPL", []string{"gnu lesser general public license"}},
	{"AGPL", []string{"gnu affero general public license"}},
	{"BSD-3-Clause", []string{"redistributions in binary form", "neither the name"}},
	{"BSD-3-Clause", []string{"redistributions in binary form", "names of its contributors may not be used"}},
	{"BSD-2-Clause", []string{"redistributions in binary form"}},
	{"PostgreSQL", []string{"university of california", "without a written agreement"}},
	{"MIT", []string{"permission is hereby granted, free of charge"}},
	{"ISC", []string{"permission to use, copy, modify, and/or distribute"}},
}

// allowed are licences that a program under Apache-2.0 may contain without a duty beyond notices.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "PostgreSQL"}

var (
	space = regexp.MustCompile(`\s+`)
	// A line that claims something, not one of a licence's own text about copyright.
	claim = regexp.MustCompile(`(?i)^(portions )?copyright\s+(\(c\)|©|\d|20|the )`)
)

// read recognises the text of a licence.
func read(text string) (licence, error) {
	l := licence{text: text}
	flat := strings.ToLower(space.ReplaceAllString(text, " "))
	var names []string
	for _, m := range marks {
		found := !slices.ContainsFunc(m.words, func(w string) bool { return !strings.Contains(flat, w) })
		if !found || slices.Contains(names, m.name) || m.name == "BSD-2-Clause" && slices.Contains(names, "BSD-3-Clause") {
			continue
		}
		if !slices.Contains(allowed, m.name) {
			return l, fmt.Errorf("%s is not an allowed licence", m.name)
		}
		names = append(names, m.name)
	}
	if names == nil {
		return l, errors.New("no licence that is known")
	}
	l.name = strings.Join(names, " AND ")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		// The form at the end of Apache's text is nobody's claim.
		if claim.MatchString(line) && !strings.Contains(line, "[yyyy]") && !strings.Contains(line, "{yyyy}") && !slices.Contains(l.copyrights, line) {
			l.copyrights = append(l.copyrights, line)
		}
	}
	return l, nil
}
