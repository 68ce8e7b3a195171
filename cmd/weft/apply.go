package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"weft/config"
	"weft/directory"
	"weft/heat/throttle"
	"weft/server"
)

func applyCommand() *cobra.Command {
	var (
		src    source
		file   string
		dryRun bool
		prune  bool
		proxy  string
		adopt  []string
	)
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Declare the shards and tables of a cluster",
		Long: `Make the directory say what cluster.yaml says, and print what changed. The
cluster is created if there is none. Running proxies follow by themselves.

While tables are declared, their rows are on the shards: shards that are new join by
jobs, which bring them their share of the buckets; shards that the file does not list
any more are drained and leave by jobs, with --prune; other weights lead to jobs that
rebalance by number of buckets. The proxies run the jobs, one shard after the other,
and weft.moves shows them. Applied again, the file starts nothing twice, and lets a job
that has failed go on. Without declared tables the change is made at once.

Tables are declared through a proxy, because their rows move: with --proxy those
that the directory does not have yet are declared in the order of the file (a
table before those that reference it), without it the statements are printed. A
table that the file does not list stays declared.

Every server is asked first whose it is, as service.user of weft.yaml. If one says
that it belongs to another cluster or is another shard, nothing is applied. A server
that is to be taken over all the same is named with --adopt. One that does not answer
is asked by the proxies before they use it.

  # cluster.yaml
  bucket_count: 4096            # fixed when the cluster is created
  home: shard-0                 # holds undeclared tables; the first shard if left out
  atomic_reads: true            # false: weft.read = 'atomic' is refused, and commits save a lock
  durability: sync              # what commits survive: sync, atomic or async; left out: not checked
  durability_enforced: false    # true: no COMMIT over several shards without it
  shards:
    - name: shard-0
      hosts: [10.0.0.1:5432, 10.0.0.2:5432]   # the primary among them is found
      options: {sslmode: verify-full, sslrootcert: /etc/weft/ca.pem}
    - name: shard-1
      patroni: {scope: shop-1}  # its servers are those that Patroni runs, by its keys in etcd
      weight: 2                 # twice the share of the others
  pins:
    - {buckets: 0-99, shard: shard-1}
  tables:
    - {database: app, table: public.customers, columns: [id]}
    - {database: app, table: public.accounts, columns: [tenant], vindex: lookup_unique, name: tenants}
    - {database: app, table: public.products, reference: true}
  throttles:                    # limits without an end; those that the file does not list any more go
    - {username: report, share: 0.1, below: high}
    - {database: app, table: public.accounts, key: 42, rate: 200/s}`,
		Example: `  weft apply -c weft.yaml -f cluster.yaml --dry-run
  weft apply -c weft.yaml -f cluster.yaml
  weft apply -c weft.yaml -f cluster.yaml --proxy postgres://app@127.0.0.1:6432
  weft apply --etcd 127.0.0.1:2379 --cluster main -f cluster.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return &usageError{errors.New("which file? give -f cluster.yaml")}
			}
			want, err := config.LoadCluster(file)
			if err != nil {
				return err
			}
			var through *pgx.ConnConfig
			if proxy != "" {
				if through, err = pgx.ParseConfig(proxy); err != nil {
					return &usageError{fmt.Errorf("--proxy: %w", err)}
				}
			}
			store, cfg, err := src.openWith()
			if err != nil {
				return err
			}
			defer store.Close()
			if err := findHosts(cmd.Context(), store, &want); err != nil {
				return err
			}
			servers, err := server.NewServers(cfg)
			if err != nil {
				return err
			}
			a := applying{
				store: store, servers: servers, want: want, prune: prune, dryRun: dryRun, adopt: adopt, proxy: through, out: cmd.OutOrStdout(), warn: cmd.ErrOrStderr(),
			}
			return a.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&file, "file", "f", "", "cluster.yaml")
	src.flags(cmd)
	f.BoolVar(&dryRun, "dry-run", false, "print what would change and change nothing")
	f.BoolVar(&prune, "prune", false, "remove shards that the file does not list, drained first if they hold rows")
	f.StringSliceVar(&adopt, "adopt", nil, "shards whose servers are this cluster's from now on, whatever they say; all for all")
	f.StringVar(&proxy, "proxy", "", "URL of a proxy to declare tables through, as their owner; the database is the table's")
	return cmd
}

// applying is one run of the command.
type applying struct {
	store         directory.Store
	servers       *server.Servers
	want          config.Cluster
	prune, dryRun bool
	adopt         []string                // names of shards
	pinned        []directory.PinnedValue // of an export, where the cluster is made anew
	proxy         *pgx.ConnConfig         // nil: none
	out, warn     io.Writer
}

// run stores what want declares, or only says what it would store.
func (a *applying) run(ctx context.Context) error {
	var changes []string
	var tables []config.Table
	var rules []throttle.Rule
	var later []string
	var jobs applied
	hosts, err := a.identify(ctx)
	if err != nil {
		return err
	}
	if !a.dryRun {
		if err := a.shutGate(ctx); err != nil {
			return err
		}
	}
	snap, err := a.store.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next, err := a.want.Merge(old, a.prune)
		if err != nil {
			return nil, err
		}
		// Before anything is stored: a mistake in a table stops all of it.
		if tables, err = a.want.Undeclared(next); err != nil {
			return nil, err
		}
		if rules, later, err = a.want.Rules(next); err != nil {
			return nil, err
		}
		if a.pinned = nil; old == nil {
			a.pinned = a.want.Pinned()
		}
		// The cluster may be another one than identify saw.
		if errs := server.Judge(next, hosts, a.adopt); len(errs) > 0 {
			return nil, misplacedError(notApplied, errs)
		}
		changes = directory.Diff(old, next) // of the last attempt, the one that counts
		jobs = compare(old, next)
		if a.dryRun {
			if err := directory.Successor(old, next); err != nil {
				return nil, err
			}
			return nil, errDryRun
		}
		return next, nil
	})
	if err != nil && !errors.Is(err, errDryRun) {
		return err
	}
	limits, err := a.limit(ctx, rules)
	if err != nil {
		return err
	}
	for _, c := range slices.Concat(changes, jobs.outlook, jobs.running, limits.lines) {
		fmt.Fprintln(a.out, c)
	}
	if !a.dryRun {
		if lookups, ok := a.store.(directory.Lookups); ok && len(a.pinned) > 0 {
			if err := putPinned(ctx, lookups, a.pinned); err != nil {
				return err
			}
		}
	}
	if !a.dryRun && len(a.adopt) > 0 {
		if err := a.servers.Adopt(ctx, snap, hosts, a.adopt, a.out); err != nil {
			return err
		}
	}
	if !a.dryRun {
		if err := limits.apply(ctx); err != nil {
			return err
		}
	}
	switch {
	case len(changes) == 0 && len(tables) == 0 && len(limits.lines) == 0:
		fmt.Fprintln(a.out, "nothing to change")
	case a.dryRun && len(tables) == 0:
		fmt.Fprintln(a.out, "not applied: this was a dry run")
	case !a.dryRun && len(changes) > 0:
		fmt.Fprintf(a.out, "applied: the cluster is at version %d\n", snap.Version)
	}
	if !a.dryRun {
		if err := a.announce(ctx, jobs); err != nil {
			return err
		}
	}
	if err := a.declare(ctx, tables); err != nil {
		return err
	}
	return a.limitDeclared(ctx, later)
}

// shutGate makes atomic reads stop before transactions stop to take the locks they
// need, or begin to: until every proxy has heard, half of a transaction could be
// seen.
func (a *applying) shutGate(ctx context.Context) error {
	snap, err := a.store.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		if old == nil || old.Gate == a.want.Gate(old) {
			return nil, errNoChange
		}
		if _, err := a.want.Merge(old, a.prune); err != nil {
			return nil, err // nothing is begun that cannot be ended
		}
		next := old.Clone()
		next.Gate = directory.GateShut
		return next, nil
	})
	if errors.Is(err, errNoChange) {
		return nil
	}
	if reg, ok := a.store.(directory.Registry); ok && err == nil {
		err = reg.Acknowledged(ctx, snap.Version)
	}
	return err
}

// errNoChange leaves Update where there is nothing to do.
var errNoChange = errors.New("no change")

// errDryRun leaves Update before it writes.
var errDryRun = errors.New("dry run")
