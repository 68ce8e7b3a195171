package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/reshard"
	"weft/server"
)

// identifyTimeout bounds how long servers may take to say who they are.
const identifyTimeout = 3 * time.Second

// identify asks the servers of the cluster that is to be, and refuses what is known to be
// wrong. Those that do not answer are named.
func (a *applying) identify(ctx context.Context) ([]server.Host, error) {
	old, err := a.store.Load(ctx)
	if err != nil && !errors.Is(err, directory.ErrNoCluster) {
		return nil, err
	}
	next, err := a.want.Merge(old, a.prune)
	if err != nil {
		return nil, err
	}
	for _, name := range a.adopt {
		if _, ok := next.Shard(name); !ok && name != "all" {
			return nil, &usageError{fmt.Errorf("--adopt: there is no shard %q", name)}
		}
	}
	hosts := a.servers.Ask(ctx, reshard.WithShards(next).Shards, identifyTimeout)
	if errs := server.Judge(next, hosts, a.adopt); len(errs) > 0 {
		return nil, misplacedError(notApplied, errs)
	}
	for _, h := range hosts {
		if h.Err != nil {
			fmt.Fprintf(a.warn, "warning: %s at %s does not say whose it is: %s; proxies ask before they use it\n", h.Shard, h.Address, oneLine(h.Err))
		}
	}
	return hosts, nil
}

// notApplied is what weft apply says of them.
const notApplied = "nothing is applied, because servers are not those of this cluster:"

// misplacedError joins what is wrong with servers, with what each expects and what
// helps, said once.
func misplacedError(title string, errs []error) error {
	var b strings.Builder
	b.WriteString(title)
	var hints []string
	for _, err := range errs {
		fmt.Fprintf(&b, "\n  %v", err)
		var e *pgerr.Error
		if errors.As(err, &e) {
			fmt.Fprintf(&b, "\n    %s", e.Detail)
			if !slices.Contains(hints, e.Hint) {
				hints = append(hints, e.Hint)
			}
		}
	}
	for _, h := range hints {
		b.WriteString("\nHINT: " + h)
	}
	return errors.New(b.String())
}

func oneLine(err error) string {
	var e *pgerr.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return strings.ReplaceAll(err.Error(), "\n", " ")
}
