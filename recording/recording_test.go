package recording

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"testing"
)

// The vectors of SipHash's authors: key 00 01 … 0f, data 00 01 … of growing length.
func TestSum(t *testing.T) {
	var k Key
	for i := range k {
		k[i] = byte(i)
	}
	var data []byte
	for i, want := range []uint64{
		0x726fdb47dd0e0e31, 0x74f839c593dc67fd, 0x0d6c8009d9a94f5a, 0x85676696d7fb7e2d, 0xcf2794e0277187b7, 0x18765564cd99a68d, 0xcbc9466e58fee3ce,
		0xab0200f58b01d137, 0x93f5f5799a932462, 0x9e0082df0ba9e4b0,
	} {
		if got := k.Sum(data); got != want {
			t.Errorf("%d bytes: %x, not %x", i, got, want)
		}
		data = append(data, byte(i))
	}
}

// One value has one sum, however it is spelled.
func TestSpellings(t *testing.T) {
	k := Key{7}
	seven := k.Text([]byte("7"))
	for name, v := range map[string]Value{
		"zeros": k.Text([]byte("007")), "space": k.Text([]byte(" 7")), "int2": k.Binary([]byte{0, 7}), "int4": k.Binary([]byte{0, 0, 0, 7}), "int8": k.Binary([]byte{0, 0, 0, 0, 0, 0, 0, 7}),
	} {
		if !reflect.DeepEqual(v, seven) {
			t.Errorf("%s: %v, not %v", name, v, seven)
		}
	}
	if reflect.DeepEqual(seven, k.Text([]byte("8"))) || reflect.DeepEqual(seven, Key{8}.Text([]byte("7"))) {
		t.Error("another value, or another key, has the same sum")
	}
	if a, b := k.Text([]byte("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11")), k.Binary([]byte{0xa0, 0xee, 0xbc, 0x99, 0x9c, 0x0b, 0x4e, 0xf8, 0xbb, 0x6d, 0x6b, 0xb9, 0xbd, 0x38, 0x0a, 0x11}); !reflect.DeepEqual(a, b) {
		t.Errorf("uuid: %v and %v", a, b)
	}
	want := Value{seven[0], k.Text([]byte(`a"b`))[0]}
	for name, v := range map[string]Value{
		"text": k.Text([]byte(`{7,"a\"b",NULL}`)),
		"binary": k.Binary([]byte{
			0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 25, 0, 0, 0, 3, 0, 0, 0, 1,
			0, 0, 0, 1, '7', 0, 0, 0, 3, 'a', '"', 'b', 0xff, 0xff, 0xff, 0xff,
		}),
	} {
		if !reflect.DeepEqual(v, want) {
			t.Errorf("array as %s: %v, not %v", name, v, want)
		}
	}
	for _, odd := range []string{"", "{}", "{", `{"`, `{"a\`, "{,,}", string(make([]byte, 5000)), "\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x19\x7f\xff\xff\xff\x00\x00\x00\x01"} {
		k.Text([]byte(odd))
		k.Binary([]byte(odd))
	}
}

// A recording stays within its bounds, and all of its time is in it.
func TestRecorder(t *testing.T) {
	r := &Recorder{Share: 1}
	const n = 5 * MaxTransactions
	for i := range n {
		if r.Chosen() {
			r.Put(Transaction{{Text: fmt.Sprint(i), Values: []Value{{uint64(i)}}}})
		}
	}
	s := r.State()
	if s.Seen != n || s.Kept != MaxTransactions || s.Bytes > MaxBytes {
		t.Errorf("%+v", s)
	}
	sum := 0.0
	for _, tx := range r.Transactions() {
		sum += float64(tx[0].Values[0][0])
	}
	if mean := sum / MaxTransactions; math.Abs(mean-n/2) > n/50 {
		t.Errorf("the mean is %.0f of %d", mean, n)
	}
	large := &Recorder{Share: 1}
	for range 100 {
		large.Put(Transaction{{Values: []Value{make(Value, 1<<16)}}})
	}
	if s := large.State(); s.Bytes > MaxBytes || s.Kept == 0 {
		t.Errorf("%+v", s)
	}
	chosen := 0
	tenth := &Recorder{Share: 0.1}
	for range 10_000 {
		if tenth.Chosen() {
			chosen++
		}
	}
	if chosen < 800 || chosen > 1200 {
		t.Errorf("%d of 10000 are a tenth", chosen)
	}
}

func TestJSON(t *testing.T) {
	want := Transaction{{ID: math.MinInt64, Values: []Value{{math.MaxUint64}, nil, {1, 2}}}}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Transaction
	if err := json.Unmarshal(b, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %v, %v", b, got, err)
	}
}
