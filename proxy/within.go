package proxy

import (
	"context"
	"net"
	"time"

	"weft/pgerr"
	"weft/pool"
	"weft/proxy/admit"
	"weft/wire"
)

// Query runs a statement in a database as the service user, for an operator of that name, and returns the notices that
// come with the result. The statement is that of a client in every respect but one: nobody is asked for the
// service user's password.
func (d Desk) Query(ctx context.Context, operator, database, sql string) (notices []string, err error) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer context.AfterFunc(ctx, func() { _ = ours.SetDeadline(time.Unix(1, 0)) })()
	if !d.srv.crew.Go(d.srv.guarded("statement of an operator", func() { d.srv.enter(ctx, theirs, operator, database) })) {
		return nil, pgerr.New(pgerr.AdminShutdown, "the proxy is shutting down")
	}
	in := wire.NewStream(ours)
	if _, err = outcome(in); err == nil {
		if _, err = ours.Write(wire.AppendQuery(nil, sql)); err == nil {
			notices, err = outcome(in)
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return notices, err
}

// enter runs a session of the service user.
func (s *Server) enter(ctx context.Context, conn net.Conn, operator, database string) {
	defer conn.Close()
	c := &admit.Client{
		Stream: wire.NewStream(conn), User: s.cfg.ServiceUser, Database: database,
		Packet: &wire.Packet{Kind: wire.PacketStartup, Version: wire.Protocol30, Options: []wire.Option{{Name: "application_name", Value: "weft dashboard: " + operator}}},
	}
	sess, err := s.welcome(ctx, c, nil, false)
	if err != nil {
		_, _ = c.Stream.Write(wire.AppendError(nil, pgerr.From(err)))
		return
	}
	s.run(sess)
}

// outcome reads up to the next ReadyForQuery, and returns notices and the error that came before it.
func outcome(in *wire.Stream) (notices []string, err error) {
	for {
		typ, body, e := in.Next(maxDeskMessage)
		if e != nil {
			if err == nil {
				err = e
			}
			return notices, err
		}
		switch typ {
		case wire.ErrorResponse:
			err = pool.ServerError(body)
		case wire.NoticeResponse:
			notices = append(notices, pool.ServerError(body).Message)
		case wire.ReadyForQuery:
			in.Consume(wire.HeaderLen + len(body))
			return notices, err
		}
		in.Consume(wire.HeaderLen + len(body))
	}
}

// maxDeskMessage bounds a message of an answer.
const maxDeskMessage = 1 << 20
