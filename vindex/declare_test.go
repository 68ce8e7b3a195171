package vindex

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/goccy/go-yaml"
)

// TestDeclare makes vindexes of declarations as users write them. It prints the
// bucket as a shard computes it, or why the declaration is refused.
func TestDeclare(t *testing.T) {
	datadriven.RunTest(t, "testdata/declare", func(t *testing.T, td *datadriven.TestData) string {
		d := Declaration{Buckets: 4096}
		for _, arg := range td.CmdArgs {
			switch arg.Key {
			case "buckets":
				arg.Scan(t, 0, &d.Buckets)
			default: // name=type, with a remark on the type
				c := column(arg.Key, arg.Vals[0])
				for _, remark := range arg.Vals[1:] {
					c.Enum = c.Enum || remark == "enum"
					c.Nondeterministic = c.Nondeterministic || remark == "nondeterministic"
				}
				d.Columns = append(d.Columns, c)
			}
		}
		d.Kind = td.Cmd
		if err := yaml.Unmarshal([]byte(td.Input), &d.Params); err != nil {
			t.Fatalf("%s: %v", td.Pos, err)
		}
		v, err := New(d)
		if err != nil {
			return "error: " + err.Error()
		}
		computed, ok := v.(Computed)
		if !ok {
			return "no expression"
		}
		var names []string
		for _, c := range d.Columns {
			names = append(names, c.Name)
		}
		sql, err := BucketSQL(computed, names, d.Buckets)
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(sql, " WHEN ", "\n  WHEN ")
	})
}
