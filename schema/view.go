package schema

import (
	"weft/directory"
	"weft/pgerr"
)

// viewEdges returns a row for every view and relation that it reads: the view, its name, why it
// cannot be copied; of the relation the oid, kind, schema, name, and the partitioned table that it
// is a part of.
const viewEdges = `SELECT DISTINCT v.oid, v.oid::regclass::text, CASE
  WHEN EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = v.oid AND NOT g.tgisinternal) OR (SELECT count(*) FROM pg_rewrite x WHERE x.ev_class = v.oid) > 1 THEN 'it has triggers or rules'
  WHEN NOT pg_has_role(v.relowner, 'USAGE') THEN 'it belongs to another role' ELSE '' END,
  r.oid, r.relkind, n.nspname, r.relname, coalesce((SELECT min(root.oid::regclass::text) FROM pg_partition_ancestors(r.oid) a JOIN pg_class root ON root.oid = a.relid AND NOT root.relispartition), '')
FROM pg_rewrite w JOIN pg_class v ON v.oid = w.ev_class AND v.relkind = 'v' AND v.oid >= 16384
JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid AND d.refclassid = 'pg_class'::regclass AND d.refobjid <> v.oid
JOIN pg_class r ON r.oid = d.refobjid JOIN pg_namespace n ON n.oid = r.relnamespace
WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 4`

type view struct {
	oid, name string
	why       string     // why the view cannot be copied
	reads     [][]string // rows of viewEdges
	state     int        // 0 not looked at, 1 being looked at, 2 copied, 3 not
}

// copiedViews returns the views that can live on every shard once the table is declared, and could
// not before: all relations that they read are declared. They come in the order in which they can
// be made, with what they need.
func (d *declaration) copiedViews() ([]Object, error) {
	rows, err := d.home.Exec(viewEdges)
	if err != nil {
		return nil, err
	}
	views := map[string]*view{}
	var order []*view
	for _, r := range rows {
		v := views[r[0]]
		if v == nil {
			v = &view{oid: r[0], name: r[1], why: r[2]}
			views[r[0]] = v
			order = append(order, v)
		}
		v.reads = append(v.reads, r)
	}
	declared := map[string]bool{}
	for _, t := range d.snap.Declared(d.req.Database) {
		declared[t.Schema+"\x00"+t.Name] = t.State == directory.Active
	}
	var out []Object
	for _, v := range order {
		if !d.concerns(v, views) || !d.copies(v, views, declared) {
			continue
		}
		r := &reader{session: d.home, def: &Definition{Name: d.req.Table}}
		if err := d.viewNeeds(r, v.oid); err != nil {
			return nil, err
		}
		if err := d.seen.judgement.bodies(r.def.Bodies); err != nil {
			d.notice.tell("view %s is not copied to the other shards: %s", v.name, pgerr.From(err).Message)
			v.state = 3
			continue
		}
		o, err := readObject(d.home, "view", v.name)
		if err != nil {
			return nil, err
		}
		if o != nil {
			out = append(append(out, r.def.Needs...), *o)
		}
	}
	return sortViews(out, order, views), nil
}

// viewNeeds reads what a view's query uses besides relations.
func (d *declaration) viewNeeds(r *reader, oid string) error {
	rows, err := d.home.Exec("SELECT 'pg_rewrite'::regclass::oid, oid FROM pg_rewrite WHERE ev_class = " + oid + " UNION ALL SELECT 'pg_class'::regclass::oid, " + oid)
	if err != nil {
		return err
	}
	var start []node
	for _, row := range rows {
		start = append(start, node{row[0], row[1]})
	}
	return r.needsOf(start, "")
}

// concerns reports whether a view reads the table, itself or through other views.
func (d *declaration) concerns(v *view, views map[string]*view) bool {
	for _, r := range v.reads {
		if d.isOwn(r) {
			return true
		}
		if inner := views[r[3]]; inner != nil && inner != v && d.concerns(inner, views) {
			return true
		}
	}
	return false
}

func (d *declaration) isOwn(r []string) bool {
	return r[5] == d.req.Table.Schema && r[6] == d.req.Table.Name || r[7] != "" && len(d.seen.def.Relations) > 0 && r[7] == d.seen.def.Relations[0]
}

// copies reports whether all relations that a view reads are declared.
func (d *declaration) copies(v *view, views map[string]*view, declared map[string]bool) bool {
	if v.state == 0 {
		v.state = 2
		for _, r := range v.reads {
			inner := views[r[3]]
			switch {
			case d.isOwn(r) || declared[r[5]+"\x00"+r[6]]:
			case inner != nil && d.copies(inner, views, declared):
			default:
				v.state = 3
			}
		}
		if v.why != "" && v.state == 2 {
			v.state = 3
			d.notice.tell("view %s is not copied to the other shards: %s", v.name, v.why)
		}
	}
	return v.state == 2
}

// sortViews puts views after the views that they read. Other objects stay in front.
func sortViews(objects []Object, order []*view, views map[string]*view) []Object {
	var out []Object
	byName := map[string]Object{}
	for _, o := range objects {
		if o.Kind == "view" {
			byName[o.Name] = o
		} else {
			out = append(out, o)
		}
	}
	placed := map[string]bool{}
	var place func(v *view)
	place = func(v *view) {
		if placed[v.name] {
			return
		}
		placed[v.name] = true
		for _, r := range v.reads {
			if inner := views[r[3]]; inner != nil {
				place(inner)
			}
		}
		if o, ok := byName[v.name]; ok {
			out = append(out, o)
		}
	}
	for _, v := range order {
		place(v)
	}
	return out
}
