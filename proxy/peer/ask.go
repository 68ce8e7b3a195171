package peer

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"weft/directory"
	"weft/heat"
	"weft/pool"
	"weft/wire"
)

// Protocol is the name of connections between proxies in TLS (ALPN). Proxies have no
// certificate that clients have, and can do nothing that a client does.
const Protocol = "weft-peer"

// Question is what a proxy wants to know of another, or wants it to do.
type Question struct {
	// View is the name of a table in schema weft, User and All say who looks at it.
	View string `json:"view,omitempty"`
	User string `json:"user,omitempty"`
	All  bool   `json:"all,omitempty"`
	// Reset: forget what statements have cost.
	Reset bool `json:"reset,omitempty"`
	// Database: the roles of the sessions that are in it. Kill: end them, or Session.
	Database string `json:"database,omitempty"`
	Session  int32  `json:"session,omitempty"`
	Kill     bool   `json:"kill,omitempty"`
	// Backends: the server processes that the proxy is connected to, as soon as there
	// are more than Known.
	Backends bool   `json:"backends,omitempty"`
	Known    uint64 `json:"known,omitempty"`
	// Blockers: the sessions that are in the way of moves of rows.
	Blockers bool `json:"blockers,omitempty"`
	// Heat: which keys, buckets and shards are hot; with values of keys if All. Brief: only what
	// verdicts are made of. Instant: only the work of buckets and shards at this moment.
	Heat    bool `json:"heat,omitempty"`
	Brief   bool `json:"brief,omitempty"`
	Instant bool `json:"instant,omitempty"`
	// Parts are those of the answer to Heat; nil for all.
	Parts *heat.Parts `json:"parts,omitempty"`
	// Verdicts: what was found to be hot, slow or saturated; with values of keys if All.
	Verdicts bool `json:"verdicts,omitempty"`
	// Dismiss: the warning that is not to be shown for so many seconds.
	Dismiss string  `json:"dismiss,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
	// Tape: record transactions. TapeStop: end that, for this database. Taped: what was recorded of
	// this database.
	Tape     *Tape  `json:"tape,omitempty"`
	TapeStop string `json:"tape_stop,omitempty"`
	Taped    string `json:"taped,omitempty"`
	// Throttles: what was counted of each throttle.
	Throttles bool `json:"throttles,omitempty"`
	// Queues: how many transactions per second ask for places at hot keys.
	Queues bool `json:"queues,omitempty"`
	// Drawn: how far the proxy has drawn from a sequence of Database, before the home shard came to Timeline.
	Drawn    string `json:"drawn,omitempty"`
	Timeline uint32 `json:"timeline,omitempty"`
	// Nonce makes an answer fit one question only. Ask sets it.
	Nonce []byte `json:"nonce"`
}

// Tape says which transactions are to be recorded, and under which key. The channel between proxies
// may not be secret: a reader of the key can try values, and no more.
type Tape struct {
	Database string  `json:"database"`
	Key      []byte  `json:"key"`
	Share    float64 `json:"share"`
	Seconds  float64 `json:"seconds"`
}

// Backends is the answer to a question for backends.
type Backends struct {
	List   []pool.Process `json:"list"`
	Opened uint64         `json:"opened"`
}

// Blocker is a session that is in the way of a move of rows; a list of them is the answer to a
// question for blockers.
type Blocker struct {
	Job         string    `json:"job"`
	Proxy       string    `json:"proxy"`
	Session     int64     `json:"session"`
	User        string    `json:"user"`
	Application string    `json:"application,omitempty"`
	State       string    `json:"state"`
	Since       time.Time `json:"since"`
	Bucket      int       `json:"bucket"` // -1: any
}

// Ask puts a question to another proxy and returns its answer. It fails if the other
// cannot prove that it knows its own secret.
func Ask(ctx context.Context, other directory.Proxy, q Question) ([]byte, error) {
	if len(other.Secret) == 0 {
		return nil, errors.New("it is of a version that cannot be asked")
	}
	conn, err := dial(ctx, other)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return ask(conn, other.Secret, q)
}

// ask has the asker's half of the dialogue.
func ask(conn net.Conn, secret directory.Secret, q Question) ([]byte, error) {
	channel, err := channelOf(tlsState(conn))
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write(wire.AppendAsk(nil)); err != nil {
		return nil, err
	}
	challenge := make([]byte, challengeLen)
	if _, err := io.ReadFull(conn, challenge); err != nil {
		return nil, err
	}
	q.Nonce = make([]byte, challengeLen)
	rand.Read(q.Nonce)
	text, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write(seal(text, secret, channel, challenge)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < sha256.Size || n > maxAnswer {
		return nil, fmt.Errorf("its answer has %d bytes", n)
	}
	message := make([]byte, n)
	if _, err := io.ReadFull(conn, message); err != nil {
		return nil, err
	}
	answer, ok := unseal(message, secret, channel, q.Nonce)
	if !ok {
		return nil, errors.New("it could not prove who it is")
	}
	return answer, nil
}

// Cancel sends a cancel request to another proxy and waits for it to hang up. The other
// end proves nothing, as the key opens nothing but this session's cancel.
func Cancel(ctx context.Context, other directory.Proxy, pid int32, key []byte) error {
	conn, err := dial(ctx, other)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write(wire.AppendRelayedCancel(nil, pid, key)); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(conn, 1<<10))
	return err
}

// dial connects to another proxy where clients do. If the directory says that the proxy
// has TLS, a connection without TLS is refused, whatever answers there. Who is there
// must be proved otherwise.
func dial(ctx context.Context, other directory.Proxy) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", other.Address)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	var answer [1]byte
	if _, err = conn.Write(wire.AppendSSLRequest(nil)); err == nil {
		_, err = io.ReadFull(conn, answer[:])
	}
	if err == nil && answer[0] == 'S' {
		t := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{Protocol}})
		if err = t.HandshakeContext(ctx); err == nil {
			return t, nil
		}
	}
	if err == nil && other.TLS {
		err = errors.New("it has TLS, and what answers at its address has not")
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}
