package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"weft/config"
	"weft/directory"
	"weft/primary"
	"weft/server"
)

func checkCommand() *cobra.Command {
	var file, cluster string
	var offline bool
	var p prechecking
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check configuration files, servers, and what declarations of tables would say",
		Long: `Check a weft.yaml, a cluster.yaml or both: every problem is printed with its line
and column, and the exit code is 1 if there is one. Certificates and passwords
that the file refers to must be there.

If the directory that weft.yaml names answers, the shards' servers are asked whose
they are: one that belongs to another cluster, or is another shard, is a problem.
Whoever does not answer is named, and is none. With --offline nothing is contacted.

Of shards that Patroni runs, settings that do not go well with weft are named, as warnings: ttl,
synchronous_mode, maximum_lag_on_failover, failsafe_mode and max_prepared_transactions. So is a
standby with fewer max_prepared_transactions than its primary.

With --schema or --from, the tables of --cluster cluster.yaml are declared in thought, all at
once: everything that would be refused or changed is printed, with SQL that mends it.
A dump is loaded into a throw-away PostgreSQL on this machine, whose programs must be installed;
a server of --from is only read. The same code judges as when tables are declared. With --statements,
--log or --from, statements that would be refused are printed, too; weft plan --file shows
all of them, weft advise finds the keys, weft doctor looks at the servers. The exit status is then 0 if
there is nothing to mend, 1 if there is, 2 if the check failed.`,
		Example: `  weft check -c weft.yaml
  weft check -f cluster.yaml
  weft check -c weft.yaml --offline
  weft check --schema dump.sql --cluster cluster.yaml
  weft check --schema dump.sql --cluster cluster.yaml --statements statements.sql
  weft check --from postgres://postgres@db.example/app --cluster cluster.yaml --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if p.given() {
				return withStatus(2, p.run)(cmd, args)
			}
			if file == "" && cluster == "" {
				return &usageError{errors.New("what to check? give -c weft.yaml, -f cluster.yaml or both")}
			}
			bad := false
			report := func(err error) {
				if err != nil {
					bad = true
					fmt.Fprintln(cmd.OutOrStdout(), err)
				}
			}
			if file != "" {
				report(checkConfig(file))
			}
			if cluster != "" {
				_, err := config.LoadCluster(cluster)
				report(err)
			}
			if file != "" && !offline && !bad {
				report(checkServers(cmd.Context(), file, cmd.ErrOrStderr()))
			}
			if bad {
				return errReported
			}
			fmt.Fprintln(cmd.OutOrStdout(), "ok")
			return nil
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "weft.yaml to check")
	cmd.Flags().StringVarP(&cluster, "file", "f", "", "cluster.yaml to check")
	cmd.Flags().BoolVar(&offline, "offline", false, "contact neither the directory nor servers")
	f := cmd.Flags()
	f.StringVar(&p.schema, "schema", "", "what pg_dump --schema-only wrote: check what declarations would say")
	f.StringVar(&p.cluster, "cluster", "", "cluster.yaml with the tables, beside --schema and --from")
	f.StringVar(&p.database, "database", "", "database of the tables (default: the only one there is)")
	p.work.flags(f, "statements")
	f.BoolVar(&p.asJSON, "json", false, "print JSON, beside --schema and --from")
	return cmd
}

// checkConfig also looks at what the file refers to, once it is right itself.
func checkConfig(file string) error {
	cfg, err := config.Load(file)
	if err != nil {
		return err
	}
	var errs []error
	at := func(err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", file, err))
		}
	}
	secretErr := cfg.ResolveSecrets(secrets())
	var ps config.Problems
	if errors.As(secretErr, &ps) {
		for _, p := range ps {
			at(p)
		}
	} else if err := cfg.Validate(); err != nil { // a password may be malformed
		at(err)
	}
	_, err = cfg.TLS.Load()
	at(err)
	_, err = cfg.Etcd.TLS.Load()
	at(err)
	return errors.Join(errs...)
}

// checkTimeout bounds how long the directory may take.
const checkTimeout = 2 * time.Second

// checkServers compares what the shards' servers say of themselves with the directory. What
// could not be looked at is told to w.
func checkServers(ctx context.Context, file string, w io.Writer) error {
	cfg, err := loadConfig(file)
	if err != nil {
		return err
	}
	ask, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	cfg.Etcd.Timeout = min(cfg.Etcd.Timeout, checkTimeout)
	store, err := server.OpenDirectory(cfg, slog.New(slog.DiscardHandler))
	var snap *directory.Snapshot
	if err == nil {
		defer store.Close()
		snap, err = store.Load(ask)
	}
	if err != nil {
		fmt.Fprintf(w, "warning: servers were not compared with the directory: %s\n", oneLine(err))
		return nil
	}
	servers, err := server.NewServers(cfg)
	if err != nil {
		return err
	}
	checkPatroni(ask, store, snap, cfg.Failover.Wait, w)
	snap = snap.Clone()
	hosts := servers.Ask(ctx, snap.Shards, identifyTimeout)
	for _, h := range hosts {
		if h.Err != nil {
			fmt.Fprintf(w, "warning: %s at %s does not say whose it is: %s\n", h.Shard, h.Address, oneLine(h.Err))
		}
	}
	for _, h := range hosts {
		if n := cfg.Pool.MaxPerShard; h.Err == nil && h.Connections > 0 && n > h.Connections {
			fmt.Fprintf(w, "warning: pool.max_per_shard is %d, and %s at %s has connections for %d\n", n, h.Shard, h.Address, h.Connections)
		}
	}
	for i := range snap.Shards {
		for _, text := range warnings(&snap.Shards[i], string(snap.Durability), servers.Ping(ctx, snap.Shards[i:i+1], pingTimeout)) {
			fmt.Fprintf(w, "warning: %s\n", text)
		}
	}
	if errs := server.Judge(snap, hosts, nil); len(errs) > 0 {
		return misplacedError("servers are not those of this cluster:", errs)
	}
	return nil
}

// warnings are what the servers of a shard lack to be as durable as declared, and to take each other's place.
func warnings(shard *directory.Shard, durability string, hosts server.Hosts) (out []string) {
	v := hosts.Judge(shard)
	lead := slices.IndexFunc(hosts, func(h server.Host) bool { return v.State == primary.Steady && h.Address == v.Primary })
	if lead < 0 {
		return nil
	}
	p := &hosts[lead]
	if lack := lacks(durability, p); lack != "" {
		out = append(out, fmt.Sprintf("the cluster has durability %s, and %s at %s lacks it: %s", durability, shard.Name, p.Address, lack))
	}
	for i := range hosts {
		if h := &hosts[i]; h.Err == nil && h.Standby && h.Prepared >= 0 && h.Prepared < p.Prepared {
			out = append(out, fmt.Sprintf("max_prepared_transactions is %d at %s, a standby of %s, and %d at its primary: with less than the primary a standby stops replaying", h.Prepared, h.Address, shard.Name, p.Prepared))
		}
	}
	return out
}
