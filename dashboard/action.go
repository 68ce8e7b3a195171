package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"weft/console"
	wefthttp "weft/http"
	"weft/pgerr"
	"weft/quote"
)

// action is what an operator may do about a row of a view. The operator sees the text that is run before it is.
type action struct {
	name, label string
	view        string
	does        string // a sentence
	// id is the column that names the row.
	id string
	// when are the states of rows that have the action; nil for all.
	when []string
	// text returns what is run for a row: SQL, or a command of the admin console.
	text    func(id string) string
	command bool
}

// call is SQL that calls one of weft's functions with an id.
func call(function string, more ...string) func(string) string {
	return func(id string) string {
		args := quote.Literal(id)
		for _, m := range more {
			args += ", " + quote.Literal(m)
		}
		return "SELECT " + function + "(" + args + ")"
	}
}

// actions are all of them.
var actions = []action{
	{name: "dismiss", label: "Dismiss", view: "warnings", id: "id", does: "The warning is not shown for seven days, on any proxy.", text: call("weft.dismiss", "7d")},
	{name: "pause_move", label: "Pause", view: "moves", id: "job", when: []string{"running", "preparing"}, does: "The job carries no more rows until it is resumed. Rows that it has carried stay where they are.", text: call("weft.pause_moves")},
	{name: "resume_move", label: "Resume", view: "moves", id: "job", when: []string{"paused", "failed"}, does: "The job goes on.", text: call("weft.resume_moves")},
	{name: "cancel_move", label: "Cancel", view: "moves", id: "job", when: []string{"running", "preparing", "paused", "failed"}, does: "The job ends. Rows that it has carried stay where they are; a job that declares tables takes them back.", text: call("weft.cancel_move")},
	{name: "cancel_statement", label: "Cancel", view: "sessions", id: "id", when: []string{"active"}, does: "The statement that the session runs is cancelled. The session goes on.", text: func(id string) string { return "SELECT pg_cancel_backend(" + id + ")" }},
	{name: "kill_session", label: "End", view: "sessions", id: "id", does: "The session ends, with what it runs and its transaction.", text: func(id string) string { return "KILL " + id }, command: true},
	{name: "unthrottle", label: "Lift", view: "throttles", id: "id", does: "The throttle ends.", text: call("weft.unthrottle")},
	{name: "reload", label: "Read weft.yaml again", view: "settings", does: "Settings that can change while the proxy runs take effect. This proxy alone reads its file.", text: func(string) string { return "RELOAD" }, command: true},
}

// choice is an action for one row.
type choice struct {
	Label string `json:"label"`
	Href  string `json:"href"`

	Action, ID, Database string `json:"-"`
	Text, Does, Back     string `json:"-"`
	command              bool
}

// offers reports whether rows of a view have actions.
func offers(view string) bool {
	return slices.ContainsFunc(actions, func(a action) bool { return a.view == view && a.id != "" })
}

// choices returns the actions for a row.
func choices(view *console.View, values []any) []choice {
	var out []choice
	get := func(name string) string {
		for i, c := range view.Columns {
			if c.Name == name {
				text, _ := console.Format(values[i])
				return text
			}
		}
		return ""
	}
	for _, a := range actions {
		if a.view != view.Name || a.id == "" || get(a.id) == "" || a.when != nil && !slices.Contains(a.when, get("state")) {
			continue
		}
		out = append(out, a.choose(get(a.id), get("database")))
	}
	return out
}

// choose returns the action for the row of an id, in a database.
func (a action) choose(id, database string) choice {
	q := url.Values{"action": {a.name}}
	if id != "" {
		q.Set("id", id)
	}
	if database != "" {
		q.Set("database", database)
	}
	c := choice{Label: a.label, Href: "/dashboard/act?" + q.Encode(), Action: a.name, ID: id, Database: database, Text: a.text(id), Does: a.does, command: a.command}
	for _, p := range pages {
		if slices.ContainsFunc(p.blocks, func(b block) bool { return b.view == a.view }) {
			c.Back = "/dashboard/" + p.Path
		}
	}
	return c
}

// Other returns the actions of a view that concern no row.
func (s *shown) Other() []choice {
	var out []choice
	for _, a := range actions {
		if a.view == s.View && a.id == "" {
			out = append(out, a.choose("", ""))
		}
	}
	return out
}

// number is the id of a session.
var number = regexp.MustCompile(`^[0-9]{1,10}$`)

// asked returns the action that a request is about. An operator alone may ask.
func (d *Dashboard) asked(w http.ResponseWriter, r *http.Request) (choice, bool) {
	if !wefthttp.UserOf(r).Operator {
		d.render(w, r, http.StatusForbidden, "message", &content{Title: "Not allowed", Message: "You may look, and not act: your user in http.users of weft.yaml is not an operator."})
		return choice{}, false
	}
	for _, a := range actions {
		id := r.FormValue("id")
		if a.name != r.FormValue("action") || a.view == "sessions" && !number.MatchString(id) || (a.id != "") != (id != "") || console.Printable(id) != id {
			continue
		}
		return a.choose(id, r.FormValue("database")), true
	}
	d.render(w, r, http.StatusBadRequest, "message", &content{Title: "No such action", Message: "There is no such action."})
	return choice{}, false
}

// confirm shows what an action runs.
func (d *Dashboard) confirm(w http.ResponseWriter, r *http.Request) {
	if c, ok := d.asked(w, r); ok {
		d.render(w, r, http.StatusOK, "act", &content{Title: c.Label, Act: &c})
	}
}

// actTimeout bounds how long an action may take.
const actTimeout = 30 * time.Second

// act runs an action, and shows what came of it.
func (d *Dashboard) act(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
	c, ok := d.asked(w, r)
	if !ok {
		return
	}
	p := d.proxy(w, r)
	if p == nil {
		return
	}
	ctx, stop := context.WithTimeout(r.Context(), actTimeout)
	defer stop()
	user := wefthttp.UserOf(r).Name
	var notices []string
	var err error
	if c.command {
		notices, err = p.Command(ctx, c.Text)
	} else {
		notices, err = p.Query(ctx, user, databaseFor(c.Database, p), c.Text)
	}
	d.cfg.Log.Info("an operator has acted", "user", user, "action", c.Action, "object", console.Printable(c.ID), "client", r.RemoteAddr, "err", err)
	page, status := &content{Title: c.Label, Act: &c, Outcome: lines(append([]string{"Done."}, notices...))}, http.StatusOK
	if err != nil {
		page.Outcome, page.Failed, status = explained(err), true, http.StatusConflict
	}
	d.render(w, r, status, "act", page)
}

// databaseFor returns where SQL is run: in the database that a row is about, or any.
func databaseFor(named string, p Proxy) string {
	declared := p.Declared()
	if slices.Contains(declared, named) || len(declared) == 0 {
		if named == "" {
			return "postgres"
		}
		return named
	}
	return declared[0]
}

// explained is an error as psql shows it.
func explained(err error) string {
	var e *pgerr.Error
	if !errors.As(err, &e) {
		return printable(err.Error())
	}
	return lines([]string{e.Message + " (" + e.Code + ")", e.Detail, e.Hint})
}

// lines writes texts below each other.
func lines(texts []string) string {
	var out []string
	for _, text := range texts {
		if text != "" {
			out = append(out, printable(text))
		}
	}
	return strings.Join(out, "\n")
}
