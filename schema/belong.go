package schema

import (
	"fmt"
	"slices"
	"strings"

	"weft/catalog"
	"weft/pgerr"
)

// A query may use any type, function, aggregate, operator or cast inside the shards. So all of
// these that users have made on the home shard belong on the other shards too, from the first
// declaration on; later ones go everywhere when they are made. An object that mentions a table
// which only the home shard has stays at home, and follows when that table is declared.

// belongingsQuery lists the user's objects that are not relations. Objects of extensions come with
// their extension, and weft installs its own elsewhere.
const belongingsQuery = `SELECT o.class, o.id, i.type, i.identity, coalesce(c.relkind::text, ''), coalesce(t.typtype::text, ''), coalesce(p.prokind::text, ''), coalesce(i.schema, ''), coalesce(p.proname::text, ''),
  CASE WHEN p.prokind IN ('f', 'p', 'w') THEN md5(pg_get_functiondef(p.oid)) END
FROM (SELECT 'pg_namespace'::regclass::oid AS class, oid AS id FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname !~ '^weft(_gate)?$'
  UNION ALL SELECT 'pg_extension'::regclass, oid FROM pg_extension
  UNION ALL SELECT 'pg_type'::regclass, y.oid FROM pg_type y LEFT JOIN pg_class r ON r.oid = y.typrelid WHERE y.typtype IN ('e', 'd', 'r') OR y.typtype = 'c' AND r.relkind = 'c'
  UNION ALL SELECT 'pg_collation'::regclass, oid FROM pg_collation
  UNION ALL SELECT 'pg_proc'::regclass, oid FROM pg_proc
  UNION ALL SELECT 'pg_operator'::regclass, oid FROM pg_operator
  UNION ALL SELECT 'pg_cast'::regclass, oid FROM pg_cast) o
CROSS JOIN LATERAL pg_identify_object(o.class, o.id, 0) i
LEFT JOIN pg_class c ON false
LEFT JOIN pg_type t ON o.class = 'pg_type'::regclass AND t.oid = o.id
LEFT JOIN pg_proc p ON o.class = 'pg_proc'::regclass AND p.oid = o.id
WHERE o.id >= 16384 AND coalesce(i.schema, '') !~ '^(pg_|weft$|weft_gate$|information_schema$)'
AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = o.class AND d.objid = o.id AND (d.deptype = 'e' OR d.deptype = 'i' AND o.class IN ('pg_proc'::regclass, 'pg_cast'::regclass)))
ORDER BY 1, 2`

// belonging is a user's object that is not a relation.
type belonging struct {
	*vertex
	name catalog.Name // of a function
	sum  string       // of its definition
}

func (b *belonging) key() string { return b.kind + " " + b.vertex.name }

// belongings lists the user's objects of a shard.
func belongings(s *session) ([]*belonging, error) {
	rows, err := s.Exec(belongingsQuery)
	if err != nil {
		return nil, err
	}
	var out []*belonging
	for _, r := range rows {
		b := &belonging{vertex: &vertex{node: node{r[0], r[1]}}, name: catalog.Name{Schema: r[7], Name: r[8]}, sum: r[9]}
		b.classify(r[2], r[3], "", r[4], r[5], r[6])
		if b.kind != "" {
			out = append(out, b)
		}
	}
	return out, nil
}

// bring makes on the other shards the belongings that they lack.
func (d *declaration) bring() error {
	if len(d.shards) == 0 {
		return nil
	}
	own, err := d.ownBelongings()
	if err != nil {
		return err
	}
	var objects map[string]Object
	for _, s := range d.shards {
		missing, err := d.missing(s, own)
		if err != nil {
			return err
		}
		if len(missing) > 0 && objects == nil {
			if objects, err = d.readBelongings(own); err != nil {
				return err
			}
		}
		for _, b := range missing {
			if o, ok := objects[b.key()]; ok {
				if err := d.make(s, &o); err != nil {
					return err
				}
			}
		}
		if err := d.bringRights(s); err != nil {
			return err
		}
	}
	return nil
}

// missing returns the belongings of home that a shard lacks, or defines differently, and that can
// live there. Objects that others need come first.
func (d *declaration) missing(s *session, own []*belonging) ([]*belonging, error) {
	there, err := belongings(s)
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	for _, b := range there {
		sums[b.key()] = "=" + b.sum
	}
	relations, err := s.Exec("SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid >= 16384")
	if err != nil {
		return nil, err
	}
	has := map[catalog.Name]bool{}
	for _, r := range relations {
		has[catalog.Name{Schema: r[0], Name: r[1]}] = true
	}
	var out []*belonging
	for _, b := range own {
		if sums[b.key()] == "="+b.sum || b.name.Name != "" && !d.livesBeside(b.name, has) {
			continue
		}
		out = append(out, b)
	}
	return out, nil
}

// livesBeside reports whether a function mentions only tables in has.
func (d *declaration) livesBeside(name catalog.Name, has map[catalog.Name]bool) bool {
	for _, f := range d.seen.judgement.schema.Functions(name.Name) {
		if f.Name != name {
			continue
		}
		for _, n := range f.Mentions {
			if r := d.seen.judgement.schema.Relation(n); r != nil && !r.System() && !has[n] {
				return false
			}
		}
	}
	return true
}

// ownBelongings returns the belongings of home, in the order in which they can be made.
func (d *declaration) ownBelongings() ([]*belonging, error) {
	own, err := belongings(d.home)
	if err != nil {
		return nil, err
	}
	r := &reader{session: d.home, def: &Definition{}, graph: graph{nodes: map[node]*vertex{}}}
	var start []*vertex
	for _, b := range own {
		r.graph.nodes[b.node] = b.vertex
		start = append(start, b.vertex)
	}
	if err := r.crawl(slices.DeleteFunc(slices.Clone(start), func(v *vertex) bool { return v.leaf })); err != nil {
		return nil, err
	}
	var sorted []*vertex
	for _, v := range start {
		r.graph.visit(v, &sorted)
	}
	at := map[string]int{}
	for i, v := range sorted {
		at[v.kind+" "+v.name] = i
	}
	slices.SortStableFunc(own, func(x, y *belonging) int { return at[x.key()] - at[y.key()] })
	return own, nil
}

// readBelongings reads the statements that make the belongings.
func (d *declaration) readBelongings(own []*belonging) (map[string]Object, error) {
	out := map[string]Object{}
	for _, b := range own {
		o, err := readObject(d.home, b.kind, b.vertex.name)
		if err != nil {
			return nil, err
		}
		if o != nil && len(o.Create) > 0 {
			out[b.key()] = *o
		}
	}
	return out, nil
}

// make makes an object if the shard can. A failure does not refuse the declaration: no declared
// table needs the object.
func (d *declaration) make(s *session, o *Object) error {
	const point = `"\x01b"`
	if err := s.run("SAVEPOINT " + point); err != nil {
		return err
	}
	err := s.run(strings.Join(append(slices.Clone(o.Create), o.Dress...), "; ") + "; RELEASE " + point)
	if err == nil {
		return nil
	}
	if undone := s.run("ROLLBACK TO " + point + "; RELEASE " + point); undone != nil {
		return undone
	}
	e := pgerr.From(err)
	if e.Code == pgerr.UndefinedObject || e.Code == pgerr.UndefinedTable {
		return nil // the object is about a table that the shard does not have
	}
	d.notice(&pgerr.Error{
		Severity: pgerr.SeverityNotice, Code: "00000",
		Message: fmt.Sprintf("%s %s is not on shard %s, because it cannot be made there: %s", o.Kind, o.Name, s.shard, e.Message),
		Hint:    "Statements that use it inside the shards will fail. SELECT weft.schema_diff() lists what differs.",
	})
	return nil
}
