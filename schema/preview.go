package schema

import (
	"context"
	"fmt"
	"slices"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/quote"
)

// Preview is what the declaration of a table would say.
type Preview struct {
	Table directory.Table
	// Refusals keep the table from being declared. Notices would be told with the declaration.
	Refusals, Notices []Remark
}

// Remark is a refusal or a notice, with statements that mend its cause. They are for people to look
// at before they run them.
type Remark struct {
	*pgerr.Error
	Mend []string
}

// PreviewAll judges the declarations of tables of one database, all at once, by the steps of a
// declaration. c is connected to a server with the schema, and only reads there. snap is the
// cluster with the tables in it; their columns need no types. The schema is returned, too, and snap
// gets the types.
func PreviewAll(ctx context.Context, c Conn, snap *directory.Snapshot, database string) ([]Preview, *catalog.Schema, error) {
	s := &session{Conn: c, ctx: ctx}
	if err := s.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", settings+quote.Literal("weft")); err != nil {
		return nil, nil, err
	}
	schema, err := catalog.Load(0, (&session{Conn: insideConn{c}, ctx: ctx}).Exec)
	if err != nil {
		return nil, nil, err
	}
	for i := range snap.Tables {
		if snap.Tables[i].Database == database {
			snap.Tables[i].State = directory.Active
			addTypes(&snap.Tables[i], schema)
		}
	}
	var out []Preview
	for _, d := range snap.Declared(database) {
		j := newJudgement(schema, without(snap, d), d)
		if rel := schema.Relation(j.req.Table); rel != nil && (rel.Kind == catalog.Table || rel.Kind == catalog.PartitionedTable) {
			if j.def, err = readDefinition(s, j.req.Table); err != nil {
				return nil, nil, err
			}
			if j.equal, err = exclusions(s, j.req.Table); err != nil {
				return nil, nil, err
			}
		}
		p := &previewing{judgement: j, out: Preview{Table: d}}
		p.refuse(untyped(s, j.req))
		if err := p.run(s); err != nil {
			return nil, nil, err
		}
		out = append(out, p.out)
	}
	return out, schema, nil
}

// addTypes completes the key columns of a declaration, and its vindex.
func addTypes(d *directory.Table, schema *catalog.Schema) {
	rel := schema.Relation(catalog.Name{Schema: d.Schema, Name: d.Name})
	if rel == nil {
		return
	}
	for i := range d.Columns {
		if c := rel.Column(d.Columns[i].Name); c != nil {
			d.Columns[i].Type, d.Columns[i].TypeName, d.Columns[i].Mod = c.Base, c.TypeName, c.Mod
		}
	}
}

// without returns a snapshot that lacks a table.
func without(snap *directory.Snapshot, d directory.Table) *directory.Snapshot {
	next := snap.Clone()
	next.Tables = slices.DeleteFunc(next.Tables, func(t directory.Table) bool {
		return t.Database == d.Database && t.Schema == d.Schema && t.Name == d.Name
	})
	return next
}

// newJudgement returns the judgement of a declaration, as far as the schema tells.
func newJudgement(schema *catalog.Schema, snap *directory.Snapshot, d directory.Table) *judgement {
	req := &Request{Database: d.Database, Table: catalog.Name{Schema: d.Schema, Name: d.Name}, Vindex: d.Vindex}
	for _, c := range d.Columns {
		req.Columns = append(req.Columns, c.Name)
	}
	return &judgement{snap: snap, schema: schema, def: &Definition{}, req: req, kind: d.Kind}
}

// previewing is the judgement of one table that goes on after a refusal.
type previewing struct {
	*judgement
	out Preview
}

// refuse takes a refusal down, unless there is none or it is known.
func (p *previewing) refuse(err error, mend ...string) {
	for _, e := range addRefusal(nil, err) {
		if !slices.ContainsFunc(p.out.Refusals, func(r Remark) bool { return r.Message == e.Message }) {
			p.out.Refusals = append(p.out.Refusals, Remark{e, mend})
		}
	}
}

// run takes the steps of judge, one object at a time.
func (p *previewing) run(s *session) error {
	j := p.judgement
	for _, step := range []func() error{j.table, j.key} {
		if err := step(); err != nil {
			p.refuse(err)
			return nil // the other steps need the table and its vindex
		}
	}
	p.note()
	if j.kind == directory.Sharded {
		for _, rel := range tree(j.rel) {
			for i := range rel.Unique {
				if err := p.unique(s, rel, &rel.Unique[i]); err != nil {
					return err
				}
			}
		}
	}
	for _, rel := range tree(j.rel) {
		for _, fk := range rel.ForeignKeys {
			to := j.declared(fk.References)
			if err := j.foreignKey(fk, &j.out.table, to); err != nil {
				p.refuse(err, j.mendForeignKey(fk, to)...)
			}
		}
	}
	// Foreign keys of other declared tables are judged with those tables.
	for _, rel := range tree(j.rel) {
		for _, fk := range rel.Referenced {
			if j.kind == directory.Sharded && j.declared(fk.Table) == nil {
				j.out.incoming = append(j.out.incoming, fk)
			}
		}
	}
	for _, fk := range j.out.incoming {
		p.out.Notices = append(p.out.Notices, Remark{&pgerr.Error{
			Severity: pgerr.SeverityNotice, Code: "00000",
			Message: fmt.Sprintf("foreign key %q of home table %q on %q is dropped with the declaration, if the home table has rows", fk.Name, display(fk.Table), display(fk.References)),
			Hint:    fmt.Sprintf("Declare %s too.", display(fk.Table)),
		}, nil})
	}
	for _, e := range j.obstacles() {
		p.refuse(e)
	}
	return nil
}

// note moves the notices of the judgement to the preview.
func (p *previewing) note(mend ...string) {
	for _, n := range p.judgement.out.notices {
		p.out.Notices = append(p.out.Notices, Remark{n, mend})
	}
	p.judgement.out.notices = nil
}

// unique judges one index, and words what mends it.
func (p *previewing) unique(s *session, rel *catalog.Relation, u *catalog.Unique) error {
	err := p.judgement.uniqueIndex(rel, u)
	if err == nil {
		var mend []string
		if !slices.Contains(u.Columns, "") && !slices.ContainsFunc(p.req.Columns, func(k string) bool { return slices.Contains(u.Columns, k) }) {
			mend = p.lookup(u)
		}
		if p.judgement.notLookedUp(rel, u) != "" || slices.ContainsFunc(u.Columns, func(name string) bool { c := rel.Column(name); return c != nil && generated(c) }) {
			p.note(mend...)
		} else {
			p.note() // the declaration makes the lookup by itself
		}
		return nil
	}
	var mend []string
	if !u.Exclusion && rel == p.rel {
		var readErr error
		if mend, readErr = mendUnique(s, rel, u, p.req.Columns); readErr != nil {
			return readErr
		}
	}
	p.refuse(err, mend...)
	return nil
}
