package supervisor

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// standingsSQL asks a primary where its log ends, and for its standbys. A NULL of the
// outer join is a primary without any.
const standingsSQL = `SELECT pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::bigint, r.application_name, r.state = 'streaming',
  r.sync_state IN ('sync', 'quorum'), coalesce(pg_wal_lsn_diff(r.flush_lsn, '0/0')::bigint, 0)
FROM (SELECT) one LEFT JOIN pg_stat_replication r ON true`

// ask asks the primary for its standbys, on a connection that stays.
func (s *Supervisor) ask(ctx context.Context) (now int64, all []standing, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	if s.conn == nil {
		if s.conn, err = pgconn.Connect(ctx, s.primary.srv.ConnString("postgres")); err != nil {
			s.conn = nil
			return 0, nil, err
		}
	}
	results, err := s.conn.Exec(ctx, standingsSQL).ReadAll()
	if err != nil {
		s.hangUp()
		return 0, nil, err
	}
	for _, r := range results[0].Rows {
		if now, err = strconv.ParseInt(string(r[0]), 10, 64); err != nil {
			return 0, nil, err
		}
		if r[1] == nil {
			continue
		}
		st := standing{name: string(r[1]), streaming: string(r[2]) == "t", sync: string(r[3]) == "t"}
		if st.flushed, err = strconv.ParseInt(string(r[4]), 10, 64); err != nil {
			return 0, nil, err
		}
		all = append(all, st)
	}
	return now, all, nil
}

// hangUp closes the connection to the primary.
func (s *Supervisor) hangUp() {
	if s.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.conn.Close(ctx) // it may be broken
	s.conn = nil
}
