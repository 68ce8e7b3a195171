package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"weft/directory"
	"weft/primary"
	"weft/server"
)

func statusCommand() *cobra.Command {
	var (
		src    source
		asJSON bool
		check  bool
		form   string
	)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show a cluster's shards, servers, tables and proxies",
		Long: `Show what the directory says: the cluster, its shards with their servers and how many
buckets they hold, pinned buckets, declared tables, lookups with how many values have a place,
and the proxies that are running with the version of the directory they serve.

Each server is asked by a query of service.user from this machine. ROLE is what it says of
itself. STATE is what it is to its shard, in the words of weft.replicas: primary, standby, stale
(a primary whose time is over), split (one of two primaries of the same timeline), foreign (of
another system), silent, or unknown. LAG is what a standby has not replayed, SYNC how standbys
are attached to the primary. Below the servers each problem has a line, and a line that says
what to do. Of servers that weft dev runs, data directory and process id are shown too, if the
command is given the weft.yaml of that directory.

The exit status is 0 if the directory could be read, whatever it says. With --check it is 1 if
there is a problem.

With -o yaml it is a cluster.yaml with everything the directory says of where rows
are: applied to an empty directory, it makes the same cluster.`,
		Example: `  weft status -c weft.yaml
  weft status -c weft.yaml -o yaml > cluster.yaml
  weft status -c weft.yaml --check > /dev/null || alert
  weft status --etcd 127.0.0.1:2379 --cluster main --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if form != "" && form != "yaml" && form != "json" {
				return &usageError{fmt.Errorf("-o: %q is neither yaml nor json", form)}
			}
			store, cfg, err := src.openWith()
			if err != nil {
				return err
			}
			defer store.Close()
			if form == "yaml" {
				return export(cmd.Context(), store, cmd.OutOrStdout())
			}
			servers, err := server.NewServers(cfg)
			if err != nil {
				return err
			}
			st, err := readStatus(cmd.Context(), store, servers)
			if err != nil {
				return err
			}
			if src.config != "" {
				st.own(cmd.Context(), filepath.Dir(src.config))
			}
			if asJSON || form == "json" {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				err = e.Encode(st)
			} else {
				err = st.print(cmd.OutOrStdout())
			}
			if err == nil && check && st.troubled() {
				return errReported
			}
			return err
		},
	}
	cmd.Flags().SortFlags = false
	src.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&check, "check", false, "end with status 1 if there is a problem")
	cmd.Flags().StringVarP(&form, "output", "o", "", "yaml: print a cluster.yaml; json: as --json")
	return cmd
}

// status is what the command prints.
type status struct {
	Cluster     string         `json:"cluster"`
	Version     int64          `json:"version"`
	BucketCount int            `json:"bucket_count"`
	Home        string         `json:"home"`
	Durability  string         `json:"durability,omitempty"`
	Enforced    bool           `json:"durability_enforced,omitempty"`
	Shards      []shardStatus  `json:"shards"`
	Pins        []pinStatus    `json:"pins"`
	Tables      []tableStatus  `json:"tables"`
	Lookups     []lookupStatus `json:"lookups"`
	Proxies     []proxyStatus  `json:"proxies"`
}

type shardStatus struct {
	Name    string            `json:"name"`
	Weight  int               `json:"weight"`
	Buckets int               `json:"buckets"`
	Share   float64           `json:"share"`            // of all buckets, 0 to 1
	Pinned  int               `json:"pinned,omitempty"` // buckets of pinned values beside those
	Options map[string]string `json:"options,omitempty"`
	Primary string            `json:"primary,omitempty"` // the address of the primary, if it answers
	State   string            `json:"state"`             // steady, seeking, split or unknown
	Lacks   string            `json:"lacks,omitempty"`   // what it lacks to be as durable as declared
	Hosts   []hostStatus      `json:"hosts"`
	// Problems are what is wrong with the shard and its servers, and what to do.
	Problems []primary.Trouble `json:"problems,omitempty"`
}

type hostStatus struct {
	Address  string `json:"address"`
	Role     string `json:"role,omitempty"` // what it says that it is: primary or standby
	State    string `json:"state"`          // what it is to its shard, as in weft.replicas
	System   string `json:"system,omitempty"`
	Timeline int    `json:"timeline,omitempty"`
	Lag      *int64 `json:"lag_bytes,omitempty"`     // of the primary's log that a standby has not replayed
	Halted   bool   `json:"replay_paused,omitempty"` // an operator has paused the replay of a standby
	Sync     string `json:"sync,omitempty"`          // of a primary: how its standbys are attached
	Error    string `json:"error,omitempty"`         // why it does not answer
	// What only the weft dev that runs the server knows.
	Dir    string `json:"data_directory,omitempty"`
	PID    int    `json:"pid,omitempty"`
	Frozen bool   `json:"frozen,omitempty"`
}

type pinStatus struct {
	First int    `json:"first"`
	Last  int    `json:"last"`
	Shard string `json:"shard"`
}

type tableStatus struct {
	Database string         `json:"database"`
	Schema   string         `json:"schema"`
	Name     string         `json:"name"`
	Kind     string         `json:"kind"`
	State    string         `json:"state,omitempty"`
	Columns  []string       `json:"columns,omitempty"`
	Vindex   string         `json:"vindex,omitempty"`
	Lookup   string         `json:"lookup,omitempty"`
	Params   map[string]any `json:"params,omitempty"`
}

type lookupStatus struct {
	Name    string `json:"name"`
	Entries int    `json:"entries"`
}

type proxyStatus struct {
	ID      string `json:"id"`
	Epoch   int64  `json:"epoch"`
	Serves  int64  `json:"serves"`
	Address string `json:"address"`
	HTTP    string `json:"http,omitempty"`
	Host    string `json:"host"`
	Version string `json:"version"`
}

// statusStore is what the command reads from.
type statusStore interface {
	directory.Store
	directory.Registry
	directory.Lookups
}

func readStatus(ctx context.Context, store statusStore, servers *server.Servers) (*status, error) {
	snap, err := store.Load(ctx)
	if err != nil {
		return nil, err
	}
	proxies, err := store.Proxies(ctx)
	if err != nil {
		return nil, err
	}
	st := &status{
		Cluster: snap.Cluster, Version: snap.Version, BucketCount: snap.BucketCount, Home: snap.Home,
		Durability: string(snap.Durability), Enforced: snap.DurabilityEnforced,
		Shards: shardStatuses(snap), Pins: []pinStatus{}, Tables: []tableStatus{}, Lookups: []lookupStatus{}, Proxies: []proxyStatus{},
	}
	for _, p := range proxies {
		st.Proxies = append(st.Proxies, proxyStatus{p.ID, p.Epoch, p.Serves.Version, p.Address, p.HTTP, p.Host, p.Version})
	}
	for _, p := range snap.Pins {
		st.Pins = append(st.Pins, pinStatus(p))
	}
	lookups := map[string]bool{}
	for i := range snap.Tables {
		t := &snap.Tables[i]
		ts := tableStatus{
			Database: t.Database, Schema: t.Schema, Name: t.Name, Kind: string(t.Kind), State: string(t.State),
			Vindex: t.Vindex.Kind, Lookup: t.Vindex.Name, Params: t.Vindex.Params,
		}
		for _, c := range t.Columns {
			ts.Columns = append(ts.Columns, c.Name)
		}
		st.Tables = append(st.Tables, ts)
		if t.Vindex.Lookup() {
			lookups[t.Vindex.Name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(lookups)) {
		n, err := store.CountEntries(ctx, name)
		if err != nil {
			return nil, err
		}
		st.Lookups = append(st.Lookups, lookupStatus{name, n})
	}
	st.judge(snap, servers.Ping(ctx, snap.Shards, pingTimeout))
	return st, nil
}

func shardStatuses(snap *directory.Snapshot) []shardStatus {
	out := make([]shardStatus, 0, len(snap.Shards))
	for _, sh := range snap.Shards {
		s := shardStatus{Name: sh.Name, Weight: sh.Weight, Options: maps.Clone(sh.Options)}
		if s.Options["sslpassword"] != "" {
			s.Options["sslpassword"] = "***"
		}
		for _, h := range sh.Hosts {
			s.Hosts = append(s.Hosts, hostStatus{Address: h})
		}
		out = append(out, s)
	}
	for b, i := range snap.Placement {
		switch {
		case i == directory.Unused:
		case b < snap.BucketCount:
			out[i].Buckets++
		default:
			out[i].Pinned++
		}
	}
	for i := range out {
		out[i].Share = float64(out[i].Buckets) / float64(snap.BucketCount)
	}
	return out
}

// durability says what the cluster declares.
func (st *status) durability() string {
	switch {
	case st.Durability == "":
		return ""
	case st.Enforced:
		return ", durability " + st.Durability + " (enforced)"
	}
	return ", durability " + st.Durability
}

func (st *status) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "cluster %s, version %d, %d buckets, home %s%s\n\n", st.Cluster, st.Version, st.BucketCount, st.Home, st.durability())
	st.printShards(w)
	st.printProblems(w)
	if len(st.Pins) > 0 {
		fmt.Fprintln(w, "PINNED BUCKETS\tSHARD")
		for _, p := range st.Pins {
			fmt.Fprintf(w, "%d-%d\t%s\n", p.First, p.Last, p.Shard)
		}
		fmt.Fprintln(w)
	}
	st.printTables(w)
	if len(st.Proxies) == 0 {
		fmt.Fprintln(w, "no proxy is running: start one with weft serve")
		return w.Flush()
	}
	fmt.Fprintln(w, "PROXY\tADDRESS\tHTTP\tHOST\tSERVES\tVERSION")
	for _, p := range st.Proxies {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\n", p.ID, p.Address, p.HTTP, p.Host, p.Serves, p.Version)
	}
	return w.Flush()
}

func (st *status) printTables(w io.Writer) {
	if len(st.Tables) == 0 {
		fmt.Fprintf(w, "no table is declared: all are on the home shard, %s\n\n", st.Home)
		return
	}
	fmt.Fprintln(w, "DATABASE\tTABLE\tKIND\tKEY\tVINDEX\tSTATE")
	for _, t := range st.Tables {
		v := directory.Vindex{Name: t.Lookup, Kind: t.Vindex, Params: t.Params}
		state := t.State
		if state == "" {
			state = "active"
		}
		fmt.Fprintf(w, "%s\t%s.%s\t%s\t%s\t%s\t%s\n", t.Database, t.Schema, t.Name, t.Kind, strings.Join(t.Columns, ", "), v.String(), state)
	}
	fmt.Fprintln(w)
	if len(st.Lookups) > 0 {
		fmt.Fprintln(w, "LOOKUP\tENTRIES")
		for _, l := range st.Lookups {
			fmt.Fprintf(w, "%s\t%d\n", l.Name, l.Entries)
		}
		fmt.Fprintln(w)
	}
}
