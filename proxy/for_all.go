package proxy

import (
	"encoding/binary"
	"strconv"

	"weft/executor"
	"weft/parser"
	"weft/pgerr"
	"weft/quote"
)

// What all participants of a block must run, such as SET, SAVEPOINT and set_config, is
// bound on one of them. The others run it when that is executed, and those that join later
// when they do: as a text, with the values of the Bind in it.

// forAll is what the other participants run when a portal is executed.
type forAll struct {
	text  string
	facts *parser.Facts
}

// setsModes reports whether a text opens a block that is open already, with options: like
// SET TRANSACTION it changes what the transaction may do.
func (t *transaction) setsModes(text []byte, f *parser.Facts) bool {
	return t.open && opensBlock(f) && joinable(text) != nil
}

// useForAll makes a backend ready to run what all participants must run, and has the
// others run it.
func (ps *portals) useForAll(text string, f *parser.Facts) error {
	if ps.s.tx.open && ps.s.tx.clock == nil && !ps.s.tx.snapped {
		// What texts are planned under is asked for before the block has a participant:
		// asked there, the question would be the first query of SET TRANSACTION's block.
		if _, err := ps.s.route.environment(); err != nil {
			return err
		}
	}
	if err := ps.s.tx.snapshotsFor(f); err != nil { // SELECT set_config(…)
		return err
	}
	sql, err := ps.oneOfAll(text, f)
	if err != nil || !ps.s.tx.open {
		return err
	}
	return ps.s.tx.onAll(sql, f)
}

// oneOfAll makes the backend ready that answers the client, and returns what the others
// run.
func (ps *portals) oneOfAll(text string, f *parser.Facts) (sql string, err error) {
	lane := ps.s.route.atHand()
	sql, home := elsewhere(text, f)
	if home {
		lane = ps.s.lane
	}
	return sql, ps.s.held.useLane(lane)
}

// bindForAll makes ready for a Bind of such a statement. tail is what the Bind carries
// beyond the names.
func (ps *portals) bindForAll(portal []byte, pl *planned, f *parser.Facts, tail []byte) error {
	if err := ps.s.tx.snapshotsFor(f); err != nil {
		return err
	}
	text, err := ps.withValues(pl, tail)
	if err != nil {
		if ps.s.tx.open {
			return err
		}
		text = ""
	}
	sql, err := ps.oneOfAll(text, f)
	if err != nil {
		return err
	}
	if !ps.s.tx.open {
		// It is undone with the messages up to the Sync, and holds for all of them.
		ps.s.implicit.piped = true
	}
	ps.noteForAll(portal, sql, f)
	return nil
}

// noteForAll notes what all participants run when a portal is executed.
func (ps *portals) noteForAll(portal []byte, sql string, f *parser.Facts) {
	if ps.forAll == nil {
		ps.forAll = map[string]forAll{}
	}
	ps.forAll[string(portal)] = forAll{sql, f}
}

// withValues returns a statement's text with the values of a Bind in it.
func (ps *portals) withValues(pl *planned, tail []byte) (string, error) {
	params, ok := executor.DecodeParams(tail)
	if !ok || params.Len() == 0 {
		return string(pl.text), nil
	}
	types := declaredTypes(pl.oids)
	if len(pl.params) > 0 {
		types = declaredTypes(pl.params)
	}
	values := make([]string, params.Len())
	for i := range values {
		v, format, ok := params.At(i)
		if !ok {
			return string(pl.text), nil // the backend shall say what is wrong with it
		}
		oid := uint32(0)
		if i < len(types) {
			oid = types[i]
		}
		if values[i], ok = asLiteral(v, format != 0, oid); !ok {
			return "", unspeakable()
		}
	}
	text, ok := parser.WithValues(string(pl.text), ps.s.record.scanOptions(), values)
	if !ok {
		return "", unspeakable()
	}
	return text, nil
}

func unspeakable() *pgerr.Error {
	return pgerr.New(pgerr.FeatureNotSupported, "the parameters of a statement that is for all shards of a transaction cannot be of this type in the binary format").
		WithHint("Send them in the text format.")
}

// asLiteral writes a value of a Bind down in SQL.
func asLiteral(v []byte, binaryFormat bool, oid uint32) (string, bool) {
	const (
		oidBool, oidName, oidInt8, oidInt2, oidInt4, oidVarchar = 16, 19, 20, 21, 23, 1043
	)
	name := map[uint32]string{
		oidBool: "bool", oidInt8: "int8", oidInt2: "int2", oidInt4: "int4", oidText: "text", oidVarchar: "varchar", oidName: "name",
	}[oid]
	text := ""
	switch {
	case v == nil:
		text = "NULL"
	case !binaryFormat, oid == oidText, oid == oidVarchar, oid == oidName, oid == 0, oid == oidUnknown:
		text = quote.Literal(string(v))
	case oid == oidBool && len(v) == 1:
		text = quote.Literal(strconv.FormatBool(v[0] != 0))
	case oid == oidInt2 && len(v) == 2:
		text = quote.Literal(strconv.Itoa(int(int16(binary.BigEndian.Uint16(v)))))
	case oid == oidInt4 && len(v) == 4:
		text = quote.Literal(strconv.Itoa(int(int32(binary.BigEndian.Uint32(v)))))
	case oid == oidInt8 && len(v) == 8:
		text = quote.Literal(strconv.FormatInt(int64(binary.BigEndian.Uint64(v)), 10))
	default:
		return "", false
	}
	if name == "" {
		return "(" + text + ")", true
	}
	return "(CAST(" + text + " AS pg_catalog." + name + "))", true
}
