// Package docs_test holds the pages against the code they speak of.
package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"weft/config"
	"weft/explain"
)

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// tableRow finds the keys and defaults of configuration.md.
var tableRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|([^|]*)\\|")

// Every key that weft reads is in configuration.md, with its default, and no
// other is.
func TestConfiguration(t *testing.T) {
	page := read(t, "configuration.md")
	documented := map[string]string{}
	for _, m := range tableRow.FindAllStringSubmatch(page, -1) {
		if _, twice := documented[m[1]]; twice {
			t.Errorf("%s is documented twice", m[1])
		}
		documented[m[1]] = strings.Trim(m[2], "` ")
	}
	known := map[string]string{}
	keys(reflect.ValueOf(config.Default()), "", known)
	keys(reflect.ValueOf(config.Cluster{}), "", known)
	// Defaults that are made when a cluster is, not when the file is read.
	known["bucket_count"], known["home"], known["shards[].weight"] = "4096", "the first shard", "1"
	for key, def := range known {
		got, ok := documented[key]
		if !ok {
			t.Errorf("%s is not documented", key)
		} else if got != def {
			t.Errorf("%s: the page says the default is %q, it is %q", key, got, def)
		}
	}
	for key := range documented {
		if _, ok := known[key]; !ok {
			t.Errorf("%s is documented, but weft does not know it", key)
		}
	}
}

// keys collects the keys below v with their values as a file would have them.
func keys(v reflect.Value, path string, into map[string]string) {
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		if name == "" || name == "-" {
			continue
		}
		f, key := v.Field(i), path+name
		switch {
		case f.Kind() == reflect.Struct:
			keys(f, key+".", into)
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct:
			keys(reflect.Zero(f.Type().Elem()), key+"[].", into)
		default:
			into[key] = value(f)
		}
	}
}

func value(v reflect.Value) string {
	if (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && v.IsNil() {
		return ""
	}
	switch x := v.Interface().(type) {
	case time.Duration:
		// 10m0s is written 10m.
		s := x.String()
		if strings.HasSuffix(s, "m0s") {
			s = strings.TrimSuffix(s, "0s")
		}
		if strings.HasSuffix(s, "h0m") {
			s = strings.TrimSuffix(s, "0m")
		}
		return s
	case fmt.Stringer:
		return x.String()
	case bool, int, string:
		return fmt.Sprint(x)
	}
	switch v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Slice, reflect.Map, reflect.Pointer:
		if v.IsZero() {
			return ""
		}
	}
	return fmt.Sprintf("a value of type %s", v.Type())
}

// Every package is in ARCHITECTURE.md, and what is listed there exists.
func TestPackages(t *testing.T) {
	page := read(t, "../ARCHITECTURE.md")
	ignored := strings.Fields(read(t, "../.gitignore"))
	err := filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		pkg := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
		if slices.Contains(ignored, "/"+pkg+"/") || strings.HasPrefix(pkg, ".") && pkg != ".." || e.Name() == "testdata" {
			return fs.SkipDir
		}
		if pkg == ".." { // the rules about all packages are no package to look into
			return nil
		}
		if files, _ := filepath.Glob(filepath.Join(path, "*.go")); len(files) > 0 && !strings.Contains(page, "`"+pkg+"`") {
			t.Errorf("ARCHITECTURE.md does not name the package %s", pkg)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	_, table, _ := strings.Cut(page, "## Packages")
	table, _, _ = strings.Cut(table, "\n## ")
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(table, -1) {
		if _, err := os.Stat(filepath.Join("..", m[1])); err != nil {
			t.Error(err)
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	// A file of this repository, as prose names it.
	source = regexp.MustCompile("`((?:[a-z]+/)+[a-z_0-9]+\\.(?:go|md|yaml|yml))`")
)

// Links between pages lead somewhere, and files that are named exist.
func TestLinks(t *testing.T) {
	for _, page := range pages(t) {
		text := read(t, page)
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := filepath.Join(filepath.Dir(page), file)
			if file == "" {
				target = page
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s: %v", page, m[1], err)
			} else if anchor != "" && !slices.Contains(anchors(read(t, target)), anchor) {
				t.Errorf("%s: %s: no such heading", page, m[1])
			}
		}
		for _, m := range source.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join("..", m[1])); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
}

// anchors returns the names that GitHub gives to the headings of a page.
func anchors(text string) []string {
	var out []string
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z':
				return r
			}
			return -1
		}, strings.ToLower(m[1]))
		out = append(out, name)
	}
	return out
}

// Every page is on the map.
func TestMap(t *testing.T) {
	text := read(t, "README.md")
	for _, page := range pages(t) {
		name := filepath.ToSlash(page)
		if name == "README.md" || strings.HasPrefix(name, "../") || strings.HasPrefix(name, "decisions/0") {
			continue
		}
		if !strings.Contains(text, "]("+name+")") {
			t.Errorf("docs/README.md does not lead to %s", name)
		}
	}
}

// Every key of the JSON that EXPLAIN answers with is in queries.md.
func TestExplainKeys(t *testing.T) {
	page := read(t, "queries.md")
	seen := map[reflect.Type]bool{}
	n := 0
	var visit func(typ reflect.Type)
	visit = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || seen[typ] {
			return
		}
		seen[typ] = true
		for i := range typ.NumField() {
			f := typ.Field(i)
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if key == "" {
				continue
			}
			n++
			if !strings.Contains(page, "`"+key+"`") {
				t.Errorf("%s of %s is not documented", key, typ)
			}
			visit(f.Type)
		}
	}
	visit(reflect.TypeFor[explain.Report]())
	if n < 30 {
		t.Errorf("only %d keys found", n)
	}
}

// Every decision is in the table, under its number, and every number without one is named below it.
func TestDecisions(t *testing.T) {
	page := read(t, "decisions/README.md")
	files, err := filepath.Glob("decisions/0*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d decisions, %v", len(files), err)
	}
	have, last := map[string]bool{}, ""
	for _, file := range files {
		name := filepath.Base(file)
		number, _, _ := strings.Cut(name, "-")
		if have[number] {
			t.Errorf("two decisions are %s", number)
		}
		have[number], last = true, max(last, number)
		if !strings.Contains(page, "\n| ["+number+"]("+name+") | ") {
			t.Errorf("%s is not in the table", name)
		}
		if text := read(t, file); !strings.HasPrefix(text, "# "+number+": ") {
			t.Errorf("%s does not begin with its number", name)
		}
	}
	_, below, _ := strings.Cut(page, "No record has ever had")
	for n := 1; fmt.Sprintf("%04d", n) < last; n++ {
		if number := fmt.Sprintf("%04d", n); have[number] == strings.Contains(below, number) {
			t.Errorf("a decision %s: %v; named as missing: %v", number, have[number], have[number])
		}
	}
}

// Every package has an owner of its own, and every line of CODEOWNERS a path that is there.
func TestOwners(t *testing.T) {
	owned := map[string]bool{}
	for line := range strings.Lines(read(t, "../.github/CODEOWNERS")) {
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(line, "#") || f[0] == "*" {
			continue
		}
		if len(f) != 2 || !strings.HasPrefix(f[1], "@weft/") {
			t.Errorf("not a path and a team: %s", line)
		}
		if _, err := os.Stat(filepath.Join("..", f[0])); err != nil {
			t.Error(err)
		}
		owned[strings.Trim(f[0], "/")] = true
	}
	for dir := range readCode(t).dirs {
		top, _, _ := strings.Cut(dir, "/")
		if top != "." && top != "docs" && !owned[top] {
			t.Errorf("%s has no owner", top)
		}
	}
}
