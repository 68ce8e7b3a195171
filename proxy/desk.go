package proxy

import (
	"context"
	"encoding/json"
	"errors"

	"weft/console"
	"weft/directory"
	"weft/heat"
	"weft/proxy/chronicle"
	"weft/proxy/peer"
)

// Desk is the server as its dashboard sees it: what the console shows, of all proxies, and what operators
// tell it to do.
type Desk struct {
	*chronicle.Chronicle
	srv *Server
}

// Desk returns the server as its dashboard sees it.
func (s *Server) Desk() Desk { return Desk{s.counts.chronicle, s} }

// Version is that of weft.
func (d Desk) Version() string { return d.srv.cfg.Version }

// Proxy is what this proxy is called among others.
func (d Desk) Proxy() string { return d.srv.cfg.Proxy }

// Declared lists the databases that have declared tables.
func (d Desk) Declared() []string {
	if snap := d.srv.cfg.Snapshot(); snap != nil {
		return snap.Databases()
	}
	return nil
}

// Tables reads views as an admin user sees them, with the rows of all proxies. What is needed for several of
// the views is found out once.
func (d Desk) Tables(ctx context.Context, views []*console.View) []console.Table {
	src := &glance{adminSource: adminSource{srv: d.srv}}
	out := make([]console.Table, len(views))
	for i, view := range views {
		out[i] = view.Table(ctx, src, console.Viewer{All: true})
		if view.Spread {
			d.spread(ctx, view, &out[i])
		}
	}
	return out
}

// spread adds the rows of the other proxies to a view.
func (d Desk) spread(ctx context.Context, view *console.View, t *console.Table) {
	answers, silent := d.srv.circle.Ask(ctx, peer.Question{View: view.Name, All: true})
	for _, a := range answers {
		rows, err := view.Read(a)
		if err != nil {
			silent = append(silent, errors.New("another proxy is of another version"))
			continue
		}
		t.Rows = append(t.Rows, rows...)
	}
	for _, err := range silent {
		t.Notices = append(t.Notices, err.Error())
	}
}

// Command runs a command of the admin console.
func (d Desk) Command(ctx context.Context, line string) (notices []string, err error) {
	t, err := console.Run(ctx, line, adminSource{srv: d.srv})
	return t.Notices, err
}

// glance is a source that asks once what is hot, with the values of keys.
type glance struct {
	adminSource
	report *heat.Report
	parts  heat.Parts // of report
}

// Heat implements console.Source.
func (g *glance) Heat(ctx context.Context, what console.Aspect, _ bool) console.Heat {
	if need := partsOf[what]; g.report == nil || need&^g.parts != 0 {
		g.parts |= need
		r, _ := g.srv.heatOfAll(ctx, g.parts, !g.srv.conf().Heat.Hashed)
		g.report = &r
	}
	return g.srv.heatOf(*g.report, what)
}

// newChronicle returns the history of what is hot, which is kept if there is a dashboard.
func newChronicle(s *Server) *chronicle.Chronicle {
	return chronicle.New(chronicle.Config{
		On:  func() bool { return s.conf().Heat.History && s.conf().Heat.Samples > 0 },
		Own: s.counts.heat.instant,
		Others: func(ctx context.Context) (out []heat.Instant) {
			answers, _ := s.circle.Ask(ctx, peer.Question{Heat: true, Instant: true})
			for _, a := range answers {
				var in heat.Instant
				if json.Unmarshal(a, &in) == nil { // else it is of another version
					out = append(out, in)
				}
			}
			return out
		},
		Strips: func(database string) []heat.Strip { return strips(s.cfg.Snapshot(), database) },
	})
}

// strips are the rows of the maps of a database.
func strips(snap *directory.Snapshot, database string) []heat.Strip {
	if snap == nil {
		return nil
	}
	names := make([]string, len(snap.Shards))
	for i := range snap.Shards {
		names[i] = snap.Shards[i].Name
	}
	return heat.Strips(snap.PlacementOf(database, ""), names, heat.MaxRows)
}
