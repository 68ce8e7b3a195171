package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"weft/checkup"
	"weft/config"
	"weft/directory"
	"weft/directory/etcd"
	"weft/schema"
	"weft/server"
)

func doctorCommand() *cobra.Command {
	var (
		src    source
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong with a cluster, or will be soon",
		Long: `Ask every server, every proxy and etcd how they are, compare them with each other, and
print what was found with what to do about it: versions, locales, extensions,
max_connections against the proxies' pools, max_prepared_transactions, clocks,
certificates, disks of servers on this machine, roles and their stored passwords, schemas that differ
from the home shard's, durability, archives and backup points, etcd's members and alarms.
Nothing is changed.

Servers are asked as service.user of weft.yaml; what its rights forbid is left out.
How many connections proxies open is taken from this weft.yaml: give it to all alike.

The exit status is 0 if there is nothing to do, 1 if there is, 2 if the cluster could not
be looked at.

Before tables are declared, weft advise, weft check --schema and weft plan --file say
what becomes of them.`,
		Example: `  weft doctor -c weft.yaml
  weft doctor -c weft.yaml --json
  weft doctor --etcd 127.0.0.1:2379 --cluster main`,
		Args: withStatus(2, noArgs),
		RunE: withStatus(2, func(cmd *cobra.Command, _ []string) error {
			store, cfg, err := src.openWith()
			if err != nil {
				return err
			}
			defer store.Close()
			d := &doctor{store: store, cfg: cfg, file: src.config}
			facts, err := d.facts(cmd.Context())
			if err != nil {
				return err
			}
			findings := checkup.Examine(facts)
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				err = e.Encode(findings)
			} else {
				err = checkup.Print(cmd.OutOrStdout(), findings)
			}
			if err == nil && !checkup.Fine(findings) {
				return errReported
			}
			return err
		}),
	}
	cmd.Flags().SortFlags = false
	src.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// statusError is an error with an exit status of its own.
type statusError struct {
	error
	status int
}

func (e *statusError) Unwrap() error { return e.error }

// withStatus gives the errors of a function an exit status, but for what its output has reported.
func withStatus(status int, run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if err == nil || errors.Is(err, errReported) {
			return err
		}
		return &statusError{err, status}
	}
}

// doctor collects facts.
type doctor struct {
	store *etcd.Store
	cfg   config.Config
	file  string // weft.yaml, "" if there is none
}

const (
	// examineTimeout bounds how long servers may take, and driftTimeout how long schemas are compared.
	examineTimeout = 10 * time.Second
	driftTimeout   = 2 * time.Minute
)

func (d *doctor) facts(ctx context.Context) (*checkup.Facts, error) {
	snap, err := d.store.Load(ctx)
	if err != nil {
		return nil, err
	}
	servers, err := server.NewServers(d.cfg)
	if err != nil {
		return nil, err
	}
	f := &checkup.Facts{
		Now: time.Now(), Cluster: snap.Cluster, Home: snap.Home, Shards: len(snap.Shards), Declared: len(snap.Tables) > 0,
		MaxPerShard: d.cfg.Pool.MaxPerShard, Servers: servers.Examine(ctx, snap, examineTimeout),
	}
	for _, err := range server.Judge(snap.Clone(), servers.Ask(ctx, snap.Shards, identifyTimeout), nil) {
		f.Misplaced = append(f.Misplaced, oneLine(err))
	}
	proxies, err := d.store.Proxies(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range proxies {
		f.Proxies = append(f.Proxies, checkup.Proxy{ID: p.ID, Address: p.Address, Version: p.Version})
	}
	f.Certificates = d.certificates(ctx, snap, proxies)
	d.drift(ctx, snap, servers, f)
	if points, err := d.store.Points(ctx); err != nil {
		f.Points.Err = oneLine(err)
	} else if n := len(points); n > 0 {
		f.Points.Name, f.Points.Newest = points[n-1].Name, points[n-1].At
	}
	members, alarms := d.store.Health(ctx)
	f.Alarms = alarms
	for _, m := range members {
		one := checkup.Member{Endpoint: m.Endpoint, Version: m.Version, Size: m.Size, Leader: m.Leader, Learner: m.Learner}
		if m.Err != nil {
			one.Err = oneLine(m.Err)
		}
		f.Etcd = append(f.Etcd, one)
	}
	return f, nil
}

// drift compares the schemas of shards, by the code of weft.schema_diff.
func (d *doctor) drift(ctx context.Context, snap *directory.Snapshot, servers *server.Servers, f *checkup.Facts) {
	ctx, cancel := context.WithTimeout(ctx, driftTimeout)
	defer cancel()
	seen := map[string]bool{}
	for i := range snap.Tables {
		database := snap.Tables[i].Database
		if seen[database] {
			continue
		}
		seen[database] = true
		list, err := schema.Compare(ctx, servers.Shards(snap), snap, database, d.cfg.Service.User)
		if err != nil {
			f.DriftErr = fmt.Sprintf("database %s: %s", database, oneLine(err))
			continue
		}
		for _, x := range list {
			f.Drift = append(f.Drift, checkup.Drift{Database: database, Shard: x.Shard, Object: x.Object, What: x.What})
		}
	}
}
