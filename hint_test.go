package weft_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unhinted lists the functions whose refusals need no hint, and why.
var unhinted = map[string]string{
	"auth/scram.go":         "worded as PostgreSQL words them, for people who write drivers",
	"proxy/admit/client.go": "the same",
	"program/native.go":     "words of PostgreSQL's own refusals, which programs may catch",
}

// TestRefusalsHaveHints demands a hint of every refusal (0A000): a client who is refused must learn what
// works instead. It looks at each call that makes such an error, and at each function that takes a hint.
func TestRefusalsHaveHints(t *testing.T) {
	fset := token.NewFileSet()
	files := map[string][]*ast.File{} // by directory
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "testdata" || d.Name() == "integration" || d.Name() == "drivers"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || unhinted[filepath.ToSlash(path)] != "":
			return nil
		}
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		files[filepath.Dir(path)] = append(files[filepath.Dir(path)], f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for _, list := range files {
		takes := hintTakers(list)
		for _, f := range list {
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok {
					fn = &ast.FuncDecl{Name: ast.NewIdent("_"), Body: &ast.BlockStmt{List: []ast.Stmt{&ast.DeclStmt{Decl: d}}}}
				}
				if fn.Body == nil || takesHint(fn.Type) >= 0 {
					continue
				}
				looked += bareRefusals(fn, takes, func(n ast.Node) { t.Errorf("%s: a refusal (0A000) has no hint", fset.Position(n.Pos())) })
			}
		}
	}
	if looked < 300 {
		t.Errorf("only %d refusals were found: the test no longer sees how they are made", looked)
	}
}

// takesHint returns the place of the parameter called hint, or -1.
func takesHint(ft *ast.FuncType) int {
	if ft == nil {
		return -1
	}
	at := 0
	for _, p := range ft.Params.List {
		for _, n := range p.Names {
			if n.Name == "hint" {
				return at
			}
			at++
		}
	}
	return -1
}

// hintTakers returns, by name, where the functions of a package that word refusals take the hint.
func hintTakers(list []*ast.File) map[string][]int {
	out := map[string][]int{}
	for _, f := range list {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				if at := takesHint(fn.Type); at >= 0 && words(fn.Body) {
					out[fn.Name.Name] = append(out[fn.Name.Name], at)
				}
			}
		}
	}
	return out
}

// words reports whether a function makes errors, or has another one make them.
func words(body *ast.BlockStmt) bool {
	errs := false
	ast.Inspect(body, func(n ast.Node) bool {
		if e, ok := n.(ast.Expr); ok {
			errs = errs || isCode(e)
		}
		return true
	})
	ast.Inspect(body, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && (s.Sel.Name == "SeverityNotice" || s.Sel.Name == "SeverityWarning") {
			errs = false
		}
		return true
	})
	return errs
}

// bareRefusals reports the refusals of a function that have no hint, and returns how many refusals there are.
func bareRefusals(fn *ast.FuncDecl, takes map[string][]int, report func(ast.Node)) (found int) {
	var path []ast.Node
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if n == nil {
			path = path[:len(path)-1]
			return true
		}
		path = append(path, n)
		if lit, ok := n.(*ast.CompositeLit); ok && slices.ContainsFunc(lit.Elts, isField("Code", isUnsupported)) {
			found++
			if !slices.ContainsFunc(lit.Elts, isField("Hint", func(e ast.Expr) bool { return !isEmpty(e) })) {
				report(n)
			}
		}
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		at := takes[called(call)]
		code := slices.ContainsFunc(call.Args, isUnsupported)
		switch {
		case len(at) > 0:
			found++
			if slices.ContainsFunc(at, func(i int) bool { return i < len(call.Args) && isEmpty(call.Args[i]) }) && (code || !slices.ContainsFunc(call.Args, isCode)) {
				report(n)
			}
		case code && makesError(call):
			found++
			if !chained(path) && !hintedLater(fn.Body, path) {
				report(n)
			}
		}
		return true
	})
	return found
}

// called returns the name of a called function, without its package or receiver.
func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// makesError reports whether a call with an SQLSTATE makes an error of it.
func makesError(call *ast.CallExpr) bool {
	return slices.Contains([]string{"New", "Fatal", "refuse", "refusal"}, called(call))
}

func isUnsupported(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "FeatureNotSupported"
}

// isCode reports whether an expression is an SQLSTATE of package pgerr.
func isCode(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "pgerr"
}

func isEmpty(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	return ok && lit.Value == `""`
}

func isField(name string, value func(ast.Expr) bool) func(ast.Expr) bool {
	return func(e ast.Expr) bool {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return false
		}
		k, ok := kv.Key.(*ast.Ident)
		return ok && k.Name == name && value(kv.Value)
	}
}

// chained reports whether WithHint is called on the error that the last node of a path makes.
func chained(path []ast.Node) bool {
	for i := len(path) - 2; i >= 0; i-- {
		switch n := path[i].(type) {
		case *ast.SelectorExpr:
			if n.Sel.Name == "WithHint" {
				return true
			}
		case *ast.CallExpr:
		default:
			return false
		}
	}
	return false
}

// hintedLater reports whether the function gives a hint to the variable that an error is assigned to, or
// says which routine of PostgreSQL words the error so: PostgreSQL has no hint for it.
func hintedLater(body ast.Node, path []ast.Node) bool {
	var to string
	for _, n := range path {
		if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == 1 {
			if id, ok := a.Lhs[0].(*ast.Ident); ok {
				to = id.Name
			}
		}
	}
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains([]string{"WithHint", "Hint", "Routine"}, s.Sel.Name) {
			id, ok := s.X.(*ast.Ident)
			found = found || ok && to != "" && id.Name == to
		}
		return !found
	})
	return found
}
