package proxy

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"weft/catalog"
	"weft/executor"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/quote"
	"weft/sequence"
	"weft/wire"
)

// Columns that count up would count on every shard for themselves. So weft
// draws their values from the home shard's sequence and writes them into the
// INSERT: as literals into a simple query, as parameters behind the client's
// own in the extended protocol.

// drawFor draws the values that a plan's execution needs, unless a Bind has them from its Parse.
func (d *drawn) drawFor(r *router, p *plan.Plan, how manner) error {
	if how == asBind {
		var kept bool
		if r.args.Generated, kept = d.takeFresh(r.args.Generated[:0], len(p.Generate.Values)); kept {
			return nil
		}
	}
	return d.generate(r, p)
}

// generate makes the values that a plan's execution needs.
func (d *drawn) generate(r *router, p *plan.Plan) error {
	values := p.Generate.Values
	r.args.Generated = r.args.Generated[:0]
	for range values {
		r.args.Generated = append(r.args.Generated, nil)
	}
	for i := range values {
		if r.args.Generated[i] != nil {
			continue
		}
		switch {
		case values[i].Remembered:
			v, err := d.recall(values[i].Sequence)
			if err != nil {
				return err
			}
			r.args.Generated[i] = strconv.AppendInt(nil, v, 10)
			continue
		case values[i].Sequence == "":
			r.args.Generated[i] = randomUUID()
			continue
		}
		n := 0
		for j := i; j < len(values); j++ {
			if values[j].Sequence == values[i].Sequence {
				n++
			}
		}
		drawn, err := d.draw(values[i].Sequence, values[i].Identity, n)
		if err != nil {
			return err
		}
		for j := i; j < len(values); j++ {
			if values[j].Sequence == values[i].Sequence {
				r.args.Generated[j] = strconv.AppendInt(nil, drawn[0], 10)
				drawn = drawn[1:]
			}
		}
	}
	return d.routeIDs(r, p)
}

// recall is currval of a sequence, or lastval if the name is empty, for a statement that a shard runs. What weft has not drawn is asked of the home
// shard's backend, if no other session has used that.
func (d *drawn) recall(name string) (int64, error) {
	if v, ok := d.drawnValue(name); ok {
		return v, nil
	}
	d.s.db.ReadsSequences.Store(true) // from now on sessions that write keep their backend
	ask := "SELECT pg_catalog.lastval()"
	if name != "" {
		ask = "SELECT pg_catalog.currval(" + quote.Literal(name) + ")"
	}
	rows, err := d.s.route.askBy(d.s.lane, func(c *pool.Conn) ([][]string, error) {
		if c.SoleSession() != d.s.id {
			return nil, unknownSequences()
		}
		return askHere(c, ask)
	})
	if err != nil {
		return 0, err
	}
	numbers, err := sequence.Numbers(rows)
	if err != nil || len(numbers) != 1 {
		return 0, errors.Join(err, pgerr.New(pgerr.InternalError, "the home shard gave no value of a sequence"))
	}
	return numbers[0], nil
}

// routeIDs turns the numbers drawn for routed id columns into routed ids, now that the keys of
// all rows are known.
func (d *drawn) routeIDs(r *router, p *plan.Plan) error {
	for i := range p.Generate.Values {
		v := &p.Generate.Values[i]
		if v.Routed == nil {
			continue
		}
		r.args.ASCII = d.s.out.encoding != "UTF8"
		instances := p.Instances
		if len(instances) == 0 && p.Write() != nil {
			instances = p.Write().Instances()
		}
		bucket, known, err := r.bind.Bucket(p, &instances[v.Row], d.s.route.snap, &r.args)
		if err != nil {
			return err
		}
		if !known && insertsRows(p) {
			continue // the bucket is known later, with the row's place: see inserting.routeIDs
		}
		if !known {
			return pgerr.New(pgerr.FeatureNotSupported, "the routed id %q of a row cannot be made before its shard key is known", v.Routed.Column).
				WithHint("Give the shard key as a constant or a parameter, or give the id.")
		}
		n, err := strconv.ParseInt(string(r.args.Generated[i]), 10, 64)
		if err != nil {
			return err
		}
		id, err := executor.RoutedID(v.Routed, n, bucket)
		if err != nil {
			return err
		}
		r.args.Generated[i] = strconv.AppendInt(nil, id, 10)
		d.noteDrawn(v.Sequence, id)
	}
	return nil
}

// insertsRows reports whether the rows of an INSERT go each to its shard.
func insertsRows(p *plan.Plan) bool {
	w := p.Write()
	if w == nil {
		return false
	}
	_, ok := w.Shape.(*plan.Rows)
	return ok
}

// draw takes n values of a sequence and remembers the last one for currval. A transaction that
// has changed schemas or sequences draws through its own backend: other connections do not see
// a sequence that the transaction has made or moved, and would wait for one that it has locked
// or set.
func (d *drawn) draw(name string, identity bool, n int) ([]int64, error) {
	if (d.s.record.done.resequence || d.s.record.done.schema) && d.s.route.holdsHome() {
		return d.drawInside(quoted(name), n)
	}
	return d.drawAhead(name, identity, n)
}

// drawAhead takes values that were drawn in advance, outside of the session's transaction.
// Values of an identity column are drawn with the service user's rights if the client's role
// has none.
func (d *drawn) drawAhead(name string, identity bool, n int) ([]int64, error) {
	role, _ := d.s.record.settings.Get("role")
	if user, ok := d.s.record.settings.Get("session_authorization"); ok && role == "" {
		role = user
	}
	if role != "" {
		role = d.s.lane.Key().User + "\x00" + role
	} else {
		role = d.s.lane.Key().User
	}
	// A new primary of the home shard may not have what the old one gave. Timelines only grow, as the counters of epochOf do.
	epoch := epochOf(d.s.route.snap, d.s.db.Name) + int64(d.s.lane.Shard().Generation().Timeline)
	from := sequence.Name{Database: d.s.db.Name, Sequence: quoted(name), Role: role}
	if identity && d.unentitled[from] {
		from.Role = ""
	}
	drawn, err := d.take(from, epoch, n)
	if identity && from.Role != "" && err != nil && pgerr.From(err).Code == pgerr.InsufficientPrivilege {
		if d.unentitled == nil {
			d.unentitled = map[sequence.Name]bool{}
		}
		d.unentitled[from] = true
		return d.drawAhead(name, identity, n)
	}
	if err != nil {
		return nil, err
	}
	d.noteDrawn(name, drawn[n-1])
	return drawn, nil
}

// quoted returns a name in the one spelling by which all sessions share a block of values.
func quoted(name string) string {
	ids := identifiers(name)
	for i := range ids {
		ids[i] = quote.Ident(ids[i])
	}
	return strings.Join(ids, ".")
}

// drawInside draws values in the session's own transaction on the home shard.
func (d *drawn) drawInside(name string, n int) ([]int64, error) {
	var drawn []int64
	for len(drawn) < n {
		rows, err := d.s.route.askHome(sequence.Query(name, n-len(drawn)))
		if err != nil {
			return nil, err
		}
		more, err := sequence.Numbers(rows)
		if err != nil {
			return nil, err
		}
		drawn = append(drawn, more...)
	}
	d.noteDrawn(name, drawn[n-1])
	return drawn, nil
}

// noteDrawn remembers a sequence's last value for currval and lastval.
func (d *drawn) noteDrawn(name string, v int64) {
	if d.values == nil {
		d.values = map[string]int64{}
	}
	d.last = strings.Join(identifiers(name), ".")
	d.values[d.last] = v
}

// readsDrawn reports whether a text asks for values that weft may have drawn.
func (rt *routing) readsDrawn(f *parser.Facts) bool {
	return f.Effects&(parser.ReadsSequence|parser.AdvancesSequence) != 0 && rt.hasTables
}

// errHome says that the sequence is the home shard's alone: no sharded table draws from it.
var errHome = errors.New("not a sequence of a sharded table")

// nextDrawn draws the next value of a sequence that columns of sharded tables draw from, so
// that the value comes after those that INSERTs were given.
func (d *drawn) nextDrawn(argument string) (int64, error) {
	if d.s.route.env == nil {
		return 0, errHome
	}
	name := d.s.route.sequenceName(argument)
	if len(name) != 2 {
		return 0, errHome
	}
	seq := d.s.route.env.Schema.Relation(catalog.Name{Schema: name[0], Name: name[1]})
	if seq == nil || d.s.route.env.Tables.Find(seq.OwnedBy.Schema, seq.OwnedBy.Name) == nil {
		return 0, errHome
	}
	drawn, err := d.draw(quote.Ident(name[0])+"."+quote.Ident(name[1]), false, 1)
	if err != nil {
		return 0, err
	}
	return drawn[0], nil
}

// sequenceName resolves the argument of nextval and similar functions.
func (rt *routing) sequenceName(argument string) []string {
	name := identifiers(argument)
	if len(name) == 1 && rt.env != nil {
		if rel := rt.env.Schema.Resolve(rt.env.Path, name[0]); rel != nil {
			name = []string{rel.Schema, rel.Name.Name}
		}
	}
	return name
}

// drawnValue is currval of a sequence, or lastval if argument is empty, if weft drew the value.
func (d *drawn) drawnValue(argument string) (int64, bool) {
	if argument == "" {
		v, ok := d.values[d.last]
		return v, ok
	}
	v, ok := d.values[strings.Join(d.s.route.sequenceName(argument), ".")]
	return v, ok
}

// drawnAll reports whether all values that a text asks for were drawn by weft.
func (d *drawn) drawnAll(text string) bool {
	if d.values == nil {
		return false
	}
	all := true
	_, err := parser.IdentityEdits(text, parser.Identity{Options: d.s.record.scanOptions(), Sequence: func(argument string) (int64, bool) {
		v, ok := d.drawnValue(argument)
		all = all && ok
		return v, ok
	}})
	return err == nil && all
}

// identifiers splits a qualified name and takes the quotes off.
func identifiers(name string) []string {
	var out []string
	for name != "" {
		name = strings.TrimSpace(name)
		end := strings.IndexByte(name, '.')
		if strings.HasPrefix(name, `"`) {
			end = 1
			for end < len(name) && (name[end] != '"' || strings.HasPrefix(name[end+1:], `"`)) {
				if name[end] == '"' {
					end++
				}
				end++
			}
			end++
		}
		if end < 0 || end >= len(name) {
			return append(out, unquote(strings.TrimSpace(name)))
		}
		out = append(out, unquote(strings.TrimSpace(name[:end])))
		name = strings.TrimPrefix(strings.TrimSpace(name[end:]), ".")
	}
	return out
}

// noteSequences notes what a text that runs on a backend does to sequences: weft forgets the
// values it has drawn where the backend knows newer ones.
func (d *drawn) noteSequences(f *parser.Facts, text []byte) {
	if f.Effects&(parser.DiscardAll|parser.DiscardSequences) != 0 {
		d.values, d.last = nil, ""
	}
	if f.Effects&parser.AdvancesSequence != 0 {
		d.last = ""
		for name := range d.values {
			_, short, _ := strings.Cut(name, ".")
			if bytes.Contains(text, []byte(short)) || bytes.IndexByte(text, '$') >= 0 {
				delete(d.values, name)
			}
		}
	}
	if f.Effects&parser.Writes != 0 {
		d.last = "" // lastval may now come from a serial column of a home table
	}
	if slices.Contains(f.Funcs, "setval") || f.Effects&(parser.DDL|parser.Writes) != 0 && setsSequence.Match(text) {
		d.s.record.done.resequence = true
		d.s.record.done.bits |= parser.AdvancesSequence
	}
}

// noteHome notes what a statement over several shards has drawn on the home shard itself: the backend knows newer values.
func (d *drawn) noteHome(h *plan.HomeDraws) {
	if h == nil {
		return
	}
	if h.Any {
		clear(d.values)
	}
	if h.Sets {
		d.s.record.done.resequence = true
		d.s.record.done.bits |= parser.AdvancesSequence
	}
	for _, name := range h.Sequences {
		delete(d.values, strings.Join(identifiers(name), "."))
	}
	if h.Last {
		d.last = ""
	}
	if d.s.db.ReadsSequences.Load() {
		d.s.record.pins.tie(pinSequence)
	}
}

// setsSequence finds commands that may set a sequence to another value.
var setsSequence = regexp.MustCompile(`(?i)\brestart\b|\balter\s+sequence\b|\bowned\b`)

// randomUUID returns what gen_random_uuid would: a version 4 UUID.
func randomUUID() []byte {
	b := randomUUIDBytes()
	h := hex.EncodeToString(b[:])
	return []byte(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:])
}

func randomUUIDBytes() (b [16]byte) {
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return b
}

// sendEdited runs a simple query into which weft has written values.
func (d *drawn) sendEdited(text string, edits parser.Edits, f *parser.Facts) error {
	if d.s.record.special(f) {
		if err := d.s.tx.quiesce(); err != nil {
			return d.s.lost.refuseRead(err)
		}
		d.s.record.done.note(d.s, f)
	}
	return d.s.sendQuery(edits.Apply(text), &edited{text, edits})
}

// generatedParse returns a Parse message whose text takes the generated values as parameters
// behind the client's.
func (d *drawn) generatedParse(r *router, pl *plan.Plan, p wire.ParseBody) ([]byte, *edited, error) {
	edits, err := executor.ParamEdits(pl.Generate, p.SQL, r.scan.Literals, len(pl.Params))
	if err != nil {
		return nil, nil, err
	}
	original := string(p.SQL)
	body := wire.AppendCString(nil, string(p.Name))
	body = wire.AppendCString(body, edits.Apply(original))
	return append(body, p.OIDs...), &edited{original, edits}, nil
}
