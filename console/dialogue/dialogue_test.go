package dialogue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"weft/console"
	"weft/pgerr"
	"weft/wire"
)

// talk has a dialogue: each line is a message, or what is answered to it.
type talk struct {
	d   *Dialogue
	out wire.Out
}

func newTalk(run func(string) (console.Table, error)) *talk {
	t := &talk{}
	t.d = New(&t.out, run)
	return t
}

// say sends a message and returns the answers in short: types, with tags and errors.
func (t *talk) say(typ byte, body string) string {
	if t.d.Skips(typ) {
		return "skipped"
	}
	err := t.d.Message(typ, []byte(body))
	if typ == wire.Query || typ == wire.Sync {
		t.d.Ready()
	}
	var got []string
	for b := t.out.B; len(b) > 0; {
		n := int(binary.BigEndian.Uint32(b[1:])) + 1
		word := string(b[0])
		switch b[0] {
		case wire.CommandComplete:
			word += ":" + strings.TrimRight(string(b[5:n]), "\x00")
		case wire.ReadyForQuery:
			word += string(b[5])
		}
		got = append(got, word)
		b = b[n:]
	}
	t.out.Reset()
	if err != nil {
		got = append(got, pgerr.From(err).Code)
	}
	return strings.Join(got, " ")
}

// run answers a few commands: "two" has two rows, "none" no columns.
func run(line string) (console.Table, error) {
	switch strings.TrimSpace(line) {
	case "":
		return console.Table{}, nil
	case "SHOW VERSION":
		return console.Table{Columns: []console.Column{{Name: "version", Type: console.Text}}, Rows: [][]any{{"1"}, {"2"}, {"3"}}, Tag: "SHOW"}, nil
	case "BEGIN", "COMMIT":
		return console.Table{Tag: strings.TrimSpace(line)}, nil
	case "PAUSE":
		return console.Table{Tag: "PAUSE"}, nil
	}
	return console.Table{}, pgerr.New(pgerr.SyntaxError, "unknown command")
}

func bind(portal, statement string) string {
	return portal + "\x00" + statement + "\x00\x00\x00\x00\x00\x00\x00"
}

// TestDialogue: transcripts of dialogues, each message with its answers.
func TestDialogue(t *testing.T) {
	for _, tc := range []struct {
		name  string
		lines [][3]string // type, body, answers
	}{
		{"simple", [][3]string{
			{"Q", "SHOW VERSION\x00", "T D D D C:SHOW ZI"},
			{"Q", "\x00", "I ZI"},
			{"Q", "PAUSE; SHOW VERSION;\x00", "C:PAUSE T D D D C:SHOW ZI"},
			{"Q", "PAUSE; nonsense; PAUSE\x00", "C:PAUSE ZI 42601"},
		}},
		{"a block is what the client believes in", [][3]string{
			{"Q", "BEGIN\x00", "C:BEGIN ZT"},
			{"Q", "nonsense\x00", "ZT 42601"},
			{"Q", "COMMIT\x00", "C:COMMIT ZI"},
		}},
		{"extended", [][3]string{
			{"P", "s\x00SHOW VERSION\x00\x00\x00", "1"},
			{"D", "Ss\x00", "t T"},
			{"B", bind("p", "s"), "2"},
			{"D", "Pp\x00", "T"},
			{"E", "p\x00\x00\x00\x00\x02", "D D s"},
			{"E", "p\x00\x00\x00\x00\x02", "D C:SHOW"},
			{"C", "Pp\x00", "3"},
			{"E", "p\x00\x00\x00\x00\x00", "34000"},
			{"P", "\x00SHOW VERSION\x00\x00\x00", "skipped"},
			{"H", "", "skipped"},
			{"S", "", "ZI"},
			{"C", "Ss\x00", "3"},
			{"B", bind("", "s"), "26000"},
			{"S", "", "ZI"},
		}},
		{"names are taken once, the unnamed again and again", [][3]string{
			{"P", "s\x00PAUSE\x00\x00\x00", "1"},
			{"P", "s\x00PAUSE\x00\x00\x00", "42P05"},
			{"S", "", "ZI"},
			{"P", "\x00PAUSE\x00\x00\x00", "1"},
			{"P", "\x00PAUSE\x00\x00\x00", "1"},
			{"D", "S\x00", "t n"},
		}},
		{"malformed", [][3]string{
			{"P", "s", "08P01"},
			{"S", "", "ZI"},
			{"B", "p", "08P01"},
			{"S", "", "ZI"},
			{"D", "Xx", "08P01"},
			{"S", "", "ZI"},
			{"E", "p\x00", "08P01"},
			{"S", "", "ZI"},
			{"C", "", "08P01"},
			{"S", "", "ZI"},
			{"F", "", "0A000"},
			{"S", "", "ZI"},
		}},
		{"parameters are refused", [][3]string{
			{"P", "\x00PAUSE\x00\x00\x00", "1"},
			{"B", "\x00\x00\x00\x00\x00\x01\x00\x00\x00\x011\x00\x00", "08P01"},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := newTalk(run)
			for i, l := range tc.lines {
				if got := d.say(l[0][0], l[1]); got != l[2] {
					t.Errorf("message %d, %s %q: %s, want %s", i, l[0], l[1], got, l[2])
				}
			}
		})
	}
}

// TestKept: a client cannot make the proxy keep more than so many statements.
func TestKept(t *testing.T) {
	d := newTalk(run)
	for i := range maxKept {
		if got := d.say('P', fmt.Sprintf("s%d\x00PAUSE\x00\x00\x00", i)); got != "1" {
			t.Fatal(got)
		}
	}
	if got := d.say('P', "more\x00PAUSE\x00\x00\x00"); got != "53400" {
		t.Error(got)
	}
}

// TestErrors: what run returns beside an error is not answered.
func TestErrors(t *testing.T) {
	d := newTalk(func(string) (console.Table, error) { return console.Table{Tag: "BEGIN"}, errors.New("no") })
	if got := d.say('Q', "x\x00"); got != "ZT XX000" {
		t.Error(got)
	}
}

func TestBinary(t *testing.T) {
	for _, tc := range []struct {
		v    any
		want string
	}{
		{true, "\x01"},
		{false, "\x00"},
		{int64(258), "\x00\x00\x00\x00\x00\x00\x01\x02"},
		{1.5, "\x3f\xf8\x00\x00\x00\x00\x00\x00"},
		{time.Date(2000, 1, 1, 0, 0, 1, 0, time.UTC), "\x00\x00\x00\x00\x00\x0f\x42\x40"},
		{[]string{}, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x19"},
		{[]string{"a"}, "\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x19\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01a"},
	} {
		if got := string(appendBinary(nil, tc.v)); got != tc.want {
			t.Errorf("%v: %x, want %x", tc.v, got, tc.want)
		}
	}
}
