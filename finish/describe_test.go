package finish_test

import (
	"fmt"
	"reflect"
	"testing"

	"weft/finish"
	"weft/plan"
)

func TestDescribe(t *testing.T) {
	c := backend(t)
	run(t, c, `
DROP SCHEMA IF EXISTS "odd one" CASCADE;
CREATE SCHEMA "odd one";
CREATE TYPE "odd one"."Mood" AS ENUM ('a');
CREATE TYPE "odd one".pair AS (a int, b text);
CREATE TYPE "odd one".keeper AS (a int, acl aclitem[]);
CREATE TYPE "odd one".inet AS ENUM ('shadow');
CREATE DOMAIN "odd one".pos AS int CHECK (VALUE > 0);
CREATE TYPE "odd one".span AS RANGE (SUBTYPE = float8);
SET search_path = "odd one", pg_catalog, public`)
	for _, tc := range []struct{ expr, want string }{
		{"1", "integer array binary"},
		{"1::numeric(10,2)", "numeric(10,2) array binary"},
		{"1::numeric", "numeric array binary"},
		{"'a'::char(5)", "character(5) array binary"},
		{"'a'::bpchar", "pg_catalog.bpchar array binary"},
		{"'a'::varchar(3)", "character varying(3) array binary"},
		{"B'1'::bit(3)", "bit(3) array binary"},
		{"B'1'", `pg_catalog."bit" array binary`},
		{"now()::timestamptz(3)", "timestamp(3) with time zone array binary"},
		{"'1 h'::interval hour to minute", "interval hour to minute array binary"},
		{`'a'::"char"`, `pg_catalog."char" array binary`},
		{"'x'", "pg_catalog.text array binary"},
		{"'1.2.3.4'::pg_catalog.inet", "pg_catalog.inet array binary"},
		{"'shadow'::inet", `"odd one".inet array binary`},
		{"ARRAY[1]", "integer[] binary"},
		{"ARRAY['x']", "pg_catalog.text[] binary"},
		{"ARRAY[1.5::numeric(4,1)]", "numeric(4,1)[] binary"},
		{"'1 2'::int2vector", "pg_catalog.int2vector"},
		{`'a'::"Mood"`, `"odd one"."Mood" array binary`},
		{`ARRAY['a'::"Mood"]`, `"odd one"."Mood"[] binary`},
		{"ROW(1, 'x')::pair", `"odd one".pair array binary`},
		{"NULL::keeper", `"odd one".keeper array`},
		{"NULL::aclitem", "pg_catalog.aclitem array"},
		{"NULL::aclitem[]", "pg_catalog.aclitem[]"},
		{"1::pos", "integer array binary"}, // clients never see a domain
		{"ARRAY[1::pos]", `"odd one".pos[] binary`},
		{"'[1,2]'::span", `"odd one".span array binary`},
		{"'{[1,2]}'::span_multirange", `"odd one".span_multirange array binary`},
		{"'int4'::regtype", "pg_catalog.regtype array binary"},
		{"'now'::regproc", "pg_catalog.regproc array"},
		{"NULL::pg_node_tree", " binary"},
		{"ROW(1, 2)", " array binary"},
		{"$1::int8 + $2", "bigint array binary"},
	} {
		for range 2 { // the second time from memory
			_, cols, err := finish.Describe(c, "SELECT "+tc.expr, nil)
			if err != nil {
				t.Errorf("%s: %v", tc.expr, err)
				break
			}
			got := cols[0].SQL
			if cols[0].Array != 0 {
				got += " array"
			}
			if cols[0].Binary {
				got += " binary"
			}
			if got != tc.want {
				t.Errorf("%s: %s, want %s", tc.expr, got, tc.want)
			}
			if sql := cols[0].SQL; sql != "" {
				if _, err := c.Exec("SET search_path = public; SELECT NULL::" + sql + `; SET search_path = "odd one", pg_catalog, public`); err != nil {
					t.Errorf("%s: %v", tc.expr, err)
				}
			}
		}
	}
}

func TestDescribeParameters(t *testing.T) {
	c := backend(t)
	params, cols, err := finish.Describe(c, "SELECT relname AS x, $2 + 1.5, $1 FROM pg_class WHERE oid = $3", []uint32{23})
	if err != nil || !reflect.DeepEqual(params, []uint32{23, 1700, 26}) {
		t.Errorf("%v, %v", params, err)
	}
	want := plan.Column{Name: "x", Table: 1259, Num: 2, Type: 19, Size: 64, Mod: -1, SQL: "pg_catalog.name", Array: 1003, Binary: true}
	if len(cols) != 3 || cols[0] != want {
		t.Errorf("%+v", cols)
	}
	if params, cols, err = finish.Describe(c, "CREATE TABLE never(a int)", nil); err != nil || params != nil || cols != nil {
		t.Errorf("a text without a result: %v, %v, %v", params, cols, err)
	}
	// After an error the backend answers.
	if _, _, err := finish.Describe(c, "SELECT nothing", nil); code(err) != "42703" {
		t.Error(err)
	}
	if got := fmt.Sprint(run(t, c, "SELECT 1")); got != "[[1]]" {
		t.Error(got)
	}
}

func TestCarriable(t *testing.T) {
	c := backend(t)
	for expr, want := range map[string]string{
		"1": "<nil>", "ARRAY[1]": "<nil>", "NULL::aclitem": "<nil>",
		"ROW(1, 2)": "0A000", "NULL::pg_node_tree": "0A000", "NULL::pg_attrdef": "0A000", "NULL::pg_attrdef[]": "0A000", "NULL::cstring": "0A000", "NULL::cstring[]": "0A000", "ARRAY[ROW(1)]": "0A000",
	} {
		_, cols, err := finish.Describe(c, "SELECT "+expr, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := code(finish.Carriable(cols)); got != want {
			t.Errorf("%s: %s, want %s", expr, got, want)
		}
	}
}
