package dialogue

import (
	"strings"

	"weft/console"
	"weft/pgerr"
	"weft/wire"
)

// maxKept bounds the statements and portals that one client may keep.
const maxKept = 1000

// Dialogue is one client of the console.
type Dialogue struct {
	out *wire.Out
	run func(line string) (console.Table, error)

	statements map[string]string // texts by name
	portals    map[string]*portal
	// inBlock: the client believes to be in a transaction.
	inBlock bool
	// skipping: an extended message failed, so that all up to Sync are skipped.
	skipping bool
}

// New returns a dialogue that appends its answers to out and has commands run by run.
func New(out *wire.Out, run func(line string) (console.Table, error)) *Dialogue {
	return &Dialogue{out: out, run: run, statements: map[string]string{}, portals: map[string]*portal{}}
}

// Skips reports whether a message is passed over because an earlier one failed.
func (d *Dialogue) Skips(typ byte) bool {
	return d.skipping && typ != wire.Sync && typ != wire.Terminate
}

// Message appends the answers to a message but for ReadyForQuery and errors. The caller
// tells the client of an error.
func (d *Dialogue) Message(typ byte, body []byte) error {
	d.out.Grow()
	switch typ {
	case wire.Query:
		text, _, _ := wire.CString(body)
		for _, line := range lines(string(text)) {
			if err := d.query(line); err != nil {
				return err
			}
		}
	case wire.Sync:
		d.skipping = false
	case wire.Flush:
	default:
		if err := d.extended(typ, body); err != nil {
			d.skipping = true
			return err
		}
	}
	return nil
}

// Ready appends ReadyForQuery.
func (d *Dialogue) Ready() {
	status := byte(wire.TxIdle)
	if d.inBlock {
		status = wire.TxActive
	}
	d.out.B = wire.AppendReadyForQuery(d.out.B, status)
}

// lines cuts a text into commands; no command has a semicolon in it. An empty text is
// one empty command.
func lines(text string) []string {
	var out []string
	for _, l := range strings.Split(text, ";") {
		if strings.TrimSpace(l) != "" {
			out = append(out, l)
		}
	}
	if out == nil {
		return []string{""}
	}
	return out
}

// execute runs a command and follows what it says of transactions.
func (d *Dialogue) execute(line string) (console.Table, error) {
	t, err := d.run(line)
	switch t.Tag {
	case "BEGIN", "START TRANSACTION":
		d.inBlock = true
	case "COMMIT", "ROLLBACK":
		d.inBlock = false
	}
	return t, err
}

// query answers one command of a simple query.
func (d *Dialogue) query(line string) error {
	t, err := d.execute(line)
	if err != nil {
		return err
	}
	d.out.Grow()
	if t.Tag == "" {
		d.out.B = wire.AppendEmpty(d.out.B, wire.EmptyQueryResponse)
		return nil
	}
	if t.Columns != nil {
		d.out.B = appendColumns(d.out.B, t.Columns, nil)
	}
	for _, r := range t.Rows {
		d.out.B = appendValues(d.out.B, r, t.Columns, nil)
	}
	d.out.B = wire.AppendCommandComplete(d.out.B, t.Tag)
	return nil
}

func malformed() error { return pgerr.New(pgerr.ProtocolViolation, "invalid message format") }
