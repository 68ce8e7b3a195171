package proxy

import (
	"context"
	"fmt"
	"slices"
	"time"

	"weft/console"
	"weft/directory"
	"weft/heat"
	"weft/heat/verdict"
	"weft/parser"
	"weft/pgerr"
	"weft/proxy/judge"
	"weft/proxy/peer"
)

// Warnings implements console.Source.
func (a adminSource) Warnings(_ context.Context, values bool) []console.Warning {
	state := a.srv.keeper.verdicts.judge.State()
	if a.silent != nil && !state.Off && state.Age > judge.StaleAfter.Seconds() {
		a.silent([]error{fmt.Errorf("the proxy that judges what is hot was last heard of %.0f seconds ago", state.Age)}, "warnings may be missing, or out of date")
	}
	return a.srv.warnings(&state, values, time.Now())
}

// warnings words the warnings of a state.
func (s *Server) warnings(state *judge.State, values bool, now time.Time) []console.Warning {
	names := s.verdictNames(values)
	var out []console.Warning
	for _, f := range state.Warnings() {
		w := f.Words(names)
		addPlan(&w, &f, state.Notes.Advice)
		out = append(out, console.Warning{
			ID: f.WarningID(), Since: now.Add(-seconds(f.Age)), Severity: w.Severity, Object: console.Printable(w.Object), Message: console.Printable(w.Message), Advice: w.Advice, SQL: w.SQL,
			Database: f.Database, Private: f.Kind == verdict.Key || f.Kind == verdict.Statement,
		})
	}
	return out
}

// addPlan adds the step that would relieve a shard to the warning about the shard, or about a bucket of it.
func addPlan(w *verdict.Text, f *verdict.Finding, advice []judge.Advice) {
	if f.Kind != verdict.Shard && f.Kind != verdict.Bucket {
		return
	}
	for i := range advice {
		if a := &advice[i]; a.Shard == f.On && (f.Kind == verdict.Shard || a.Database == f.Database) {
			w.Advice += fmt.Sprintf(" In database %s: %s. SELECT * FROM weft.plan_heat() has all steps.", a.Database, a.Why)
			w.SQL = a.SQL
			return
		}
	}
}

// maxValue is how long a value of a key is kept at most: a longer one may have been cut.
const maxValue = 200

// verdictNames is how things are called in warnings.
func (s *Server) verdictNames(values bool) verdict.Names {
	snap, hashed := s.cfg.Snapshot(), s.conf().Heat.Hashed
	group := func(database string, number uint32) (out []*directory.Table) {
		for i := range snap.Tables {
			if t := &snap.Tables[i]; t.Database == database && t.Colocation() == number {
				out = append(out, t)
			}
		}
		return out
	}
	return verdict.Names{
		Key: func(f *verdict.Finding) string {
			switch {
			case hashed:
				return s.counts.heat.nameOf(keyName(f))
			case !values || !f.Known:
				return ""
			}
			return console.Printable(f.Value)
		},
		Value: func(f *verdict.Finding) (string, bool) {
			return f.Value, values && !hashed && f.Known && len(f.Value) < maxValue && console.Printable(f.Value) == f.Value
		},
		Tables: func(database string, number uint32) (out []string) {
			for _, t := range group(database, number) {
				out = append(out, t.Schema+"."+t.Name)
			}
			return out
		},
		Isolates: func(database string, number uint32) bool {
			return slices.ContainsFunc(group(database, number), func(t *directory.Table) bool {
				v, err := t.NewVindex(snap.BucketCount)
				return err == nil && slices.Contains([]string{"hash", "identity", "reverse_bits"}, v.Kind())
			})
		},
		Statement: func(text string) int64 { return statementID(parser.Statement(text)) },
	}
}

// keyName is what a key is known by.
func keyName(f *verdict.Finding) heat.Name {
	return heat.Name{Database: f.Database, Group: f.Group, ID: f.ID}
}

// found is what was found of each thing: what is worst.
type found map[verdict.Object]*verdict.Finding

func newFound(list []verdict.Finding) found {
	order := []verdict.Verdict{verdict.Hot, verdict.Saturated, verdict.Slow, verdict.Warm}
	out := found{}
	for i := range list {
		f := &list[i]
		if o := out[f.Object]; o == nil || slices.Index(order, f.Verdict) < slices.Index(order, o.Verdict) {
			out[f.Object] = f
		}
	}
	return out
}

// of is what was found of a thing, as views show it.
func (f found) of(o verdict.Object) console.Finding {
	if x := f[o]; x != nil {
		return console.Finding{Verdict: string(x.Verdict), Reason: string(x.Reason)}
	}
	return console.Finding{}
}

// dismissCall hides a warning for a while, for one session.
type dismissCall struct{ s *Session }

// The times for which a warning is hidden: unless something else is said, and at most.
const (
	usualDismissal   = 7 * 24 * time.Hour
	longestDismissal = 365 * 24 * time.Hour
)

// run tells all proxies. Those that come later hear of it from them.
func (d dismissCall) run(ctx context.Context, args map[string]string) error {
	if !d.s.route.monitors(ctx) {
		return pgerr.New(pgerr.InsufficientPrivilege, "must be superuser, a member of pg_read_all_stats or one of admin_users to dismiss warnings")
	}
	lasting := usualDismissal
	if text, given := args["duration"]; given {
		n, ok := guc(text, map[string]float64{"s": 1e9, "min": 60e9, "h": 3600e9, "d": 24 * 3600e9})
		if text == "0" {
			ok = true
		}
		if !ok || n < 0 || n > float64(longestDismissal) {
			return pgerr.New(pgerr.InvalidParameterValue, "%q is not a time of up to 365 days", text).WithHint(`Write '7d' or '12h': the units are "s", "min", "h" and "d". 0 shows the warning again.`)
		}
		lasting = time.Duration(n)
	}
	id := args["id"]
	state := d.s.srv.keeper.verdicts.judge.State()
	_, hidden := state.Dismissed[id]
	if !hidden && !slices.ContainsFunc(verdict.Warnings(state.Findings), func(f verdict.Finding) bool { return f.WarningID() == id }) {
		return pgerr.New(pgerr.UndefinedObject, "there is no warning %q", id).WithHint("SELECT id, message FROM weft.warnings lists them.")
	}
	d.s.srv.keeper.verdicts.judge.Dismiss(id, lasting)
	_, silent := d.s.srv.circle.Ask(ctx, peer.Question{Dismiss: id, Seconds: lasting.Seconds()})
	d.s.route.warnSilent(silent, "the warning may still be shown there")
	d.s.log.Info("a warning was dismissed", "id", console.Printable(id), "user", d.s.login.user, "for", lasting)
	return nil
}
