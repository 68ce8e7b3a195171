package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"weft/directory"
	"weft/heat/throttle"
)

// limiting is what has to be done so that the directory has the throttles of a file.
type limiting struct {
	store directory.Throttles
	put   []throttle.Rule // with the ID of one that is replaced
	drop  []throttle.Rule
	lines []string // for people
}

// limit compares the throttles of the file with those of the directory. A file that says nothing of throttles changes none.
func (a *applying) limit(ctx context.Context, rules []throttle.Rule) (l limiting, err error) {
	store, ok := a.store.(directory.Throttles)
	if a.want.Throttles == nil || !ok {
		return l, nil
	}
	stored, err := store.Throttles(ctx)
	if err != nil {
		return l, err
	}
	l.store = store
	same := func(x, y *throttle.Rule) bool { return x.Target.Same(&y.Target) && x.Class == y.Class }
	manual := 0
	for i := range stored {
		s := &stored[i]
		if s.Origin == throttle.Manual {
			manual++
		}
		if s.Origin == throttle.Declared && !slices.ContainsFunc(rules, func(r throttle.Rule) bool { return same(s, &r) }) {
			l.drop = append(l.drop, *s)
			l.lines = append(l.lines, "- throttle of "+limitWords(s))
		}
	}
	for _, r := range rules {
		at := slices.IndexFunc(stored, func(s throttle.Rule) bool { return s.Origin == throttle.Declared && same(&s, &r) })
		sign := "+"
		if at >= 0 {
			if s := &stored[at]; s.Limit == r.Limit && s.Mode == r.Mode && s.Below == r.Below && s.MaxWait == r.MaxWait && s.Reason == r.Reason {
				continue
			}
			r.ID, sign = stored[at].ID, "~"
		}
		r.By, r.Created = "weft apply", time.Now().UTC().Truncate(time.Millisecond)
		l.put = append(l.put, r)
		l.lines = append(l.lines, sign+" throttle of "+limitWords(&r))
	}
	if len(rules)+manual > throttle.MaxManual {
		return l, fmt.Errorf("throttles: the file has %d, and there are %d that users have made: more than %d at a time", len(rules), manual, throttle.MaxManual)
	}
	return l, nil
}

// limitWords is a throttle on one line.
func limitWords(r *throttle.Rule) string {
	text := r.Target.Words()
	if r.Target.Database != "" {
		text += " in database " + r.Target.Database
	}
	text += ": " + r.Limit.Words()
	if r.Class != throttle.Any {
		text += " of " + string(r.Class) + "s"
	}
	if r.Mode == throttle.Observe {
		text += ", observed"
	}
	return text
}

// apply does it.
func (l *limiting) apply(ctx context.Context) error {
	for i := range l.drop {
		if _, err := l.store.DropThrottle(ctx, l.drop[i].ID); err != nil {
			return err
		}
	}
	for _, r := range l.put {
		_, err := l.store.PutThrottle(ctx, func(stored []throttle.Rule) (throttle.Rule, error) {
			if r.ID == 0 && !throttle.Room(stored) {
				return r, errors.New("throttles: there are too many: SELECT weft.unthrottle(id) ends one")
			}
			return r, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// limitDeclared applies the throttles of tables that this run has declared.
func (a *applying) limitDeclared(ctx context.Context, later []string) error {
	if len(later) == 0 {
		return nil
	}
	if a.dryRun || a.proxy == nil {
		for _, table := range later {
			fmt.Fprintf(a.out, "the throttle of a key of %s comes when the table is sharded: apply the file again\n", table)
		}
		return nil
	}
	snap, err := a.store.Load(ctx)
	if err != nil {
		return err
	}
	rules, later, err := a.want.Rules(snap)
	if err != nil {
		return err
	}
	if len(later) > 0 {
		return fmt.Errorf("throttles: %s is not a sharded table", later[0])
	}
	l, err := a.limit(ctx, rules)
	if err != nil {
		return err
	}
	for _, line := range l.lines {
		fmt.Fprintln(a.out, line)
	}
	return l.apply(ctx)
}
