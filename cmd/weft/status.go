package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"weft/dev"
	"weft/directory"
	"weft/primary"
	"weft/server"
)

func statusCommand() *cobra.Command {
	var (
		src    source
		asJSON bool
		form   string
	)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show a cluster's shards, tables and proxies",
		Long: `Show what the directory says: the cluster, its shards with whether their hosts
answer a query of service.user from this machine, which of them is the primary, on
which timeline and how far standbys are behind, how many buckets they hold, pinned buckets, declared tables, lookups with how many
values have a place, and the proxies that are running with the version of the
directory they serve. Of servers that weft dev runs, data directory and process id are
shown too, if the command is given the weft.yaml of that directory.

With -o yaml it is a cluster.yaml with everything the directory says of where rows
are: applied to an empty directory, it makes the same cluster.`,
		Example: `  weft status -c weft.yaml
  weft status -c weft.yaml -o yaml > cluster.yaml
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
				return e.Encode(st)
			}
			return st.print(cmd.OutOrStdout())
		},
	}
	cmd.Flags().SortFlags = false
	src.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
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
	Lacks   string            `json:"lacks,omitempty"`   // what it lacks to be as durable as declared
	Hosts   []hostStatus      `json:"hosts"`
}

type hostStatus struct {
	Address  string `json:"address"`
	Role     string `json:"role,omitempty"` // primary or standby, if it answers
	Timeline int    `json:"timeline,omitempty"`
	Lag      *int64 `json:"lag_bytes,omitempty"` // of the primary's log that a standby has not replayed
	Error    string `json:"error,omitempty"`     // why it does not answer
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
	st.reach(servers.Ping(ctx, snap.Shards, pingTimeout))
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

// pingTimeout bounds how long hosts may take to answer.
const pingTimeout = 2 * time.Second

// reach notes which hosts answer. A login that is turned away is no answer: a query would be
// turned away, too.
func (st *status) reach(hosts []server.Host) {
	for i := range st.Shards {
		for j := range st.Shards[i].Hosts {
			h := &st.Shards[i].Hosts[j]
			for _, a := range hosts {
				switch {
				case a.Shard != st.Shards[i].Name || a.Address != h.Address:
				case a.Err != nil:
					h.Error = oneLine(a.Err)
				case a.Standby:
					h.Role, h.Timeline = "standby", a.Timeline
				default:
					h.Role, h.Timeline = "primary", a.Timeline
				}
			}
		}
		if primary := st.Shards[i].order(hosts); primary != nil {
			st.Shards[i].Lacks = lacks(st.Durability, primary)
		}
	}
}

// order finds the primary out of those who say that they are, and how far the others
// are behind, and returns the primary. A server that was replaced may say so too, on a lower timeline.
func (s *shardStatus) order(hosts []server.Host) *server.Host {
	var primary *server.Host
	for i := range hosts {
		a := &hosts[i]
		if a.Shard == s.Name && a.Err == nil && !a.Standby && (primary == nil || a.Timeline > primary.Timeline) {
			primary = a
		}
	}
	if primary == nil {
		return nil
	}
	s.Primary = primary.Address
	for j := range s.Hosts {
		for _, a := range hosts {
			if a.Shard == s.Name && a.Address == s.Hosts[j].Address && a.Err == nil && a.Standby {
				lag := max(0, primary.Position-a.Position) // asked at different times
				s.Hosts[j].Lag = &lag
			}
		}
	}
	return primary
}

// lacks says what a primary lacks to be as durable as the cluster declares; empty if nothing.
func lacks(durability string, h *server.Host) string {
	return primary.Durability(durability).Lacks(h.SyncNames, h.Hasty)
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

// printLacks names the shards that are not as durable as declared.
func (st *status) printLacks(w io.Writer) {
	lacking := false
	for _, s := range st.Shards {
		if s.Lacks != "" {
			lacking = true
			fmt.Fprintf(w, "shard %s is not as durable as declared: %s\n", s.Name, s.Lacks)
		}
	}
	if lacking {
		fmt.Fprintln(w)
	}
}

// own adds what a weft dev that runs in the directory says of its servers.
func (st *status) own(ctx context.Context, dir string) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	servers, err := dev.Servers(ctx, dir)
	if err != nil {
		return // no weft dev, or another user's
	}
	for _, s := range servers {
		for i := range st.Shards {
			for j := range st.Shards[i].Hosts {
				if h := &st.Shards[i].Hosts[j]; st.Shards[i].Name == s.Shard && h.Address == s.Address {
					h.Dir, h.PID, h.Frozen = s.Dir, s.PID, s.Frozen
				}
			}
		}
	}
}

func (st *status) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "cluster %s, version %d, %d buckets, home %s%s\n\n", st.Cluster, st.Version, st.BucketCount, st.Home, st.durability())
	st.printShards(w)
	st.printLacks(w)
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

func (st *status) printShards(w io.Writer) {
	owned := slices.ContainsFunc(st.Shards, func(s shardStatus) bool {
		return slices.ContainsFunc(s.Hosts, func(h hostStatus) bool { return h.Dir != "" })
	})
	head := "SHARD\tHOST\tREACHABLE\tROLE\tTIMELINE\tLAG\tWEIGHT\tBUCKETS\tSHARE\tOPTIONS"
	if owned {
		head += "\tPID\tDATA DIRECTORY"
	}
	fmt.Fprintln(w, head)
	for _, s := range st.Shards {
		var opts []string
		for _, k := range slices.Sorted(maps.Keys(s.Options)) {
			opts = append(opts, k+"="+s.Options[k])
		}
		buckets := fmt.Sprint(s.Buckets)
		if s.Pinned > 0 {
			buckets += fmt.Sprintf(" + %d own", s.Pinned)
		}
		for i, h := range s.Hosts {
			line := []string{"", h.Address, h.reachable(), h.Role, h.timeline(), h.lag(), "", "", "", ""}
			if i == 0 { // said once per shard
				line[0] = s.Name
				line = append(line[:6], fmt.Sprint(s.Weight), buckets, fmt.Sprintf("%.1f%%", 100*s.Share), strings.Join(opts, " "))
			}
			if owned {
				line = append(line, h.pid(), h.Dir)
			}
			fmt.Fprintln(w, strings.Join(line, "\t"))
		}
	}
	fmt.Fprintln(w)
}

func (h hostStatus) reachable() string {
	switch {
	case h.Frozen:
		return "frozen"
	case h.Error != "":
		return "no"
	default:
		return "yes"
	}
}

func (h hostStatus) timeline() string {
	if h.Timeline == 0 {
		return ""
	}
	return strconv.Itoa(h.Timeline)
}

// lag is how much of the primary's log a standby has not replayed, for people.
func (h hostStatus) lag() string {
	switch {
	case h.Lag == nil:
		return ""
	case *h.Lag < 10<<10:
		return fmt.Sprintf("%d B", *h.Lag)
	case *h.Lag < 10<<20:
		return fmt.Sprintf("%d kB", *h.Lag>>10)
	default:
		return fmt.Sprintf("%d MB", *h.Lag>>20)
	}
}

func (h hostStatus) pid() string {
	if h.PID == 0 {
		return ""
	}
	return strconv.Itoa(h.PID)
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
