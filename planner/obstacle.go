package planner

import (
	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/plan"
)

// Obstacles returns the reasons for which statements on a table would be refused once it is
// declared as d: triggers, policies, defaults, checks and the like that need rows of other shards.
// snap has the declarations before d.
func Obstacles(schema *catalog.Schema, snap *directory.Snapshot, d directory.Table) []*pgerr.Error {
	next := snap.Clone()
	next.PutTable(d)
	env := &Env{
		Database: d.Database, Path: []string{"pg_catalog", d.Schema, "public"}, Schema: schema, Tables: NewTables(next, d.Database), Home: next.Home,
	}
	rel := schema.Relation(catalog.Name{Schema: d.Schema, Name: d.Name})
	t := env.Tables.find(catalog.Name{Schema: d.Schema, Name: d.Name})
	if rel == nil || t == nil || t.broken != nil {
		return nil
	}
	var out []*pgerr.Error
	try := func(judge func(l *level)) {
		a := &analysis{env: env, out: &plan.Plan{Route: plan.Any}, params: newParams(nil), held: map[int]bool{}}
		a.text = text{path: env.Path}
		a.client = a.text
		judge(a.top())
		if a.refused() {
			out = append(out, a.out.Refusal)
		}
	}
	try(func(l *level) { l.a.reach().casts() })
	for _, r := range (&analysis{env: env}).reach().followers(rel, &changes{all: true}) {
		own := t
		if r != rel {
			own = (&analysis{env: env}).declared(r)
		}
		if own == nil {
			continue // a table of the home shard is judged elsewhere
		}
		for i := range r.Runs {
			run := &r.Runs[i]
			switch run.Kind {
			case catalog.RunTrigger, catalog.RunRule:
			case catalog.RunDefault:
				try(func(l *level) { l.a.reach().runsWith(r, nil, run) })
			default:
				try(func(l *level) { l.a.reach().runsWith(r, own, run) })
			}
		}
		for i := range r.Policies {
			p := &r.Policies[i]
			try(func(l *level) {
				if why := l.a.objects().mayGuard(r, own, p); why != nil && r.RowSecurity {
					l.a.out.Route, l.a.out.Refusal = plan.Refused, why
				}
			})
		}
		for i := range r.Triggers {
			tr := &r.Triggers[i]
			for _, f := range schema.Functions(tr.Function.Name) {
				if f.Name == tr.Function && !own.Reference {
					try(func(l *level) { l.a.reach().mayTrigger(r, own, tr, f) })
				} else if f.Name == tr.Function && (f.Opaque || len(f.Mentions) > 0) {
					out = append(out, cannot("A trigger runs on every copy by itself, and weft cannot tell whether all of them do the same to other tables.",
						"trigger %q of reference table %q may touch other tables", tr.Name, r.Name.Name))
				}
			}
		}
	}
	return out
}
