package proxy

import (
	"slices"
	"testing"

	"weft/executor"
	"weft/finish"
	"weft/plan"
)

// int8Row is a row with one value of type int8.
func int8Row(v byte) []byte { return []byte{0, 1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, v} }

// int8Inputs takes rows of one column of type int8. The statement has one parameter.
func int8Inputs(limits finish.Limits) *finish.Inputs {
	column := plan.Column{Name: "a", Type: 20, SQL: "bigint", Array: 1016, Binary: true}
	return finish.NewInputs([]finish.Shape{{Columns: []plan.Column{column}}}, 1, limits)
}

// TestIntakeBind: rows become a parameter after the client's own.
func TestIntakeBind(t *testing.T) {
	client := make([]uint32, 1, 2)
	client[0] = 25
	values := bindOf(0, []byte("x"))
	k := intake{inputs: int8Inputs(finish.Limits{Inline: 1 << 20})}
	for v := range byte(3) {
		if full, err := k.keep(int8Row(v)); full || err != nil {
			t.Fatal(full, err)
		}
	}
	var fill plan.Fill
	types, bound, err := k.bind(&fill, client, values)
	if err != nil || !slices.Equal(types, []uint32{25, 1016}) {
		t.Fatal(types, err)
	}
	if client[:2][1] != 0 {
		t.Error("the types of the plan, which all sessions share, are overwritten")
	}
	params, ok := executor.DecodeParams(bound)
	if v, format, _ := params.At(0); !ok || string(v) != "x" || format != 0 {
		t.Errorf("the client's parameter becomes %q, format %d", v, format)
	}
	if v, format, ok := params.At(1); !ok || len(v) != 20+3*12 || format != 1 {
		t.Errorf("the rows become %v, format %d", v, format)
	}
	if fill.Input == nil || !slices.Contains(fill.Input(nil, 0), '$') {
		t.Error("the text does not name the parameter")
	}
}

// TestIntakeEmpty: a text that reads no rows has the client's parameters only.
func TestIntakeEmpty(t *testing.T) {
	var k intake
	var fill plan.Fill
	values := bindOf(0, []byte("x"))
	types, bound, err := k.bind(&fill, []uint32{25}, values)
	if err != nil || !slices.Equal(types, []uint32{25}) || !slices.Equal(bound, values) || fill.Input != nil {
		t.Errorf("bound to %v %v: %v", types, bound, err)
	}
	if _, ok := k.keys(0, 0); ok {
		t.Error("there are keys without rows")
	}
}

// TestIntakeFull: the row that fills the memory is kept, and what exceeds the client's limit is
// refused.
func TestIntakeFull(t *testing.T) {
	k := intake{inputs: int8Inputs(finish.Limits{Inline: 20, Max: 30})}
	if full, err := k.keep(int8Row(1)); full || err != nil {
		t.Fatal(full, err)
	}
	if full, err := k.keep(int8Row(2)); !full || err != nil || k.inputs.Rows(0) != 2 {
		t.Fatal(full, err, k.inputs.Rows(0))
	}
	if _, err := k.keep(int8Row(3)); err == nil {
		t.Error("more than weft.max_gather_bytes are kept")
	}
}

// TestIntakeKeys: each key is sent once.
func TestIntakeKeys(t *testing.T) {
	k := intake{inputs: int8Inputs(finish.Limits{Inline: 1 << 20})}
	for _, v := range []byte{1, 2, 1, 2, 1} {
		if _, err := k.keep(int8Row(v)); err != nil {
			t.Fatal(err)
		}
	}
	keys, ok := k.keys(0, 0)
	if !ok || keys.typ != 1016 || len(keys.value) != 4+20+2*12 {
		t.Errorf("the keys are %v of type %d, %t", keys.value, keys.typ, ok)
	}
	k.stage = &finish.Stage{}
	if _, ok := k.keys(0, 0); ok {
		t.Error("keys are read from rows that are on their way to a temporary table")
	}
}
