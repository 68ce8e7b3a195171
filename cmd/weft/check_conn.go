package main

import (
	"context"
	"errors"
	"io"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/pgerr"
	"weft/schema"
)

// plainConn lets package schema read from a server that is no shard.
type plainConn struct {
	ctx  context.Context
	conn *pgconn.PgConn
}

var _ schema.Conn = (*plainConn)(nil)

// errReads says that a plainConn only reads.
var errReads = errors.New("the connection is for reading catalogs")

// Exec implements schema.Conn.
func (c *plainConn) Exec(sql string) ([][]string, error) {
	rows, err := query(c.ctx, c.conn, sql)
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return nil, &pgerr.Error{Severity: pgerr.Severity(e.Severity), Code: e.Code, Message: e.Message, Detail: e.Detail, Hint: e.Hint}
	}
	return rows, err
}

// ExecOne implements schema.Conn. It refuses: nothing is made on the server.
func (*plainConn) ExecOne(string, ...string) ([][]string, error) { return nil, errReads }

// CopyOut implements schema.Conn. It refuses: rows are not read.
func (*plainConn) CopyOut(string, io.Writer) error { return errReads }

// CopyIn implements schema.Conn. It refuses: nothing is written.
func (*plainConn) CopyIn(string, io.Reader) (int64, error) { return 0, errReads }

// Interrupt implements schema.Conn. The context of the connection ends its calls.
func (*plainConn) Interrupt() {}

// Terminate implements schema.Conn. The caller closes the connection.
func (*plainConn) Terminate() {}
