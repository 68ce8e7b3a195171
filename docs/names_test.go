package docs_test

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// code is what the names in comments and pages can mean.
type code struct {
	files map[string]bool // by path from the root
	bases map[string]bool // by name alone
	dirs  map[string]*pkg // packages by directory
	named map[string][]*pkg
	words map[string]bool // every identifier, wherever it stands
	notes []note
}

// pkg is what one directory declares, its tests included.
type pkg struct {
	dir      string
	names    map[string]map[string]bool // functions, types, variables, constants, methods, fields: the files of each
	members  map[string]map[string]bool // methods and fields by type
	embedded map[string][]string        // types inside a type; one of another package has its name before it
}

// note is one comment of a Go file.
type note struct {
	pos  token.Position
	dir  string
	text string
}

// readCode parses all of weft, once for all tests.
func readCode(t *testing.T) *code {
	t.Helper()
	c, err := allCode()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var allCode = sync.OnceValues(func() (*code, error) {
	c := &code{files: map[string]bool{}, bases: map[string]bool{}, dirs: map[string]*pkg{}, named: map[string][]*pkg{}, words: map[string]bool{}}
	set := token.NewFileSet()
	err := fs.WalkDir(os.DirFS(".."), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if name != "." && (e.Name() == ".git" || name == "bin" || name == "dist" || name == "weft-dev" || e.Name() == "node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		c.files[name], c.bases[e.Name()] = true, true
		if path.Ext(name) != ".go" || strings.Contains(name, "testdata/") {
			return nil
		}
		f, err := parser.ParseFile(set, filepath.Join("..", name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		c.add(set, path.Dir(name), f)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for dir, p := range c.dirs {
		c.named[path.Base(dir)] = append(c.named[path.Base(dir)], p)
	}
	// Names that packages of the standard library share with those of weft.
	for name, dir := range map[string]string{"http": "net/http", "parser": "go/parser"} {
		c.named[name] = append(c.named[name], library(set, dir))
	}
	return c, nil
})

// library reads a package of the standard library.
func library(set *token.FileSet, dir string) *pkg {
	other := &code{dirs: map[string]*pkg{}, words: map[string]bool{}}
	files, _ := filepath.Glob(filepath.Join(build.Default.GOROOT, "src", dir, "*.go"))
	for _, file := range files {
		if f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution); err == nil && !strings.HasSuffix(file, "_test.go") {
			other.add(set, dir, f)
		}
	}
	if p := other.dirs[dir]; p != nil {
		return p
	}
	return &pkg{}
}

// add notes what a file declares and says.
func (c *code) add(set *token.FileSet, dir string, f *ast.File) {
	p := c.dirs[dir]
	if p == nil {
		p = &pkg{dir: dir, names: map[string]map[string]bool{}, members: map[string]map[string]bool{}, embedded: map[string][]string{}}
		c.dirs[dir] = p
	}
	file := path.Base(filepath.ToSlash(set.Position(f.Package).Filename))
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			p.declare(d.Name.Name, file)
			if d.Recv != nil {
				p.member(receiver(d.Recv.List[0].Type), d.Name.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					for _, n := range s.Names {
						p.declare(n.Name, file)
					}
				case *ast.TypeSpec:
					p.declare(s.Name.Name, file)
					p.member(s.Name.Name, "")
					p.fields(s.Name.Name, s.Type, file)
				}
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			c.words[id.Name] = true
		}
		return true
	})
	for _, g := range f.Comments {
		c.notes = append(c.notes, note{set.Position(g.Pos()), dir, g.Text()})
	}
}

func (p *pkg) declare(name, file string) {
	if p.names[name] == nil {
		p.names[name] = map[string]bool{}
	}
	p.names[name][file] = true
}

func (p *pkg) member(typ, name string) {
	if p.members[typ] == nil {
		p.members[typ] = map[string]bool{}
	}
	p.members[typ][name] = true
}

// fields notes the fields of a struct, the methods of an interface, and what is embedded in either.
func (p *pkg) fields(typ string, x ast.Expr, file string) {
	var list *ast.FieldList
	switch x := x.(type) {
	case *ast.StructType:
		list = x.Fields
	case *ast.InterfaceType:
		list = x.Methods
	case *ast.SelectorExpr, *ast.Ident:
		p.embedded[typ] = append(p.embedded[typ], receiver(x))
		return
	default:
		return
	}
	for _, f := range list.List {
		for _, n := range f.Names {
			p.member(typ, n.Name)
			p.declare(n.Name, file)
		}
		if len(f.Names) == 0 {
			p.embedded[typ] = append(p.embedded[typ], receiver(f.Type))
			name := receiver(f.Type)
			p.member(typ, name[strings.LastIndex(name, ".")+1:])
		}
	}
}

// receiver is the name of a type without pointer and parameters; one of another package has its name before it.
func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.SelectorExpr:
		return receiver(x.X) + "." + x.Sel.Name
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// has reports whether a type of p has a member, maybe through what is embedded. What a type of another module
// brings is believed.
func (c *code) has(p *pkg, typ, member string) bool {
	if p.members[typ][member] {
		return true
	}
	return slices.ContainsFunc(p.embedded[typ], func(e string) bool {
		from, name, other := strings.Cut(e, ".")
		if !other {
			return e != typ && c.has(p, e, member)
		}
		return c.named[from] == nil || slices.ContainsFunc(c.named[from], func(p *pkg) bool { return c.has(p, name, member) })
	})
}

var (
	// goFile is a name of a Go file, alone or with its directory.
	goFile = regexp.MustCompile(`(?:[A-Za-z0-9_.-]+/)*[A-Za-z0-9*][A-Za-z0-9_]*\.go\b`)
	// qualified is pool.Conn or pool.Conn.Release.
	qualified = regexp.MustCompile(`(?:^|[^\w./"'-])([a-z][a-z0-9]*)\.([A-Z]\w*)(?:\.([A-Za-z]\w*))?`)
	// member is Session.settle.
	member = regexp.MustCompile(`(?:^|[^\w./"'-])([A-Z]\w*)\.([A-Za-z]\w*)`)
	// camel is a word that only code has: settleParse.
	camel = regexp.MustCompile(`(?:^|[^\w./"'%\\-])([a-z]+[a-z0-9]*[A-Z]\w*)`)
)

// wrongFiles returns the files that a text names and that are not there. Those without a directory are looked for in dir.
func (c *code) wrongFiles(text, dir string) []string {
	var out []string
	for _, name := range goFile.FindAllString(text, -1) {
		switch {
		case c.files[name], c.files[path.Join(dir, name)]:
		case name == "doc.go", strings.Contains(name, "*"): // a kind of file
		case dir == "" && !strings.Contains(name, "/") && c.bases[name]:
		default:
			out = append(out, name)
		}
	}
	return out
}

// wrongNames returns the names with a package or a type before them that mean nothing. here is the package whose
// types need no package's name; without it every package's are meant.
func (c *code) wrongNames(text string, here *pkg) []string {
	var out []string
	for _, m := range qualified.FindAllStringSubmatch(text, -1) {
		ps := c.named[m[1]]
		if ps == nil {
			continue
		}
		if !slices.ContainsFunc(ps, func(p *pkg) bool {
			return p.names[m[2]] != nil && (m[3] == "" || p.members[m[2]] == nil || c.has(p, m[2], m[3]))
		}) {
			out = append(out, strings.TrimSuffix(m[1]+"."+m[2]+"."+m[3], "."))
		}
	}
	for _, m := range member.FindAllStringSubmatch(text, -1) {
		ps := []*pkg{here}
		if here == nil {
			ps = nil
			for _, p := range c.dirs {
				ps = append(ps, p)
			}
		}
		ps = slices.DeleteFunc(ps, func(p *pkg) bool { return p.members[m[1]] == nil })
		if len(ps) > 0 && !slices.ContainsFunc(ps, func(p *pkg) bool { return c.has(p, m[1], m[2]) }) {
			out = append(out, m[1]+"."+m[2])
		}
	}
	return out
}

// foreign are words in comments that look like code and are none of weft's.
var foreign = []string{
	"gRPC", "kB",
	"findOrCreate", // Sequelize's
}

// Names of files, functions, types and their members in comments exist.
func TestNamesInComments(t *testing.T) {
	c := readCode(t)
	if len(c.notes) < 5000 {
		t.Fatalf("only %d comments found", len(c.notes))
	}
	for _, n := range c.notes {
		for _, name := range c.wrongFiles(n.text, n.dir) {
			t.Errorf("%s: there is no %s", n.pos, name)
		}
		for _, name := range c.wrongNames(n.text, c.dirs[n.dir]) {
			t.Errorf("%s: there is no %s", n.pos, name)
		}
		for _, m := range camel.FindAllStringSubmatch(n.text, -1) {
			if !c.words[m[1]] && !slices.Contains(foreign, m[1]) {
				t.Errorf("%s: there is no %s", n.pos, m[1])
			}
		}
	}
}

// What is looked for is found, or nothing would be.
func TestWrongNames(t *testing.T) {
	c := readCode(t)
	here := c.dirs["pool"]
	for text, want := range map[string]string{
		"see conn.go, pool/conn.go and pool_test.go":       "",
		"see none.go, pool/none.go and wire/conn.go":       "none.go pool/none.go wire/conn.go",
		"integration/*_test.go, every doc.go":              "",
		"pool.Conn, pool.Conn.Release, wire.Stream.Fill":   "",
		"pool.None, pool.Lane.None, wire.Stream.none":      "pool.None pool.Lane.None wire.Stream.none",
		"http.Server.Serve of net/http, fmt.None, x.None":  "",
		"Conn.Release and Settings.Steps of this package":  "",
		"Lane.none, but Other.none. Lane. Release, Lane.":  "Lane.none",
		"the Stream.none of another package is not judged": "",
	} {
		got := strings.Join(append(c.wrongFiles(text, "pool"), c.wrongNames(text, here)...), " ")
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

var (
	// span is code inside a line of a page.
	span = regexp.MustCompile("`([^`\n]+)`")
	// word is a name without anything before it.
	word = regexp.MustCompile(`^[A-Za-z_]\w*$`)
	// placed are names with the file that declares them: `stillTrue` and `mayGo` (proxy/overtaken.go).
	placed = regexp.MustCompile("((?:`[\\w.]+`(?:, | and )?)+) \\(([a-z][\\w/]*\\.go)")
)

// pages returns the pages of this repository.
func pages(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, glob := range []string{"../*.md", "*.md", "*/*.md", "../examples/*.md", "../examples/*/*.md"} {
		more, err := filepath.Glob(glob)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, more...)
	}
	return out
}

// prose returns a page without its blocks of code.
func prose(text string) string {
	parts := strings.Split(text, "\n```")
	var b strings.Builder
	for i := 0; i < len(parts); i += 2 {
		b.WriteString(parts[i] + "\n")
	}
	return b.String()
}

// Names of files, functions, types and their members in pages exist, and those with a file's name behind them are
// declared there.
func TestNamesInPages(t *testing.T) {
	c := readCode(t)
	for _, page := range pages(t) {
		text := prose(read(t, page))
		for _, name := range c.wrongFiles(text, "") {
			t.Errorf("%s: there is no %s", page, name)
		}
		for _, m := range span.FindAllStringSubmatch(text, -1) {
			for _, name := range c.wrongNames(m[1], nil) {
				t.Errorf("%s: there is no %s", page, name)
			}
		}
		for _, m := range placed.FindAllStringSubmatch(text, -1) {
			for _, n := range span.FindAllStringSubmatch(m[1], -1) {
				name := n[1][strings.LastIndex(n[1], ".")+1:]
				if p := c.dirs[path.Dir(m[2])]; p != nil && !p.names[name][path.Base(m[2])] {
					t.Errorf("%s: %s is not in %s", page, n[1], m[2])
				}
			}
		}
	}
}

// dotted is a name after that of its package, its type or both.
var dotted = regexp.MustCompile(`^([A-Za-z]\w*)\.([A-Za-z]\w*)(?:\.([A-Za-z]\w*))?$`)

// ARCHITECTURE.md and CONTRIBUTING.md speak of code: every word that stands there as code means something.
func TestNamesInTheTour(t *testing.T) {
	c := readCode(t)
	for _, page := range []string{"ARCHITECTURE.md", "CONTRIBUTING.md"} {
		text, n := prose(read(t, "../"+page)), 0
		for _, m := range span.FindAllStringSubmatch(text, -1) {
			if d := dotted.FindStringSubmatch(m[1]); d != nil && path.Ext(m[1]) != ".go" && path.Ext(m[1]) != ".md" && path.Ext(m[1]) != ".sh" {
				n++
				if !c.means(d[1], d[2], d[3]) {
					t.Errorf("%s: there is no %s", page, m[1])
				}
			}
			if !word.MatchString(m[1]) {
				continue
			}
			n++
			if !c.words[m[1]] && c.named[m[1]] == nil && c.dirs[m[1]] == nil && !c.files[m[1]] && !slices.Contains(words, m[1]) {
				t.Errorf("%s: there is no %s", page, m[1])
			}
		}
		for _, name := range testName.FindAllString(text, -1) {
			if !c.words[name] {
				t.Errorf("%s: there is no %s", page, name)
			}
		}
		if n < 10 {
			t.Errorf("only %d names found in %s", n, page)
		}
	}
}

// testName is the name of a test, which pages write without quotes.
var testName = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w*`)

// words stand as code in the pages about code, and are neither packages nor identifiers: commands, messages, targets of make.
var words = []string{"completion", "switchover", "Q", "dist", "selectfuzz", "writefuzz", "wirefuzz", "copyfuzz", "programfuzz", "movefuzz"}

// means reports whether first.second.third is a name: of a package and what it declares, or of a type and its member.
func (c *code) means(first, second, third string) bool {
	for _, p := range c.named[first] {
		if p.names[second] != nil && (third == "" || c.has(p, second, third)) {
			return true
		}
	}
	for _, p := range c.dirs {
		if third == "" && p.members[first] != nil && c.has(p, first, second) {
			return true
		}
	}
	_, err := os.Stat(filepath.Join(build.Default.GOROOT, "src", first))
	return err == nil || first == "weft" // the standard library; the schema on shards
}
