package parser

import (
	"fmt"
	"reflect"
	"sync"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// maxTree bounds how many messages of a tree may hang below one another before pg_query is not asked to write it out: it
// does so by recursion on the C stack, and 8 MiB of that last for about 8000 of them.
const maxTree = 6000

// version is what pg_query wants to find in a tree.
var version = sync.OnceValues(func() (int32, error) {
	tree, err := pg_query.Parse("SELECT 1")
	if err != nil {
		return 0, err
	}
	return tree.Version, nil
})

// Deparse writes a statement as SQL.
func Deparse(stmt *pg_query.Node) (string, error) {
	if depth(reflect.ValueOf(stmt)) > maxTree {
		return "", errDeep
	}
	v, err := version()
	if err != nil {
		return "", err
	}
	sql, err := pg_query.Deparse(&pg_query.ParseResult{Version: v, Stmts: []*pg_query.RawStmt{{Stmt: stmt}}})
	if err != nil {
		return "", fmt.Errorf("deparse: %w", err)
	}
	return sql, nil
}

// depth returns how many messages hang below one another.
func depth(ptr reflect.Value) int {
	deepest := 0
	s := ptr.Elem()
	for _, i := range childFields(s.Type()) {
		switch f := s.Field(i); f.Kind() {
		case reflect.Slice:
			for j := range f.Len() {
				if e := f.Index(j); !e.IsNil() {
					deepest = max(deepest, depth(e))
				}
			}
		case reflect.Interface:
			if f.IsNil() {
				continue
			}
			if one := f.Elem().Elem().Field(0); one.Kind() == reflect.Pointer && !one.IsNil() {
				deepest = max(deepest, depth(one))
			}
		default:
			if !f.IsNil() {
				deepest = max(deepest, depth(f))
			}
		}
	}
	return deepest + 1
}
