package proxy

import (
	"context"
	"fmt"
	"strings"
	"time"

	"weft/console"
	"weft/directory"
	"weft/pgerr"
)

// citus runs the functions about jobs that users of Citus know. They are about the one job that the
// database may have, and the last one that it had.
func (u moveCall) citus(ctx context.Context, name string) ([][]string, error) {
	snap, err := u.s.srv.cfg.Directory.Load(ctx)
	if err != nil {
		return nil, err
	}
	job := ""
	for i := range snap.Moves {
		if m := &snap.Moves[i]; m.Database == u.s.db.Name && m.Carries() {
			job = m.ID
		}
	}
	args := map[string]string{"job": job}
	switch {
	case name == "rebalance_stop" && job == "":
		return nil, pgerr.New(pgerr.ObjectNotInPrerequisiteState, "no job moves rows of this database")
	case name == "rebalance_stop":
		return nil, u.cancelMove(ctx, args)
	case name == "rebalance_wait" && job == "":
		return nil, nil
	case name == "rebalance_wait":
		return nil, u.waitMove(ctx, args)
	}
	rows := [][]string{}
	for _, m := range (adminSource{srv: u.s.srv, database: u.s.db.Name}).Moves(ctx) {
		if m.Database != u.s.db.Name || job != "" && m.Job != job {
			continue
		}
		if name == "rebalance_status" {
			rows = append(rows, citusStatus(&m))
			break // the jobs come with the latest first
		}
		if job != "" {
			part := 1.0
			if m.Buckets > 0 {
				part = float64(m.Done) / float64(m.Buckets)
			}
			rows = append(rows, []string{
				m.Job, strings.Join(m.From, ", "), strings.Join(m.To, ", "), fmt.Sprint(m.Buckets), fmt.Sprint(m.Done), fmt.Sprintf("%.2f", part), fmt.Sprint(m.Rows), fmt.Sprint(m.Bytes),
			})
		}
	}
	return rows, nil
}

// citusStatus words a job as citus_rebalance_status does.
func citusStatus(m *console.Move) []string {
	state := m.State
	switch state {
	case "done":
		state = "finished"
	case string(directory.MovePreparing):
		state = "scheduled"
	case string(directory.MoveFinishing):
		state = "running"
	}
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format("2006-01-02 15:04:05.999999-07")
	}
	details := fmt.Sprintf("%d of %d buckets, %d rows", m.Done, m.Buckets, m.Rows)
	if m.Reason != "" {
		details += "; " + m.Reason
	}
	if m.BlockedBy != "" {
		details += "; blocked"
	}
	description := fmt.Sprintf("from %s to %s", strings.Join(m.From, ", "), strings.Join(m.To, ", "))
	return []string{m.Job, state, m.Kind, description, at(m.Started), at(m.Ended), details}
}
