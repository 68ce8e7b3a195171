package dialogue

import (
	"encoding/binary"

	"weft/console"
	"weft/pgerr"
	"weft/wire"
)

// portal is a command that has been bound.
type portal struct {
	line    string
	formats []byte // of the result, as a Bind has them: without the count
	// table is its result, once it has run, and sent how many rows have gone.
	table *console.Table
	sent  int
}

// extended handles one message of the extended protocol.
func (d *Dialogue) extended(typ byte, body []byte) error {
	switch typ {
	case wire.Parse:
		p, err := wire.DecodeParse(body)
		if err != nil {
			return malformed()
		}
		if _, err := console.Describe(string(p.SQL)); err != nil {
			return err
		}
		if _, there := d.statements[string(p.Name)]; there && len(p.Name) > 0 {
			return pgerr.New(pgerr.DuplicatePreparedStatement, "prepared statement %q already exists", p.Name)
		}
		if len(d.statements) >= maxKept {
			return pgerr.New(pgerr.ConfigurationLimitExceeded, "too many prepared statements")
		}
		d.statements[string(p.Name)] = string(p.SQL)
		d.out.B = wire.AppendEmpty(d.out.B, wire.ParseComplete)
	case wire.Bind:
		return d.bind(body)
	case wire.Describe:
		return d.describe(body)
	case wire.Execute:
		return d.executePortal(body)
	case wire.Close:
		kind, name, ok := wire.DescribeName(body)
		if !ok {
			return malformed()
		}
		if kind == 'S' {
			delete(d.statements, string(name))
		} else {
			delete(d.portals, string(name))
		}
		d.out.B = wire.AppendEmpty(d.out.B, wire.CloseComplete)
	default:
		return pgerr.New(pgerr.FeatureNotSupported, "the admin database knows queries only").WithHint("Send SHOW HELP for its commands.")
	}
	return nil
}

func (d *Dialogue) bind(body []byte) error {
	bound, name, rest, ok := wire.BindNames(body)
	if !ok {
		return malformed()
	}
	line, there := d.statements[string(name)]
	if !there {
		return pgerr.New(pgerr.InvalidSQLStatementName, "prepared statement %q does not exist", name)
	}
	values, formats, ok := wire.SplitBind(rest)
	if !ok {
		return malformed()
	}
	if at := 2 + 2*int(binary.BigEndian.Uint16(values)); binary.BigEndian.Uint16(values[at:]) > 0 {
		return pgerr.New(pgerr.ProtocolViolation, "the admin database takes no parameters").WithHint("Write the value into the command.")
	}
	if len(d.portals) >= maxKept {
		return pgerr.New(pgerr.ConfigurationLimitExceeded, "too many portals")
	}
	d.portals[string(bound)] = &portal{line: line, formats: append([]byte(nil), formats[2:]...)}
	d.out.B = wire.AppendEmpty(d.out.B, wire.BindComplete)
	return nil
}

func (d *Dialogue) describe(body []byte) error {
	kind, name, ok := wire.DescribeName(body)
	if !ok {
		return malformed()
	}
	var line string
	var formats []byte
	if kind == 'S' {
		if line, ok = d.statements[string(name)]; !ok {
			return pgerr.New(pgerr.InvalidSQLStatementName, "prepared statement %q does not exist", name)
		}
		d.out.B = wire.AppendFrame(d.out.B, wire.ParameterDescription, []byte{0, 0})
	} else {
		p := d.portals[string(name)]
		if p == nil {
			return pgerr.New(pgerr.InvalidCursorName, "portal %q does not exist", name)
		}
		line, formats = p.line, p.formats
	}
	cols, err := console.Describe(line)
	if err != nil {
		return err
	}
	if cols == nil {
		d.out.B = wire.AppendEmpty(d.out.B, wire.NoData)
		return nil
	}
	d.out.B = appendColumns(d.out.B, cols, formats)
	return nil
}

func (d *Dialogue) executePortal(body []byte) error {
	name, rest, ok := wire.CString(body)
	if !ok || len(rest) != 4 {
		return malformed()
	}
	p := d.portals[string(name)]
	if p == nil {
		return pgerr.New(pgerr.InvalidCursorName, "portal %q does not exist", name)
	}
	if p.table == nil {
		t, err := d.execute(p.line)
		if err != nil {
			return err
		}
		p.table = &t
	}
	t := p.table
	if t.Tag == "" {
		d.out.B = wire.AppendEmpty(d.out.B, wire.EmptyQueryResponse)
		return nil
	}
	left := len(t.Rows) - p.sent
	n := left
	if limit := int(int32(binary.BigEndian.Uint32(rest))); limit > 0 {
		n = min(n, limit)
	}
	for _, r := range t.Rows[p.sent : p.sent+n] {
		d.out.Grow()
		d.out.B = appendValues(d.out.B, r, t.Columns, p.formats)
	}
	if p.sent += n; n < left {
		d.out.B = wire.AppendEmpty(d.out.B, wire.PortalSuspended)
		return nil
	}
	d.out.B = wire.AppendCommandComplete(d.out.B, t.Tag)
	return nil
}
