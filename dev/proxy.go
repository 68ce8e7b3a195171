package dev

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"weft/directory"
	"weft/server"
)

// readyLimit bounds the wait for the proxy to reach its shards, which run
// already.
const readyLimit = 20 * time.Second

// startProxy writes weft.yaml and runs the same proxy that weft serve would run
// with it, on the listener. It returns when queries can be served.
func (c *cluster) startProxy(ctx context.Context, store directory.Store, listener net.Listener) error {
	began := time.Now()
	cfg, err := c.writeConfig(listener.Addr().String())
	if err != nil {
		return err
	}
	c.proxy, err = server.Start(ctx, server.Options{
		Config:   cfg,
		Store:    store,
		Listener: listener,
		Version:  c.opts.Version,
		Log:      c.opts.Log,
	})
	if err != nil {
		return fmt.Errorf("start the proxy: %w", err)
	}
	if err := c.awaitReady(ctx); err != nil {
		return err
	}
	c.report.step(began, "proxy", "listens on %s", c.proxy.Addr())
	return nil
}

func (c *cluster) awaitReady(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for {
		missing, err := c.proxy.Ready(limit, true)
		if err == nil && len(missing) == 0 {
			return nil
		}
		if err == nil {
			err = errors.New(missing[0])
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limit.Done():
			return fmt.Errorf("the proxy is not ready after %v: %w", readyLimit, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
