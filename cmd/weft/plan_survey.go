package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"weft/advise"
	"weft/survey"
)

// run plans one statement, or all of a workload.
func (p *planning) run(cmd *cobra.Command, args []string) error {
	if err := p.check(args); err != nil {
		return &usageError{err}
	}
	if !p.work.given() {
		e, err := p.explainer(cmd.Context(), nil, nil)
		if err != nil {
			return err
		}
		return e.print(cmd.OutOrStdout(), args[0], p.params)
	}
	return p.survey(cmd)
}

func (p *planning) check(args []string) error {
	switch {
	case !p.work.given() && len(args) != 1:
		return fmt.Errorf("want one statement, in quotes, got %d words; or give --file, --log or --from", len(args))
	case !p.work.given() && p.asJSON:
		return errors.New("--json is for many statements: give --file, --log or --from")
	case p.work.given() && len(args) > 0:
		return errors.New("a statement, or a file of them: give one of the two")
	case p.work.given() && len(p.params) > 0:
		return errors.New("--param is for one statement: leave it out")
	}
	return p.work.check()
}

// live reports whether the cluster is a running one.
func (p *planning) live() bool { return p.src.config != "" || len(p.src.etcd) > 0 }

// explainer takes cluster and schema from where the flags say. conn is connected to --from. What
// would keep tables from being declared is told to warn, or is an error if warn is nil.
func (p *planning) explainer(ctx context.Context, conn *pgconn.PgConn, warn io.Writer) (*explainer, error) {
	var (
		e   *explainer
		err error
	)
	switch {
	case p.schema == "" && (p.live() || conn == nil):
		e, err = online(ctx, p.src, p.database, p.role)
	case p.schema != "":
		e, err = offline(p.schema, p.src, p.database, warn)
	default:
		if p.src.cluster == "" {
			return nil, &usageError{errors.New("which cluster? give --cluster cluster.yaml or --config weft.yaml beside --from")}
		}
		in := &advise.Input{}
		if _, err := describe(ctx, conn, in, 0); err != nil {
			return nil, err
		}
		if e, err = declared(in.Schema, p.src.cluster, p.database, warn); err == nil {
			e.env.Path = in.Path
		}
	}
	if err != nil {
		return nil, err
	}
	if len(p.path) > 0 {
		e.env.Path = append([]string{"pg_catalog"}, p.path...)
	}
	return e, nil
}

// survey plans all statements of a workload.
func (p *planning) survey(cmd *cobra.Command) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), adviceTimeout)
	defer cancel()
	conn, err := p.work.dial(ctx)
	if err != nil {
		return err
	}
	if conn != nil {
		defer conn.Close(context.WithoutCancel(ctx))
	}
	e, err := p.explainer(ctx, conn, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	list, err := p.work.executions(ctx, conn, p.database)
	if err != nil {
		return err
	}
	report := e.survey(list, newMeter(cmd.ErrOrStderr()))
	if p.asJSON {
		enc := json.NewEncoder(cmd.OutOrStdout())
		enc.SetIndent("", "  ")
		err = enc.Encode(report)
	} else {
		err = report.Print(cmd.OutOrStdout())
	}
	if err == nil && p.work.from == "" && report.Of(survey.Missing).Statements > 0 {
		return errReported
	}
	return err
}

func (e *explainer) survey(list []survey.Execution, m *meter) *survey.Report {
	s := survey.New(e.env, e.snap)
	for i, x := range list {
		s.Add(x)
		m.at("planned", i+1, len(list))
	}
	m.end()
	return s.Report()
}
