package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"weft/advise"
	"weft/catalog"
	"weft/config"
	"weft/directory"
	"weft/pgserver"
	"weft/schema"
	"weft/survey"
)

// prechecking is weft check --schema: what declarations of tables would say.
type prechecking struct {
	schema, cluster, database string
	work                      workload
	asJSON                    bool
}

func (p *prechecking) given() bool { return p.schema != "" || p.cluster != "" || p.work.given() }

// precheckTimeout bounds the whole check.
const precheckTimeout = 10 * time.Minute

func (p *prechecking) run(cmd *cobra.Command, _ []string) error {
	switch {
	case p.schema == "" && p.work.from == "":
		return &usageError{errors.New("which tables? give --schema dump.sql or --from postgres://…")}
	case p.cluster == "":
		return &usageError{errors.New("which declarations? give --cluster cluster.yaml")}
	}
	if err := p.work.check(); err != nil {
		return &usageError{err}
	}
	want, err := config.LoadCluster(p.cluster)
	if err != nil {
		return err
	}
	snap, err := want.Merge(nil, false)
	if err != nil {
		return err
	}
	if err := declare(snap, want); err != nil {
		return fmt.Errorf("%s: %w", p.cluster, err)
	}
	if p.database, err = onlyDatabase(snap, p.database); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), precheckTimeout)
	defer cancel()
	from, err := p.work.dial(ctx)
	if err != nil {
		return err
	}
	if from != nil {
		defer from.Close(context.WithoutCancel(ctx))
	}
	conn := from
	if p.schema != "" {
		temp, err := p.load(ctx, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		defer temp.Close()
		if conn, err = pgconn.Connect(ctx, temp.ConnString("postgres")); err != nil {
			return err
		}
		defer conn.Close(context.WithoutCancel(ctx))
	}
	r, err := p.judge(ctx, conn, from, snap, newMeter(cmd.ErrOrStderr()))
	if err != nil {
		return err
	}
	if p.asJSON {
		e := json.NewEncoder(cmd.OutOrStdout())
		e.SetIndent("", "  ")
		err = e.Encode(r)
	} else {
		err = r.print(cmd.OutOrStdout())
	}
	if err == nil && r.Mend {
		return errReported
	}
	return err
}

// roleNames finds the roles that a dump names: a throw-away server has none of them.
var roleNames = regexp.MustCompile(`(?m)^(?:ALTER .* OWNER TO|GRANT .* TO|REVOKE .* FROM|ALTER DEFAULT PRIVILEGES FOR ROLE|CREATE POLICY .* TO) ("(?:[^"]|"")+"|\w+)`)

// load loads the dump into a throw-away server. What psql could not run is told to warn.
func (p *prechecking) load(ctx context.Context, warn io.Writer) (*pgserver.Temp, error) {
	text, err := os.ReadFile(p.schema)
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	temp, err := pgserver.StartTemp(ctx, pgserver.Config{})
	if err != nil {
		return nil, fmt.Errorf("start a PostgreSQL for the dump: %w; or give --from", err)
	}
	var roles strings.Builder
	seen := map[string]bool{"PUBLIC": true, "CURRENT_USER": true, "SESSION_USER": true, "postgres": true}
	for _, m := range roleNames.FindAllStringSubmatch(string(text), -1) {
		if !seen[m[1]] {
			seen[m[1]] = true
			fmt.Fprintf(&roles, "CREATE ROLE %s;\n", m[1])
		}
	}
	cmd := exec.CommandContext(ctx, temp.Config().Install.Program("psql"), "-X", "-q", temp.ConnString("postgres"))
	cmd.Stdin = io.MultiReader(strings.NewReader(roles.String()), strings.NewReader(string(text)))
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Run(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: psql: %w: %s", p.schema, err, errs.String()), temp.Close())
	}
	for line := range strings.Lines(errs.String()) {
		if _, message, ok := strings.Cut(line, "ERROR:  "); ok {
			fmt.Fprintf(warn, "warning: %s: %s", p.schema, message)
		}
	}
	return temp, nil
}

// precheck is what weft check --schema prints.
type precheck struct {
	Tables     []tableCheck        `json:"tables"`
	Views      []*survey.Statement `json:"views,omitempty"`
	Statements []*survey.Statement `json:"statements,omitempty"`
	Mend       bool                `json:"mend"` // there is something to mend

	counted int // statements that were looked at
}

type tableCheck struct {
	Table    string   `json:"table"`
	Declared string   `json:"declared"`
	Refusals []remark `json:"refusals"`
	Notices  []remark `json:"notices"`
}

type remark struct {
	Message string   `json:"message"`
	Detail  string   `json:"detail,omitempty"`
	Hint    string   `json:"hint,omitempty"`
	Mend    []string `json:"mend,omitempty"`
}

func remarks(list []schema.Remark) []remark {
	out := []remark{}
	for _, r := range list {
		out = append(out, remark{r.Message, r.Detail, r.Hint, r.Mend})
	}
	return out
}

// judge declares the tables in thought, and plans views and statements under the declarations.
func (p *prechecking) judge(ctx context.Context, conn, from *pgconn.PgConn, snap *directory.Snapshot, m *meter) (*precheck, error) {
	rows, err := query(ctx, conn, "SELECT unnest(current_schemas(true))")
	if err != nil {
		return nil, err
	}
	var path []string
	for _, r := range rows {
		path = append(path, r[0])
	}
	previews, known, err := schema.PreviewAll(ctx, &plainConn{ctx: ctx, conn: conn}, snap, p.database)
	if err != nil {
		return nil, err
	}
	if _, err := query(ctx, conn, "ROLLBACK; RESET ALL"); err != nil {
		return nil, err
	}
	r := &precheck{Tables: []tableCheck{}}
	for i := range previews {
		d := &previews[i].Table
		t := tableCheck{Table: advise.Display(catalog.Name{Schema: d.Schema, Name: d.Name}), Declared: "reference", Refusals: remarks(previews[i].Refusals), Notices: remarks(previews[i].Notices)}
		if d.Kind == directory.Sharded {
			var key []string
			for _, c := range d.Columns {
				key = append(key, c.Name)
			}
			t.Declared = "sharded by " + strings.Join(key, ", ")
		}
		r.Mend = r.Mend || len(t.Refusals) > 0
		r.Tables = append(r.Tables, t)
	}
	e := newExplainer(snap, known, p.database, path)
	var views []survey.Execution
	for rel := range known.Relations() {
		if (rel.Kind == catalog.View || rel.Kind == catalog.MaterializedView) && !rel.System() {
			views = append(views, survey.Execution{Text: "SELECT * FROM " + rel.SQL(), Calls: 1})
		}
	}
	slices.SortFunc(views, func(a, b survey.Execution) int { return strings.Compare(a.Text, b.Text) })
	r.Views = refusedOf(e.survey(views, m))
	if p.work.given() {
		list, err := p.work.executions(ctx, from, p.database)
		if err != nil {
			return nil, err
		}
		r.counted = len(list)
		r.Statements = refusedOf(e.survey(list, m))
	}
	r.Mend = r.Mend || len(r.Views)+len(r.Statements) > 0
	return r, nil
}

// refusedOf returns the statements that would get an error.
func refusedOf(r *survey.Report) []*survey.Statement {
	return slices.DeleteFunc(r.Statements, func(s *survey.Statement) bool {
		return s.Class != survey.Refused && s.Class != survey.Missing && s.Class != survey.Unread
	})
}

func (r *precheck) print(out io.Writer) error {
	refusals, notices := 0, 0
	for _, t := range r.Tables {
		state := "can be declared"
		if n := len(t.Refusals); n > 0 {
			state = "cannot be declared"
		}
		fmt.Fprintf(out, "%s, %s: %s\n", t.Table, t.Declared, state)
		for _, x := range t.Refusals {
			x.print(out, "refused")
		}
		for _, x := range t.Notices {
			x.print(out, "notice")
		}
		refusals, notices = refusals+len(t.Refusals), notices+len(t.Notices)
	}
	for _, list := range []struct {
		title string
		of    []*survey.Statement
	}{{"views that cannot be read", r.Views}, {"statements that get an error (weft plan --file shows all)", r.Statements}} {
		if len(list.of) > 0 {
			fmt.Fprintf(out, "\n%s:\n", list.title)
		}
		for _, s := range list.of {
			fmt.Fprintf(out, "  %s\n    %s: %s\n", s.Text, s.Class, s.Reason)
			if s.Hint != "" {
				fmt.Fprintf(out, "    hint: %s\n", s.Hint)
			}
		}
	}
	_, err := fmt.Fprintf(out, "\n%d tables, %d refusals, %d notices", len(r.Tables), refusals, notices)
	if r.counted > 0 {
		_, err = fmt.Fprintf(out, ", %d of the statements get an error", len(r.Statements))
	}
	fmt.Fprintln(out)
	return err
}

func (x *remark) print(out io.Writer, kind string) {
	fmt.Fprintf(out, "  %s: %s\n", kind, x.Message)
	if x.Hint != "" {
		fmt.Fprintf(out, "    hint: %s\n", x.Hint)
	}
	for _, sql := range x.Mend {
		fmt.Fprintf(out, "    mend: %s\n", sql)
	}
}
