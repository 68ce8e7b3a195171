package program

import (
	"reflect"
	"testing"
)

func TestArrays(t *testing.T) {
	for _, s := range []string{
		"{}", "{1,2,NULL}", `{"",NULL,"NULL","a b","q\"\\"}`, "[0:1]={1,2}", "{{1,2},{3,4},{5,6}}", "[1:1][-2:-1]={{1,2}}", "{{{1},{2}},{{3},{4}}}",
	} {
		a, err := parseArray(s, ',')
		if err != nil {
			t.Fatal(err)
		}
		if got := a.format(','); got != s {
			t.Errorf("%s becomes %s", s, got)
		}
	}
}

func TestSetElement(t *testing.T) {
	for _, c := range []struct {
		before string
		subs   []int
		after  string
	}{
		{"{}", []int{3}, "[3:3]={x}"},
		{"{}", []int{1, 1}, "{{x}}"},
		{"{1,2}", []int{2}, "{1,x}"},
		{"{1,2}", []int{4}, "{1,2,NULL,x}"},
		{"{1,2}", []int{-1}, "[-1:2]={x,NULL,1,2}"},
		{"{{1,2},{3,4}}", []int{2, 1}, "{{1,2},{x,4}}"},
		{"{{1,2},{3,4}}", []int{3, 1}, ""},
		{"{1}", []int{1, 1}, ""},
	} {
		a, err := parseArray(c.before, ',')
		if err != nil {
			t.Fatal(err)
		}
		err = a.set(c.subs, text("x"))
		if got := a.format(','); err == nil && got != c.after || err != nil && c.after != "" {
			t.Errorf("%s%v: %s %v, want %s", c.before, c.subs, got, err, c.after)
		}
	}
}

func TestRecords(t *testing.T) {
	for _, s := range []string{`(1,b)`, `(,)`, `("",)`, `("a b","(1,""x"")")`, `("q""\\",1)`} {
		fields, err := parseRecord(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := formatRecord(fields); got != s {
			t.Errorf("%s becomes %s", s, got)
		}
	}
	if f, _ := parseRecord("(,)"); !reflect.DeepEqual(f, []Value{{}, {}}) {
		t.Errorf("%v", f)
	}
}
