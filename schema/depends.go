package schema

import (
	"regexp"
	"strings"

	"weft/catalog"
)

// graph has the objects that a table depends on, from pg_depend.
type graph struct {
	nodes map[node]*vertex
	order []*vertex // in the order in which crawl has met them
}

// node identifies an object by the OIDs of its catalog and of itself.
type node struct{ class, oid string }

// vertex is an object with the objects that it depends on.
type vertex struct {
	node
	kind, name string
	needs      []node
	// leaf: the object's own dependencies do not matter, because the object comes
	// with an extension or is another relation.
	leaf bool
	done bool // visit has been here
}

// dependsQuery returns the dependencies of a list of objects. A row has the object
// and the object it depends on, and of the latter the kind, the name and the
// extension it belongs to. The columns of a composite type and the constraints of a
// domain depend on their type in pg_depend; here the type depends on them.
const dependsQuery = `WITH start(class, id) AS (SELECT * FROM unnest($classes::oid[], $ids::oid[])),
edges AS (
  SELECT s.class, s.id, d.refclassid, d.refobjid FROM start s JOIN pg_depend d ON d.classid = s.class AND d.objid = s.id
  WHERE d.refobjid >= 16384 AND d.deptype IN ('n', 'a', 'i', 'x', 'P', 'S')
  UNION SELECT s.class, s.id, 'pg_class'::regclass, t.typrelid FROM start s JOIN pg_type t ON s.class = 'pg_type'::regclass AND t.oid = s.id
    JOIN pg_class c ON c.oid = t.typrelid AND c.relkind = 'c'
  UNION SELECT s.class, s.id, 'pg_constraint'::regclass, k.oid FROM start s JOIN pg_constraint k ON s.class = 'pg_type'::regclass AND k.contypid = s.id
)
SELECT DISTINCT e.class, e.id, e.refclassid, e.refobjid, i.type, i.identity, coalesce(x.extname, ''), coalesce(c.relkind::text, ''), coalesce(t.typtype::text, ''), coalesce(p.prokind::text, '')
FROM edges e CROSS JOIN LATERAL pg_identify_object(e.refclassid, e.refobjid, 0) i
LEFT JOIN pg_depend m ON m.classid = e.refclassid AND m.objid = e.refobjid AND m.deptype = 'e'
LEFT JOIN pg_extension x ON x.oid = m.refobjid AND m.refclassid = 'pg_extension'::regclass
LEFT JOIN pg_class c ON e.refclassid = 'pg_class'::regclass AND c.oid = e.refobjid
LEFT JOIN pg_type t ON e.refclassid = 'pg_type'::regclass AND t.oid = e.refobjid
LEFT JOIN pg_proc p ON e.refclassid = 'pg_proc'::regclass AND p.oid = e.refobjid
ORDER BY 1, 2, 3, 4`

// startQuery returns the table's own objects, without foreign keys and internal
// triggers, which are judged elsewhere.
const startQuery = `SELECT 'pg_class'::regclass::oid, unnest($set)
UNION ALL SELECT 'pg_class'::regclass::oid, indexrelid FROM pg_index WHERE indrelid = ANY($set)
UNION ALL SELECT 'pg_constraint'::regclass::oid, oid FROM pg_constraint WHERE conrelid = ANY($set) AND contype IN ('c', 'p', 'u', 'x')
UNION ALL SELECT 'pg_attrdef'::regclass::oid, oid FROM pg_attrdef WHERE adrelid = ANY($set)
UNION ALL SELECT 'pg_trigger'::regclass::oid, oid FROM pg_trigger WHERE tgrelid = ANY($set) AND NOT tgisinternal AND tgfoid NOT IN (SELECT oid FROM pg_proc WHERE pronamespace = to_regnamespace('weft'))
UNION ALL SELECT 'pg_policy'::regclass::oid, oid FROM pg_policy WHERE polrelid = ANY($set)
UNION ALL SELECT 'pg_statistic_ext'::regclass::oid, oid FROM pg_statistic_ext WHERE stxrelid = ANY($set)`

// needs finds the objects that the table uses and how to make them.
func (r *reader) needs() error {
	rows, err := r.Exec(strings.ReplaceAll(startQuery, "$set", r.set()))
	if err != nil {
		return err
	}
	var start []node
	for _, row := range rows {
		start = append(start, node{row[0], row[1]})
	}
	return r.needsOf(start, "")
}

// needsOf crawls from start and fills Needs, Uses and Bodies. If start is a view, own
// is the view's name: a view does not need itself.
func (r *reader) needsOf(start []node, own string) error {
	r.graph = graph{nodes: map[node]*vertex{}}
	var vs []*vertex
	for _, n := range start {
		v := &vertex{node: n}
		r.graph.nodes[n] = v
		vs = append(vs, v)
	}
	if err := r.crawl(vs); err != nil {
		return err
	}
	if err := r.called(); err != nil {
		return err
	}
	var sorted []*vertex
	for _, v := range vs {
		r.graph.visit(v, &sorted)
	}
	for _, v := range r.graph.order {
		r.graph.visit(v, &sorted)
	}
	for _, v := range sorted {
		switch {
		case v.kind == "" || v.name == own:
		case v.kind == "relation":
			rows, err := r.Exec("SELECT nspname, relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE c.oid = " + v.oid)
			if err != nil {
				return err
			}
			if len(rows) == 1 {
				r.def.Uses = append(r.def.Uses, catalog.Name{Schema: rows[0][0], Name: rows[0][1]})
			}
		default:
			o, err := readObject(r.session, v.kind, v.name)
			if err != nil {
				return err
			}
			if o == nil {
				continue // the object was dropped meanwhile: the table's lock does not cover it
			}
			r.def.Needs = append(r.def.Needs, *o)
		}
	}
	return r.roles(sorted)
}

// roles finds the roles that own objects, have rights on them, or are named in
// policies. Roles that every server has from the start are not listed.
func (r *reader) roles(vs []*vertex) error {
	var classes, ids []string
	for _, v := range vs {
		if v.kind == "extension" || v.kind == "relation" {
			continue
		}
		classes, ids = append(classes, v.class), append(ids, v.oid)
	}
	rows, err := r.Exec(`SELECT DISTINCT rolname FROM unnest('{` + strings.Join(classes, ",") + `}'::oid[], '{` + strings.Join(ids, ",") + `}'::oid[]) AS o(class, id)
JOIN pg_shdepend d ON d.classid = o.class AND d.objid = o.id AND d.refclassid = 'pg_authid'::regclass
  AND d.dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
JOIN pg_roles a ON a.oid = d.refobjid ORDER BY 1`)
	if err != nil {
		return err
	}
	for _, row := range rows {
		r.def.Roles = append(r.def.Roles, row[0])
	}
	return nil
}

// crawl follows the dependencies of the vertices in from, level by level.
func (r *reader) crawl(from []*vertex) error {
	for len(from) > 0 {
		var classes, ids []string
		for _, v := range from {
			classes, ids = append(classes, v.class), append(ids, v.oid)
		}
		rows, err := r.Exec(strings.NewReplacer("$classes", "'{"+strings.Join(classes, ",")+"}'", "$ids", "'{"+strings.Join(ids, ",")+"}'").Replace(dependsQuery))
		if err != nil {
			return err
		}
		from = nil
		for _, row := range rows {
			v := r.graph.nodes[node{row[0], row[1]}]
			to := node{row[2], row[3]}
			v.needs = append(v.needs, to)
			if r.graph.nodes[to] != nil {
				continue
			}
			n := &vertex{node: to}
			n.classify(row[4], row[5], row[6], row[7], row[8], row[9])
			r.graph.nodes[to] = n
			r.graph.order = append(r.graph.order, n)
			if !n.leaf {
				from = append(from, n)
			}
		}
	}
	return nil
}

// classify gives a vertex the kind and name of its object. A vertex without a kind
// only leads to other objects.
func (v *vertex) classify(kind, name, extension, relkind, typtype, prokind string) {
	switch {
	case extension != "":
		v.kind, v.name, v.leaf = "extension", extension, true
	case kind == "extension":
		v.kind, v.name, v.leaf = "extension", name, true
	case kind == "schema":
		v.kind, v.name, v.leaf = "schema", name, true
	case relkind == "S":
		v.kind, v.name = "sequence", name
	case relkind == "r" || relkind == "p" || relkind == "v" || relkind == "m" || relkind == "f":
		v.kind, v.name, v.leaf = "relation", name, true
	case relkind != "":
	case kind == "type" && (typtype == "e" || typtype == "c" || typtype == "r"):
		v.kind, v.name = "type", name
		if strings.HasSuffix(name, "[]") {
			v.kind, v.name = "", ""
		}
	case kind == "type" && typtype == "d":
		v.kind, v.name = "domain", name
	case kind == "type": // arrays and multiranges come with their elements
		if typtype == "b" && !strings.HasSuffix(name, "[]") {
			v.kind, v.name = "base type", name
		}
	case kind == "aggregate" || kind == "operator" || kind == "cast":
		v.kind, v.name = kind, name
	case kind == "function" || kind == "procedure":
		v.kind, v.name = "function", name
	case kind == "collation":
		v.kind, v.name = "collation", name
	case strings.Contains(kind, "constraint") || kind == "default value" || kind == "trigger" || kind == "rule" || kind == "policy" || kind == "statistics object":
	default:
		v.kind, v.name, v.leaf = kind, name, true
	}
}

// visit appends the objects that v needs and then v, each object once.
func (g *graph) visit(v *vertex, to *[]*vertex) {
	if v.done {
		return
	}
	v.done = true
	for _, n := range v.needs {
		g.visit(g.nodes[n], to)
	}
	// Many objects may stand for the same extension.
	for _, o := range *to {
		if o.kind == v.kind && o.name == v.name {
			return
		}
	}
	*to = append(*to, v)
}

var word = regexp.MustCompile(`[\pL_][\pL\pN_$]*`)

// called adds the functions that the texts of other functions name: pg_depend does
// not know these calls.
func (r *reader) called() error {
	all, err := r.Exec(`SELECT p.oid, p.proname FROM pg_proc p WHERE p.oid >= 16384 AND prokind IN ('f', 'p')
AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')`)
	if err != nil {
		return err
	}
	byName := map[string][]string{}
	for _, row := range all {
		byName[strings.ToLower(row[1])] = append(byName[strings.ToLower(row[1])], row[0])
	}
	class, err := r.one("SELECT 'pg_proc'::regclass::oid")
	if err != nil {
		return err
	}
	read := map[string]bool{}
	for {
		var oids []string
		for _, v := range r.graph.order {
			if v.kind == "function" && !read[v.oid] {
				oids = append(oids, v.oid)
				read[v.oid] = true
			}
		}
		if len(oids) == 0 {
			return nil
		}
		rows, err := r.Exec(`SELECT p.oid, p.oid::regprocedure::text, prosrc, nspname, proname FROM pg_proc p JOIN pg_language l ON l.oid = prolang JOIN pg_namespace n ON n.oid = pronamespace
WHERE p.oid = ANY('{` + strings.Join(oids, ",") + `}') AND lanname NOT IN ('c', 'internal') ORDER BY 2`)
		if err != nil {
			return err
		}
		var more []*vertex
		for _, row := range rows {
			r.def.Bodies = append(r.def.Bodies, Body{catalog.Name{Schema: row[3], Name: row[4]}, row[1], row[2]})
			for _, w := range word.FindAllString(strings.ToLower(row[2]), -1) {
				for _, oid := range byName[w] {
					n := node{class, oid}
					if r.graph.nodes[n] != nil {
						continue
					}
					v := &vertex{node: n, kind: "function"}
					if v.name, err = r.one("SELECT identity FROM pg_identify_object('pg_proc'::regclass, " + oid + ", 0)"); err != nil {
						return err
					}
					r.graph.nodes[n] = v
					r.graph.order = append(r.graph.order, v)
					more = append(more, v)
				}
			}
		}
		if err := r.crawl(more); err != nil {
			return err
		}
	}
}
