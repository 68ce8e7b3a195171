package pool

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"weft/wire"
)

// Cancel asks the shard to cancel what the backend is doing. The backend is not given to
// another session until the request has been delivered, so the request can only hit the
// session it was meant for.
//
// The caller must make sure, by a lock of its own, that the backend belongs to that session
// when BeginCancel is called; Cancel itself may then run without the lock.
func (c *Conn) Cancel(ctx context.Context) error {
	defer c.EndCancel()
	return c.requestCancel(ctx)
}

// CancelOrGiveUp is Cancel, but closes the connection if the shard does not take the request:
// the session that waits for the shard may hold locks on others, and must be able to release
// them.
func (c *Conn) CancelOrGiveUp(ctx context.Context) error {
	defer c.EndCancel()
	err := c.requestCancel(ctx)
	if err != nil {
		_ = c.Conn().Close()
	}
	return err
}

// requestCancel sends a cancel request and waits until the server has delivered it. While a
// BEGIN is under way it waits for the answer to the BEGIN first: see Conn.Opening.
func (c *Conn) requestCancel(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, c.lane.shard.pool.conf().ConnectTimeout)
	defer stop()
	for c.opening.Load() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("cancel on %s: its transaction has not begun", c.Shard())
		case <-time.After(time.Millisecond):
		}
	}
	conn, err := c.endpoint.dialCancel(ctx)
	if err != nil {
		return fmt.Errorf("cancel on %s: %w", c.Shard(), err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(c.lane.shard.pool.conf().ConnectTimeout))
	if _, err := conn.Write(wire.AppendCancel(nil, c.pid, c.secret)); err != nil {
		return fmt.Errorf("cancel on %s: %w", c.Shard(), err)
	}
	// The server closes the connection once the signal is sent.
	var one [1]byte
	if _, err := conn.Read(one[:]); err != nil && err != io.EOF {
		return fmt.Errorf("cancel on %s: %w", c.Shard(), err)
	}
	return nil
}

// BeginCancel keeps the backend from being released until Cancel returns.
func (c *Conn) BeginCancel() {
	c.cancelMu.Lock()
	c.cancels++
	c.cancelMu.Unlock()
}

// EndCancel undoes BeginCancel for a caller that does not call Cancel.
func (c *Conn) EndCancel() {
	c.cancelMu.Lock()
	c.cancels--
	if c.cancels == 0 && c.cancelled != nil {
		c.cancelled.Broadcast()
	}
	c.cancelMu.Unlock()
}

// Cancelling reports whether a cancel request is under way.
func (c *Conn) Cancelling() bool {
	c.cancelMu.Lock()
	defer c.cancelMu.Unlock()
	return c.cancels > 0
}

// AwaitCancels waits until no cancel request is under way.
func (c *Conn) AwaitCancels() {
	c.cancelMu.Lock()
	for c.cancels > 0 {
		if c.cancelled == nil {
			c.cancelled = sync.NewCond(&c.cancelMu)
		}
		c.cancelled.Wait()
	}
	c.cancelMu.Unlock()
}

// endpoint is where a backend was reached, for cancel requests.
type endpoint struct {
	network, address string
	upgrade          func(ctx context.Context, c net.Conn) (net.Conn, error) // starts TLS; nil for none
}

func (e endpoint) dialCancel(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, e.network, e.address)
	if err != nil || e.upgrade == nil {
		return conn, err
	}
	up, err := e.upgrade(ctx, conn)
	if err != nil {
		conn.Close()
	}
	return up, err
}
