package parser_test

import (
	"reflect"
	"testing"

	"weft/parser"
)

func TestDatabasesOf(t *testing.T) {
	for _, tc := range []struct {
		text string
		want parser.Databases
	}{
		{"CREATE DATABASE a", parser.Databases{Names: []string{"a"}, Templates: []string{"template1"}}},
		{"CREATE DATABASE a TEMPLATE b", parser.Databases{Names: []string{"a"}, Templates: []string{"b"}}},
		{`create database "A" with owner = x template = "B" encoding 'UTF8'`, parser.Databases{Names: []string{"A"}, Templates: []string{"B"}}},
		{"CREATE DATABASE a TEMPLATE 'b'", parser.Databases{Names: []string{"a"}, Templates: []string{"b"}}},
		{"CREATE DATABASE a TEMPLATE DEFAULT", parser.Databases{Names: []string{"a"}, Templates: []string{"template1"}}},
		{"DROP DATABASE a", parser.Databases{Names: []string{"a"}}},
		{"DROP DATABASE IF EXISTS a WITH (FORCE)", parser.Databases{Names: []string{"a"}, Force: true}},
		{"ALTER DATABASE a ALLOW_CONNECTIONS false", parser.Databases{Names: []string{"a"}}},
		{"ALTER DATABASE a RENAME TO b", parser.Databases{Names: []string{"a"}, Renamed: []string{"a"}}},
		{"ALTER TABLE a RENAME TO b", parser.Databases{}},
		{"CREATE DATABASE", parser.Databases{}},
	} {
		if got := parser.DatabasesOf(tc.text); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %+v, want %+v", tc.text, got, tc.want)
		}
	}
}
