package dev

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/bits"
	"net"
	"path/filepath"
	"strconv"

	"weft/directory"
)

// Defaults of Options, also for the command line's help.
const (
	DefaultShards   = 4
	DefaultListen   = "127.0.0.1:6432"
	DefaultHTTP     = "127.0.0.1:6480"
	DefaultDir      = "weft-dev"
	DefaultPortBase = 6500
)

// maxShards and MaxReplicas keep a slip of the finger from starting a thousand
// servers.
const (
	maxShards   = 64
	MaxReplicas = 3
)

// The superuser and the database of a dev cluster.
const (
	superuser = "postgres"
	database  = "app"
)

// Options say what to run. The zero value is the default cluster in ./weft-dev.
type Options struct {
	// Shards is how many shards there are. Zero: as many as Dir holds, or
	// DefaultShards in a new one.
	Shards int

	// Replicas is how many standbys each shard has. Nil: as many as Dir holds, or none
	// in a new one. Dir may get more, not fewer.
	Replicas *int

	// Patroni: Patroni runs the servers, and decides which is the primary. Fixed when Dir
	// is made.
	Patroni bool

	// Async: commits do not wait for standbys. With Patroni that is fixed when Dir is made.
	Async bool

	// Listen is the proxy's address, HTTP that of health and metrics.
	Listen, HTTP string

	// Dir holds everything. It is made if it does not exist.
	Dir string

	// PortBase is the port of shard-0; shard-i listens on PortBase+i. The ports of the
	// first standbys follow those of all shards, and so on. Zero: as last time, or
	// DefaultPortBase.
	PortBase int

	// PGBin is the directory of PostgreSQL's server programs; empty: search.
	PGBin string

	// BucketCount is fixed when Dir is made. Zero: as Dir has it, or
	// directory.DefaultBucketCount.
	BucketCount int

	// Demo loads example tables into a database that has none.
	Demo bool

	// Locale is fixed when Dir is made. Empty: as Dir has it, or what
	// pgserver.Config.Locale says.
	Locale string

	// Version of the binary, for those who ask the cluster who serves it.
	Version string

	// Out gets the progress and the closing help. Default: nothing is printed.
	Out io.Writer

	// Log gets what happens later. Default: none.
	Log *slog.Logger

	// Abort, when it closes, ends an orderly shutdown that takes too long.
	Abort <-chan struct{}
}

// withDefaults fills in what does not depend on the directory.
func (o Options) withDefaults() (Options, error) {
	if o.Listen == "" {
		o.Listen = DefaultListen
	}
	if o.HTTP == "" {
		o.HTTP = DefaultHTTP
	}
	if o.Dir == "" {
		o.Dir = DefaultDir
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return o, err
	}
	o.Dir = dir
	return o, o.Validate()
}

// Validate says what is wrong with the options. Zero fields are fine.
func (o Options) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.Shards < 0 || o.Shards > maxShards {
		bad("--shards: %d is not from 1 to %d", o.Shards, maxShards)
	}
	if o.Replicas != nil && (*o.Replicas < 0 || *o.Replicas > MaxReplicas) {
		bad("--replicas: %d is not from 0 to %d", *o.Replicas, MaxReplicas)
	}
	if most := 65535 - maxShards*(1+MaxReplicas); o.PortBase < 0 || o.PortBase > most {
		bad("--port-base: %d is not from 1 to %d", o.PortBase, most)
	}
	if n := o.BucketCount; n < 0 || n > directory.MaxBucketCount || bits.OnesCount(uint(n)) > 1 {
		bad("--bucket-count: %d is not a power of two from 1 to %d", n, directory.MaxBucketCount)
	}
	for _, a := range []struct{ flag, addr string }{{"--listen", o.Listen}, {"--http", o.HTTP}} {
		if a.addr == "" {
			continue
		}
		_, port, err := net.SplitHostPort(a.addr)
		if n, perr := strconv.Atoi(port); err != nil || perr != nil || n < 0 || n > 65535 {
			bad("%s: %q is not host:port, for example 127.0.0.1:6432", a.flag, a.addr)
		}
	}
	return errors.Join(errs...)
}
