// Package weft_test holds the rules that no compiler knows: which package may
// import which, and what only the commands may do.
package weft_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers lists the packages from the top down: each may import those below it
// and none above. Those on one line do not know each other. A new package gets
// its place here.
var layers = [][]string{
	{"cmd/weft"},
	{"dev", "bench", "importer"},
	{"dev/patroni"},
	{"dev/supervisor"},
	{"server"},
	{"dashboard"},
	{"http", "config"},
	{"proxy"},
	{"proxy/admit", "proxy/routine"},
	{"proxy/job"},
	{"proxy/vigil", "proxy/hold"},
	{"proxy/peer", "proxy/hub", "proxy/lookout", "proxy/leftover", "proxy/judge", "proxy/chronicle", "proxy/throttler", "proxy/queues", "proxy/limiter", "proxy/fence", "proxy/roster", "proxy/seek", "proxy/floor", "proxy/lot", "proxy/durable", "proxy/failovers", "proxy/ledger", "proxy/copies", "proxy/gate", "proxy/halt", "proxy/points", "proxy/password", "proxy/own", "proxy/table"},
	{"proxy/target", "proxy/custom"},
	{"proxy/pause"},
	{"console/dialogue"},
	{"console"},
	{"deadlock", "reshard/carrier", "advise", "survey"},
	{"schema"},
	{"executor"},
	{"finish", "sequence", "twopc", "backup", "handover", "discover"},
	{"planner"},
	{"pool"},
	{"stream", "explain"},
	{"plan"},
	{"reshard"},
	{"directory/embedded"},
	{"directory/etcd"},
	{"directory/storetest"},
	{"directory"},
	{"vindex"},
	{"catalog"},
	{"program/flow"},
	{"program"},
	{"datum"},
	{"parser", "auth", "wire", "pgserver/pgtest", "copydata", "identity"},
	{"primary", "patroni"},
	{"pgserver"},
	{"heat/queue"},
	{"heat/verdict", "heat/trend", "heat/throttle", "heat/ferry", "heat/limit"},
	{"pgerr", "quote", "memo", "tally", "span", "rebalance", "heat", "recording", "checkup", "takeover", "loop", "program/progtest"},
}

// pure packages take values and return values: no clock, no I/O.
var pure = []string{"copydata", "parser", "planner", "plan", "vindex", "datum", "catalog", "stream", "explain", "console", "console/dialogue", "pgerr", "quote", "memo", "deadlock", "identity", "reshard", "rebalance", "heat", "heat/verdict", "heat/trend", "heat/throttle", "heat/queue", "heat/ferry", "heat/limit", "recording", "advise", "survey", "checkup", "program", "program/flow", "program/progtest"}

// impure is what they must not import.
var impure = []string{"net", "os", "os/exec", "net/http", "syscall", "golang.org/x/sys/unix", "log/slog"}

// programs may read flags and the environment, and end the process.
var programs = []string{"cmd", "bench", "examples", "integration", "tools"}

type source struct {
	dir  string // of the package, from the root
	name string
	file *ast.File
	set  *token.FileSet
}

// sources parses every file that is compiled into a package, not its tests.
func sources(t *testing.T, mode parser.Mode) []source {
	t.Helper()
	var out []source
	set := token.NewFileSet()
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := path.Base(name); name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "bin") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(set, name, nil, mode)
		if err != nil {
			return err
		}
		out = append(out, source{path.Dir(name), name, f, set})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 50 {
		t.Fatalf("only %d files found", len(out))
	}
	return out
}

func (s source) imports() []string {
	var out []string
	for _, i := range s.file.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		out = append(out, p)
	}
	return out
}

func layer(dir string) int {
	return slices.IndexFunc(layers, func(l []string) bool { return slices.Contains(l, dir) })
}

func isProgram(dir string) bool {
	top, _, _ := strings.Cut(dir, "/")
	return slices.Contains(programs, top)
}

// TestImportsPointDown keeps the order of the packages.
func TestImportsPointDown(t *testing.T) {
	for _, s := range sources(t, parser.ImportsOnly) {
		from := layer(s.dir)
		if from < 0 && !isProgram(s.dir) {
			t.Errorf("%s: the package %s has no place in layers", s.name, s.dir)
			continue
		}
		for _, p := range s.imports() {
			to, own := strings.CutPrefix(p, "weft/")
			switch {
			case !own:
			case strings.HasPrefix(to, "cmd/") || strings.HasPrefix(to, "integration/") && !strings.HasPrefix(s.dir, "integration"):
				t.Errorf("%s imports a program: %s", s.name, p)
			case from >= 0 && layer(to) <= from:
				t.Errorf("%s imports %s, which is not below it", s.name, p)
			}
		}
		if slices.Contains(pure, s.dir) {
			for _, p := range s.imports() {
				if slices.Contains(impure, p) {
					t.Errorf("%s is pure and imports %s", s.name, p)
				}
			}
		}
	}
}

// TestOnlyProgramsEndTheProcess: below the commands nobody exits, and nobody
// reads flags or the environment.
func TestOnlyProgramsEndTheProcess(t *testing.T) {
	forbidden := map[string]bool{
		"os.Exit": true, "log.Fatal": true, "log.Fatalf": true, "log.Fatalln": true, "os.Args": true,
		"os.Getenv": true, "os.LookupEnv": true, "flag.Parse": true,
	}
	for _, s := range sources(t, parser.SkipObjectResolution) {
		// pgserver looks for programs where a shell would, in PATH.
		if isProgram(s.dir) || s.dir == "pgserver" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && forbidden[x.Name+"."+sel.Sel.Name] {
				t.Errorf("%s: %s.%s", s.set.Position(n.Pos()), x.Name, sel.Sel.Name)
			}
			return true
		})
	}
}

// TestEveryPackageHasDoc: a package opens with doc.go.
func TestEveryPackageHasDoc(t *testing.T) {
	has := map[string]bool{}
	for _, s := range sources(t, parser.ImportsOnly|parser.ParseComments) {
		has[s.dir] = has[s.dir] || s.file.Doc != nil && strings.HasPrefix(s.file.Doc.Text(), "Package "+s.file.Name.Name) ||
			s.file.Name.Name == "main" && s.file.Doc != nil
	}
	for dir, doc := range has {
		if !doc && layer(dir) >= 0 {
			t.Errorf("%s has no package comment", dir)
		}
	}
}

// calm are the goroutines that run no code of weft's which could panic, by the function that
// starts them.
var calm = map[string]string{
	"loop New":                 "what its tasks run is looked at where they are started",
	"loop abandon":             "the same",
	"loop watch":               "the same",
	"proxy runInLoop":          "what it runs is guarded before",
	"pool openFor":             "it waits for two channels",
	"proxy cancellable":        "it waits for two channels",
	"proxy push":               "it writes to a socket",
	"proxy Go":                 "what a crew runs is looked at where it is called",
	"http Start":               "it is net/http's, which recovers",
	"directory/embedded close": "it ends etcd, while the process ends",
	"directory/etcd Reserve":   "it waits for a channel to be closed",
	"server run":               "it waits for the server's end",
}

// A panic on a goroutine that nobody guards ends the process, with all sessions of it. So each is
// started with what recovers, or its function defers that.
func TestGoroutinesRecover(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range sources(t, 0) {
		if isProgram(s.dir) || s.dir == "dev" || strings.HasPrefix(s.dir, "dev/") || s.dir == "importer" || strings.HasPrefix(s.dir, "pgserver") || s.dir == "directory/storetest" {
			continue
		}
		methods, all := map[string]*ast.FuncDecl{}, []*ast.FuncDecl{}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				methods[f.Name.Name], all = f, append(all, f)
			}
		}
		for _, f := range all {
			ast.Inspect(f, func(n ast.Node) bool {
				var run ast.Expr
				switch n := n.(type) {
				case *ast.GoStmt:
					run = n.Call.Fun
				case *ast.CallExpr:
					if sel, ok := n.Fun.(*ast.SelectorExpr); !ok || sel.Sel.Name != "Go" || len(n.Args) != 1 {
						return true
					}
					run = n.Args[0]
				default:
					return true
				}
				where := s.dir + " " + f.Name.Name
				if _, ok := calm[where]; ok {
					seen[where] = true
				} else if !recovers(run, methods) {
					t.Errorf("%s/%s: %s starts a goroutine whose panic would end the process", s.dir, s.name, f.Name.Name)
				}
				return true
			})
		}
	}
	for where := range calm {
		if !seen[where] {
			t.Errorf("no goroutine is started by %s any more", where)
		}
	}
}

// guards are the functions that recover, or return what does.
var guards = []string{"guarded", "Guarded", "kept", "Keep", "Guard", "recover", "Recovered"}

// recovers reports whether what a goroutine runs calls one of them, itself or in a function of
// the same file.
func recovers(run ast.Expr, methods map[string]*ast.FuncDecl) bool {
	var body ast.Node = run
	if sel, ok := run.(*ast.SelectorExpr); ok && methods[sel.Sel.Name] != nil {
		body = methods[sel.Sel.Name]
	}
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		c, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch f := c.Fun.(type) {
		case *ast.Ident:
			found = found || slices.Contains(guards, f.Name)
		case *ast.SelectorExpr:
			found = found || slices.Contains(guards, f.Sel.Name)
		}
		return true
	})
	return found
}

// TestQuotingIsInOnePackage: names and values become SQL in package quote alone. A copy of its
// functions would differ in backslashes sooner or later, and a function that only calls one of them
// is another name for the same thing.
func TestQuotingIsInOnePackage(t *testing.T) {
	for _, s := range sources(t, 0) {
		if s.dir == "quote" || strings.HasPrefix(s.dir, "integration") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if doublesQuotes(n) {
					t.Errorf("%s: doubles quotes: call package quote", s.set.Position(n.Pos()))
				}
			case *ast.FuncDecl:
				if name := forwards(n, "quote"); name != "" {
					t.Errorf("%s: %s is quote.%s: call that", s.set.Position(n.Pos()), n.Name.Name, name)
				}
			}
			return true
		})
	}
}

// doublesQuotes reports whether a call has a quote and the same quote twice among its arguments,
// one after the other, as ReplaceAll and NewReplacer have.
func doublesQuotes(c *ast.CallExpr) bool {
	last := ""
	for _, a := range c.Args {
		text := ""
		if l, ok := a.(*ast.BasicLit); ok {
			text, _ = strconv.Unquote(l.Value)
		}
		if (last == "'" || last == `"`) && text == last+last {
			return true
		}
		last = text
	}
	return false
}

// forwards returns the name of the function of a package that f calls with its own parameters and
// does nothing else, or "".
func forwards(f *ast.FuncDecl, pkg string) string {
	if f.Body == nil || len(f.Body.List) != 1 {
		return ""
	}
	r, ok := f.Body.List[0].(*ast.ReturnStmt)
	if !ok || len(r.Results) != 1 {
		return ""
	}
	c, ok := r.Results[0].(*ast.CallExpr)
	if !ok {
		return ""
	}
	sel, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if x, ok := sel.X.(*ast.Ident); !ok || x.Name != pkg {
		return ""
	}
	for _, a := range c.Args {
		if _, ok := a.(*ast.Ident); !ok {
			return ""
		}
	}
	return sel.Sel.Name
}

// TestDoublesQuotes: the rule knows the ways to write it.
func TestDoublesQuotes(t *testing.T) {
	for text, want := range map[string]bool{
		`strings.ReplaceAll(s, "'", "''")`:             true,
		"strings.ReplaceAll(s, `\"`, `\"\"`)":          true,
		`strings.ReplaceAll(s, "\"", "\"\"")`:          true,
		`strings.NewReplacer("\\", "\\\\", "'", "''")`: true,
		`strings.ReplaceAll(s, "''", "'")`:             false,
		`strings.ReplaceAll(s, "\\", "\\\\")`:          false,
		`fmt.Sprintf("'%s'", s)`:                       false,
	} {
		e, err := parser.ParseExpr(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := doublesQuotes(e.(*ast.CallExpr)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// Sizes beyond which a type has more than one job.
const (
	maxMethods = 60
	maxFields  = 30
)

// large are the types beyond that, with what they have. They may shrink and not grow.
var large = map[string][2]int{
	"proxy Config": {maxMethods, 37}, // all that weft.yaml says to a proxy
}

// TestSizes: no type of the planner and the proxy knows and does everything. A type that
// grows is split by noun, as Session is (proxy/session.go) and analysis (planner/parts.go).
func TestSizes(t *testing.T) {
	methods, fields := map[string]int{}, map[string]int{}
	for _, s := range sources(t, 0) {
		if s.dir != "planner" && s.dir != "proxy" && !strings.HasPrefix(s.dir, "proxy/") && !strings.HasPrefix(s.dir, "console") {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					methods[s.dir+" "+typeName(d.Recv.List[0].Type)]++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if ts, ok := spec.(*ast.TypeSpec); ok {
						if st, ok := ts.Type.(*ast.StructType); ok {
							fields[s.dir+" "+ts.Name.Name] = count(st.Fields)
						}
					}
				}
			}
		}
	}
	for name := range fields {
		limit, ok := large[name]
		if !ok {
			limit = [2]int{maxMethods, maxFields}
		}
		if methods[name] > limit[0] || fields[name] > limit[1] {
			t.Errorf("%s has %d methods and %d fields, the limits are %d and %d", name, methods[name], fields[name], limit[0], limit[1])
		}
		if ok && methods[name] <= maxMethods && fields[name] < limit[1] {
			t.Errorf("%s has %d fields by now: lower its limit of %d", name, fields[name], limit[1])
		}
	}
}

// typeName is the name of a receiver's type.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// count is how many fields a struct has, embedded ones included.
func count(l *ast.FieldList) int {
	n := 0
	for _, f := range l.List {
		n += max(1, len(f.Names))
	}
	return n
}

// parts are the parts of a session, by the type that each is.
var parts = map[string]string{
	"out": "answers", "prepared": "prepared", "portals": "portals", "record": "record", "drawn": "drawn", "account": "account", "reach": "reach",
	"held": "held", "pipe": "pipe", "implicit": "implicit", "tx": "transaction", "commit": "commit", "lost": "loss", "route": "routing", "script": "script",
}

// TestPartsOwnTheirFields: a part of a session is changed by itself.
func TestPartsOwnTheirFields(t *testing.T) {
	got := map[string]int{}
	for _, s := range sources(t, 0) {
		if s.dir != "proxy" {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Name.Name == "newSession" {
				continue
			}
			receiver := ""
			if f.Recv != nil {
				receiver = typeName(f.Recv.List[0].Type)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				var assigned []ast.Expr
				switch n := n.(type) {
				case *ast.AssignStmt:
					assigned = n.Lhs
				case *ast.IncDecStmt:
					assigned = []ast.Expr{n.X}
				}
				for _, e := range assigned {
					if part := partOf(e); part != "" && parts[part] != receiver {
						got[part]++
					}
				}
				return true
			})
		}
	}
	for part, n := range got {
		t.Errorf("%d assignments to fields of %s stand outside its methods, which say what has happened", n, part)
	}
}

// TestBoolsOfPartsAreFacts: what is one of several states has a type that names them. A bool that is
// left in a part of a session, or in what a part is made of, is a fact by itself, and its comment
// says which.
func TestBoolsOfPartsAreFacts(t *testing.T) {
	structs := map[string]*ast.StructType{}
	for _, s := range sources(t, parser.ParseComments) {
		if s.dir != "proxy" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if st, ok := spec.Type.(*ast.StructType); ok {
					structs[spec.Name.Name] = st
				}
			}
			return true
		})
	}
	seen := map[string]bool{}
	var look func(name string)
	look = func(name string) {
		if structs[name] == nil || seen[name] {
			return
		}
		seen[name] = true
		for _, f := range structs[name].Fields.List {
			switch typ := f.Type.(type) {
			case *ast.Ident:
				if typ.Name == "bool" && f.Doc == nil && f.Comment == nil {
					t.Errorf("%s.%s does not say when it is true", name, f.Names[0].Name)
				}
				look(typ.Name)
			case *ast.SelectorExpr:
				if typ.Sel.Name == "Bool" && f.Doc == nil && f.Comment == nil {
					t.Errorf("%s.%s does not say when it is true", name, f.Names[0].Name)
				}
			}
		}
	}
	if look("Session"); len(seen) < 30 {
		t.Errorf("a session is made of %d structs only", len(seen))
	}
}

// partOf is the part that x.part.field and x.part.field[i] are of, or "".
func partOf(e ast.Expr) string {
	if i, ok := e.(*ast.IndexExpr); ok {
		e = i.X
	}
	field, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if part, ok := field.X.(*ast.SelectorExpr); ok && parts[part.Sel.Name] != "" && field.Sel.Name != "B" {
		return part.Sel.Name
	}
	return ""
}
