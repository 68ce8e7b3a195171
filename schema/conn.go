package schema

import (
	"context"
	"io"
	"strconv"

	"weft/pgerr"
	"weft/primary"
	"weft/quote"
)

// Conn is a connection to a shard that has one user at a time. *pool.Conn is one.
type Conn interface {
	// Exec runs a simple query and returns its rows as text, NULL as "". An
	// ErrorResponse is a *pgerr.Error and leaves the connection usable.
	Exec(sql string) ([][]string, error)
	// ExecOne is Exec of a text that must be one statement: two are an error.
	ExecOne(sql string, args ...string) ([][]string, error)
	// CopyOut runs COPY … TO STDOUT and writes the data to w, whole rows at a
	// time.
	CopyOut(sql string, w io.Writer) error
	// CopyIn runs COPY … FROM STDIN with the data of r and returns the number
	// of rows.
	CopyIn(sql string, r io.Reader) (int64, error)
	// Interrupt ends a running call of the other methods, from another goroutine.
	Interrupt()
	// Terminate closes the connection; an open transaction is rolled back.
	Terminate()
}

// Shards dials the cluster's servers.
type Shards interface {
	// Dial opens a connection of its own to a shard, logged in as user.
	Dial(ctx context.Context, shard, database, user string) (Conn, error)
}

// session is a Conn that is interrupted when its context ends.
type session struct {
	Conn
	shard string
	ctx   context.Context
	stop  func() bool
}

// settings make a session's texts mean the same on every shard, whatever its role's defaults are.
// They are the settings of pg_dump, which has the same needs. pg_catalog alone in search_path makes
// names come out qualified.
const settings = `SET search_path = ''; SET client_encoding = 'UTF8'; SET standard_conforming_strings = on; SET DateStyle = ISO; SET IntervalStyle = postgres;
SET TimeZone = 'UTC'; SET extra_float_digits = 3; SET bytea_output = hex; SET xmloption = content; SET lc_monetary = 'C'; SET check_function_bodies = off; SET row_security = off;
SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET client_min_messages = error;
SET default_transaction_isolation = 'read committed'; SET default_transaction_read_only = off;
SET default_tablespace = ''; SET synchronous_commit = on; SET default_table_access_method = heap; SET quote_all_identifiers = off; SET synchronize_seqscans = off; SET application_name = `

// open dials a shard and brings the connection into a known state.
func open(ctx context.Context, shards Shards, shard, database, user, application string) (*session, error) {
	c, err := shards.Dial(ctx, shard, database, user)
	if err != nil {
		return nil, err
	}
	s := &session{Conn: c, shard: shard, ctx: ctx}
	s.stop = context.AfterFunc(ctx, c.Interrupt)
	if _, err := s.Exec(settings + quote.Literal(application)); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// close ends the connection and with it an open transaction.
func (s *session) close() {
	if s != nil {
		s.stop()
		s.Terminate()
	}
}

// Exec runs a query unless the context has ended.
func (s *session) Exec(sql string) ([][]string, error) {
	if err := context.Cause(s.ctx); err != nil {
		return nil, err
	}
	rows, err := s.Conn.Exec(sql)
	return rows, s.explain(err)
}

// run is Exec of statements that return nothing of interest.
func (s *session) run(statements ...string) error {
	for _, sql := range statements {
		if _, err := s.Exec(sql); err != nil {
			return err
		}
	}
	return nil
}

// only runs statements that were made of texts from a catalog, each by itself: a text that is two
// statements is an error.
func (s *session) only(statements ...string) error {
	for _, sql := range statements {
		if err := context.Cause(s.ctx); err != nil {
			return err
		}
		if _, err := s.ExecOne(sql); err != nil {
			return s.explain(err)
		}
	}
	return nil
}

// one returns the only value of a query, "" if it has no row.
func (s *session) one(sql string) (string, error) {
	rows, err := s.Exec(sql)
	if err != nil || len(rows) == 0 {
		return "", err
	}
	return rows[0][0], nil
}

// timeline returns the timeline of the session's server.
func (s *session) timeline() (uint32, error) {
	text, err := s.one("SELECT " + primary.TimelineSQL)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err
}

// explain returns the context's error for a statement that the context has interrupted, and names
// the shard of any other error.
func (s *session) explain(err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(s.ctx); cause != nil {
		return cause
	}
	if e, ok := err.(*pgerr.Error); ok && s.shard != "" {
		copied := *e
		copied.Position = 0 // the position is in weft's text, not the client's
		where := "On shard " + s.shard + "."
		if copied.Detail != "" {
			where = copied.Detail + " " + where
		}
		return copied.WithDetail("%s", where)
	}
	return err
}
