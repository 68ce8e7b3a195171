package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"weft/directory"
)

func statusCommand() *cobra.Command {
	var (
		src    source
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show a cluster's shards and proxies",
		Long: `Show what the directory says: the cluster, its shards with whether this machine
can reach their hosts, and the proxies that are running.`,
		Example: `  weft status -c weft.yaml
  weft status --etcd 127.0.0.1:2379 --cluster main --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := src.open()
			if err != nil {
				return err
			}
			defer store.Close()
			st, err := readStatus(cmd.Context(), store)
			if err != nil {
				return err
			}
			if asJSON {
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
	return cmd
}

// status is what the command prints.
type status struct {
	Cluster     string        `json:"cluster"`
	Version     int64         `json:"version"`
	BucketCount int           `json:"bucket_count"`
	Home        string        `json:"home"`
	Shards      []shardStatus `json:"shards"`
	Proxies     []proxyStatus `json:"proxies"`
}

type shardStatus struct {
	Name    string            `json:"name"`
	Weight  int               `json:"weight"`
	Options map[string]string `json:"options,omitempty"`
	Hosts   []hostStatus      `json:"hosts"`
}

type hostStatus struct {
	Address string `json:"address"`
	Error   string `json:"error,omitempty"` // why it cannot be reached
}

type proxyStatus struct {
	ID      string `json:"id"`
	Epoch   int64  `json:"epoch"`
	Address string `json:"address"`
	HTTP    string `json:"http,omitempty"`
	Host    string `json:"host"`
	Version string `json:"version"`
}

func readStatus(ctx context.Context, store interface {
	directory.Store
	directory.Registry
},
) (*status, error) {
	snap, err := store.Load(ctx)
	if err != nil {
		return nil, err
	}
	proxies, err := store.Proxies(ctx)
	if err != nil {
		return nil, err
	}
	st := &status{Cluster: snap.Cluster, Version: snap.Version, BucketCount: snap.BucketCount, Home: snap.Home}
	for _, p := range proxies {
		st.Proxies = append(st.Proxies, proxyStatus{p.ID, p.Epoch, p.Address, p.HTTP, p.Host, p.Version})
	}
	for _, sh := range snap.Shards {
		s := shardStatus{Name: sh.Name, Weight: sh.Weight, Options: maps.Clone(sh.Options)}
		if s.Options["sslpassword"] != "" {
			s.Options["sslpassword"] = "***"
		}
		for _, h := range sh.Hosts {
			s.Hosts = append(s.Hosts, hostStatus{Address: h})
		}
		st.Shards = append(st.Shards, s)
	}
	st.reach(ctx)
	return st, nil
}

// reach dials every host at once: a cluster with dead ones is when this
// command is needed, and their timeouts must not add up.
func (st *status) reach(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for i := range st.Shards {
		for j := range st.Shards[i].Hosts {
			h := &st.Shards[i].Hosts[j]
			wg.Go(func() {
				var d net.Dialer
				c, err := d.DialContext(ctx, "tcp", h.Address)
				if err != nil {
					h.Error = err.Error()
					return
				}
				_ = c.Close()
			})
		}
	}
	wg.Wait()
}

func (st *status) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "cluster %s, version %d, %d buckets, home %s\n\n", st.Cluster, st.Version, st.BucketCount, st.Home)
	fmt.Fprintln(w, "SHARD\tHOST\tREACHABLE\tWEIGHT\tOPTIONS")
	for _, s := range st.Shards {
		var opts []string
		for _, k := range slices.Sorted(maps.Keys(s.Options)) {
			opts = append(opts, k+"="+s.Options[k])
		}
		for i, h := range s.Hosts {
			name, weight, reach := s.Name, fmt.Sprint(s.Weight), "yes"
			if i > 0 { // said once per shard
				name, weight, opts = "", "", nil
			}
			if h.Error != "" {
				reach = "no"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", name, h.Address, reach, weight, strings.Join(opts, " "))
		}
	}
	fmt.Fprintln(w)
	if len(st.Proxies) == 0 {
		fmt.Fprintln(w, "no proxy is running: start one with weft serve")
		return w.Flush()
	}
	fmt.Fprintln(w, "PROXY\tADDRESS\tHTTP\tHOST\tVERSION")
	for _, p := range st.Proxies {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", p.ID, p.Address, p.HTTP, p.Host, p.Version)
	}
	return w.Flush()
}
