package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"weft/backup"
	"weft/directory"
)

// owner says who makes a point, for others who want to.
func owner(command string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown host"
	}
	return fmt.Sprintf("%s on %s, process %d", command, host, os.Getpid())
}

func backupListCommand() *cobra.Command {
	var b backingUp
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the points that were made",
		Long: `List the last 100 points, the newest first. A point is usable when each shard has archived
its part; "?" says that a shard does not archive its WAL, so that only what keeps the
WAL instead can tell.`,
		Example: `  weft backup list -c weft.yaml`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return b.run(cmd, func(ctx context.Context) error { return b.list(ctx, asJSON) })
		},
	}
	b.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// listed is a point as weft backup list --json prints it.
type listed struct {
	directory.Point
	Usable *bool `json:"usable"`
}

// list prints the points.
func (b *backingUp) list(ctx context.Context, asJSON bool) error {
	list, err := b.settle(ctx)
	if err != nil {
		return err
	}
	slices.Reverse(list)
	if asJSON {
		out := make([]listed, len(list))
		for i := range list {
			out[i].Point = list[i]
			if usable, known := backup.Usable(&list[i]); known {
				out[i].Usable = &usable
			}
		}
		e := json.NewEncoder(b.out)
		e.SetIndent("", "  ")
		return e.Encode(out)
	}
	w := tabwriter.NewWriter(b.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tTIME\tAGE\tUSABLE\tSTRICT\tHELD\tMANIFEST")
	for i := range list {
		p := &list[i]
		says := func(yes bool) string {
			if yes {
				return "yes"
			}
			return "no"
		}
		usable := "?"
		if yes, known := backup.Usable(p); known {
			usable = says(yes)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\n", p.Name, p.At.UTC().Format(time.RFC3339), time.Since(p.At).Round(time.Second), usable, says(p.Strict), p.Waited.Round(time.Millisecond), p.Size)
	}
	return w.Flush()
}

// settle lists the points, with what shards have archived by now.
func (b *backingUp) settle(ctx context.Context) ([]directory.Point, error) {
	list, err := b.store.Points(ctx)
	if err != nil {
		return nil, err
	}
	snap, err := b.store.Load(ctx)
	if err != nil {
		return nil, err
	}
	backup.Settle(ctx, b.store, list, func(ctx context.Context, shard string) (string, error) {
		spec, ok := snap.Shard(shard)
		if !ok {
			return "", fmt.Errorf("shard %s has left the cluster", shard)
		}
		rows, err := b.cluster.Query(ctx, spec, backup.LastArchived)
		if err != nil {
			return "", err
		}
		return rows[0][0], nil
	})
	return list, nil
}
