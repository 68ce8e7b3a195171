package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"weft/executor"
	"weft/explain"
	"weft/parser"
	"weft/plan"
	"weft/planner"
	"weft/survey"
)

// print writes the plan of a text and the shards it visits.
func (e *explainer) print(out io.Writer, text string, params []string) error {
	var scan parser.Scanner
	scan.Scan([]byte(text), e.env.Options)
	p := planner.Plan(e.env, text, scan.Literals, nil)
	if len(params) > 0 && len(params) != len(p.Params) {
		return &usageError{fmt.Errorf("the statement has %d parameters, and --param is given %d times", len(p.Params), len(params))}
	}
	if p.Missing != "" {
		return fmt.Errorf("relation %q does not exist: names are looked for in %s (--search-path)", p.Missing, strings.Join(e.env.Path, ", "))
	}
	args := &executor.Args{
		Text: []byte(text), Literals: scan.Literals, Options: e.env.Options,
		Params: executor.TextParams(values(params)), Generated: survey.Samples(p),
	}
	head := *p
	if p.Gather() != nil {
		head.Across = nil // it is told in full below
	}
	if p.Gather() != nil || p.Write() != nil {
		head.Refusal = nil
	}
	fmt.Fprint(out, &head)
	for _, i := range literals(p) {
		l := scan.Literals[i]
		fmt.Fprintf(out, "  '%d' is %s\n", i+1, text[l.Start:l.End])
	}
	if p.Route != plan.Keyed { // what is known of the keys is said above
		for _, why := range p.Why {
			fmt.Fprintf(out, "  because %s\n", why)
		}
	}
	switch {
	case p.Route == plan.Refused:
		return nil
	case p.Route == plan.Call:
		fmt.Fprintln(out, "visits no shard as it is: weft runs the function itself")
		return nil
	case p.Route == plan.Program:
		fmt.Fprintln(out, "visits the shards of its statements: weft runs the PL/pgSQL itself, and plans each statement by itself")
		return nil
	case p.Route == plan.Gathered && p.Gather() == nil:
		return nil // a write, which is told above
	case p.Route == plan.Gathered:
		return e.gathers(out, p, args, len(p.Params) == len(params))
	case p.Route == plan.Keyed && len(p.Params) > 0 && len(params) == 0:
		fmt.Fprintln(out, "visits the shards that its parameters say: give --param for each to see them")
		if p.Gather() != nil {
			fmt.Fprintln(out, "if they are several:")
			return e.gathers(out, p, args, false)
		}
		return nil
	}
	var b executor.Binder
	shards, err := b.Bind(p, e.snap, args)
	if err != nil {
		fmt.Fprintf(out, "refused: %v\n", err)
		return nil
	}
	e.visits(out, p, shards)
	if _, one := shards.One(); !one && p.Gather() != nil {
		return e.gathers(out, p, args, true)
	}
	return nil
}

// gathers says how a query is answered that several shards have rows for. If the
// values are not known, it does not say which.
func (e *explainer) gathers(out io.Writer, p *plan.Plan, args *executor.Args, known bool) error {
	g := p.Gather()
	x := &explain.Execution{
		Gather: g, Home: e.snap.Home,
		Literal: func(i int) string {
			l := args.Literals[i]
			return string(args.Text[l.Start:l.End])
		},
	}
	for i := range e.snap.Shards {
		x.Shards = append(x.Shards, e.snap.Shards[i].Name)
	}
	if known {
		x.Visits = make([][]int, len(x.Shards))
		var b executor.Binder
		for i := range g.Pieces {
			shards, err := b.BindPiece(p, &g.Pieces[i], e.snap, args)
			if err != nil {
				fmt.Fprintf(out, "refused: %v\n", err)
				return nil
			}
			for shard := range shards.All() {
				x.Visits[shard] = append(x.Visits[shard], i)
			}
		}
	}
	r := explain.New(x)
	r.Plan.Shards = nil // they have nothing to say
	for _, l := range r.Lines() {
		fmt.Fprintln(out, l)
	}
	if g.Otherwise != nil {
		fmt.Fprintln(out, "if types of columns forbid that:")
		other := *p
		other.Across = g.Otherwise
		return e.gathers(out, &other, args, known)
	}
	return nil
}

// visits says which shards a statement goes to.
func (e *explainer) visits(out io.Writer, p *plan.Plan, shards executor.Shards) {
	var names []string
	for i := range shards.All() {
		names = append(names, e.snap.Shards[i].Name)
	}
	switch {
	case shards.Any() && p.Route == plan.Keyed:
		fmt.Fprintf(out, "visits any shard, such as %s: no row can match\n", names[0])
	case shards.Any():
		fmt.Fprintf(out, "visits any shard, such as %s\n", names[0])
	case len(names) == 1:
		fmt.Fprintf(out, "visits %s\n", names[0])
	default:
		fmt.Fprintf(out, "visits %d of %d shards: %s\n", len(names), len(e.snap.Shards), strings.Join(names, ", "))
	}
	for _, m := range shards.Missing {
		fmt.Fprintf(out, "value %q of lookup %s has no place yet: weft gives it one when a row is written\n", m.Key, m.Lookup)
	}
	if generatedKey(p) {
		fmt.Fprintln(out, "weft supplies the key; it was taken to be 1 and so on, and another may be on another shard")
	}
	if len(names) > 1 && p.Route == plan.Keyed && p.Gather() == nil && p.Write() == nil && p.Refusal != nil {
		fmt.Fprintf(out, "refused with SQLSTATE %s: %s\n", p.Refusal.Code, p.Refusal.Message)
	}
}

// sources calls f for everything that a plan takes key values from.
func sources(p *plan.Plan, f func(plan.Source)) {
	var visit func(s plan.Source)
	visit = func(s plan.Source) {
		f(s)
		if s.Expr != nil {
			visit(s.Expr.Left)
			visit(s.Expr.Right)
		}
	}
	for _, in := range p.Instances {
		for _, sets := range in.Keys {
			for _, set := range sets {
				for _, s := range set {
					visit(s)
				}
			}
		}
	}
}

// literals returns the literals that keys come from, in order.
func literals(p *plan.Plan) []int {
	var out []int
	sources(p, func(s plan.Source) {
		if s.Kind == plan.Literal || s.Kind == plan.Array {
			out = append(out, s.Index)
		}
	})
	slices.Sort(out)
	return slices.Compact(out)
}

func generatedKey(p *plan.Plan) bool {
	found := false
	sources(p, func(s plan.Source) { found = found || s.Kind == plan.Generated })
	return found
}

func values(params []string) [][]byte {
	var out [][]byte
	for _, p := range params {
		if p == "NULL" {
			out = append(out, nil)
			continue
		}
		out = append(out, append([]byte{}, p...))
	}
	return out
}
