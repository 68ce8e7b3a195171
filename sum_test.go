package weft_test

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

// sums are the interfaces of package plan that only its own types implement, each by the method
// that tells its types.
var sums = map[string]string{
	"Shape": "parts",
	"Way":   "way",
}

// TestSwitchesKnowAllShapes: a type switch over one of the sums names all types of the sum, so that
// a new type is not forgotten in any of them. "default" would hide it.
func TestSwitchesKnowAllShapes(t *testing.T) {
	all := sources(t, 0)
	for sum, method := range sums {
		types := implementers(all, method)
		if len(types) < 3 {
			t.Errorf("plan.%s has only the types %v", sum, types)
		}
		switches := 0
		for _, s := range all {
			ast.Inspect(s.file, func(n ast.Node) bool {
				sw, ok := n.(*ast.TypeSwitchStmt)
				if !ok {
					return true
				}
				named := namedTypes(sw, s.dir == "plan")
				if !slices.ContainsFunc(types, func(name string) bool { return named[name] }) {
					return true
				}
				switches++
				for _, name := range types {
					if !named[name] {
						t.Errorf("%s: does not say what happens to plan.%s", s.set.Position(sw.Pos()), name)
					}
				}
				return true
			})
		}
		if switches == 0 {
			t.Errorf("nothing switches over plan.%s", sum)
		}
	}
}

// implementers returns the types of package plan with a method without parameters of this name.
func implementers(all []source, method string) []string {
	types := map[string]bool{}
	for _, s := range all {
		if s.dir != "plan" {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || f.Name.Name != method || len(f.Type.Params.List) > 0 {
				continue
			}
			if star, ok := f.Recv.List[0].Type.(*ast.StarExpr); ok {
				types[star.X.(*ast.Ident).Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(types))
}

// namedTypes returns the types of package plan that the cases of a switch name.
func namedTypes(sw *ast.TypeSwitchStmt, inside bool) map[string]bool {
	out := map[string]bool{}
	for _, c := range sw.Body.List {
		for _, e := range c.(*ast.CaseClause).List {
			star, ok := e.(*ast.StarExpr)
			if !ok {
				continue
			}
			switch x := star.X.(type) {
			case *ast.SelectorExpr:
				if pkg, ok := x.X.(*ast.Ident); ok && pkg.Name == "plan" {
					out[x.Sel.Name] = true
				}
			case *ast.Ident:
				if inside && strings.ToUpper(x.Name[:1]) == x.Name[:1] {
					out[x.Name] = true
				}
			}
		}
	}
	return out
}
