package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"weft/handover"
	"weft/patroni"
)

// switching is one run of weft switchover.
type switching struct {
	handing
	options handover.Options
	forced  bool
	to      string
	// command makes another server the primary, and scope is Patroni's name of the shard.
	command          string
	scope            patroni.Scope
	ca, cert, secret string
}

func switchoverCommand() *cobra.Command {
	var s switching
	cmd := &cobra.Command{
		Use:   "switchover SHARD",
		Short: "Make another server the primary of a shard, without errors for clients",
		Long: `Make another server the primary of a shard. The shard is drained on all proxies first: what
has begun goes on, what begins waits. Then its manager is asked for another primary, and
clients go on there.

The manager is Patroni, if the shard is declared with patroni: in cluster.yaml or --scope names
it; its keys are read from the same etcd, and its REST API is asked. In the directory of a weft
dev that runs it is weft dev. For all others, --run names a command that makes another server
the primary, such as that of CloudNativePG, repmgr or pg_auto_failover. Its output is shown.

If transactions on the shard are not over after --wait, nothing is switched, unless --force is
given: then they fail. A user and a password for the REST API are taken from
PATRONI_RESTAPI_USERNAME and PATRONI_RESTAPI_PASSWORD.`,
		Example: `  weft switchover shard-1 -c weft.yaml
  weft switchover shard-1 --to 10.0.0.2:5432 --wait 30s -c weft.yaml
  weft switchover shard-1 -c ./weft-data/weft.yaml
  weft switchover shop-1 --run 'kubectl cnpg promote shop-1 shop-1-2' -c weft.yaml`,
		Args: words(whichShard),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkWait(s.options.Wait, s.options.For); err != nil {
				return err
			}
			return s.handing.run(cmd, args[0], func(ctx context.Context) error { return s.do(ctx, cmd) })
		},
	}
	s.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&s.to, "to", "", "address or name of the server that is to be the primary (default: the manager chooses)")
	f.DurationVar(&s.options.Wait, "wait", 10*time.Second, "how long transactions that have begun may take")
	f.DurationVar(&s.options.For, "for", time.Minute, "how long it may take in all; then clients go on with the primary that there is")
	f.BoolVar(&s.forced, "force", false, "switch also if transactions are not over, which fail then")
	f.StringVar(&s.command, "run", "", "command that makes another server the primary")
	f.StringVar(&s.scope.Scope, "scope", "", "Patroni's name of the shard (default: as cluster.yaml says)")
	f.StringVar(&s.scope.Namespace, "namespace", patroni.DefaultNamespace, "where Patroni keeps its keys in etcd")
	f.StringVar(&s.ca, "cacert", "", "certificate authority of Patroni's REST API")
	f.StringVar(&s.cert, "cert", "", "certificate for Patroni's REST API")
	f.StringVar(&s.secret, "key", "", "key of --cert")
	return cmd
}

func (s *switching) do(ctx context.Context, cmd *cobra.Command) error {
	m, err := s.manager(ctx, cmd)
	if err != nil {
		return err
	}
	r, err := s.shard.Switchover(ctx, m, s.options, s.forced)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "%s is the primary of %s, on timeline %d: drained after %s, %s without a primary\n",
		r.Now.Primary, s.shard.Name, r.Now.Timeline, r.Drained.Round(time.Millisecond), r.Paused.Round(time.Millisecond))
	return err
}

// manager returns what makes another server the primary.
func (s *switching) manager(ctx context.Context, cmd *cobra.Command) (handover.Manager, error) {
	if s.command != "" {
		if s.to != "" {
			return nil, &usageError{errors.New("--to and --run together: the command says which server it is")}
		}
		return &runManager{s.command, cmd}, nil
	}
	if s.scope.Scope == "" {
		sh, err := s.shard.Load(ctx)
		if err != nil {
			return nil, err
		}
		if sh.Patroni != nil {
			s.scope = *sh.Patroni
		}
	}
	if s.scope.Scope == "" {
		if m := s.findDev(ctx); m != nil {
			if s.to != "" {
				return nil, errors.New("--to: weft dev chooses the server itself")
			}
			return m, nil
		}
		return nil, hinted(fmt.Errorf("it is not known which manager runs the servers of %s", s.shard.Name),
			"Give Patroni's --scope, or --run with a command that makes another server the primary. With CloudNativePG that is --run 'kubectl cnpg promote CLUSTER POD'.")
	}
	if err := s.scope.Validate(); err != nil {
		return nil, err
	}
	client, err := s.client()
	if err != nil {
		return nil, err
	}
	return &patroni.Cluster{
		Client: client, Scope: s.scope, To: s.to,
		Keys: func(ctx context.Context) (map[string]string, error) { return s.store.Keys(ctx, s.scope.Prefix()) },
	}, nil
}

// client returns what asks Patroni's REST API.
func (s *switching) client() (*patroni.Client, error) {
	c := &patroni.Client{User: os.Getenv("PATRONI_RESTAPI_USERNAME"), Password: os.Getenv("PATRONI_RESTAPI_PASSWORD")}
	if s.ca == "" && s.cert == "" {
		return c, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.ca != "" {
		text, err := os.ReadFile(s.ca)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s holds no certificate", s.ca)
		}
	}
	if s.cert != "" {
		pair, err := tls.LoadX509KeyPair(s.cert, s.secret)
		if err != nil {
			return nil, err
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	c.HTTP = &http.Client{Transport: &http.Transport{TLSClientConfig: cfg, Proxy: http.ProxyFromEnvironment}}
	return c, nil
}

// runManager runs a command that makes another server the primary. It is a handover.Manager.
type runManager struct {
	command string
	cmd     *cobra.Command
}

// Check implements handover.Manager.
func (m *runManager) Check(context.Context) error { return nil }

// Switch implements handover.Manager.
func (m *runManager) Switch(ctx context.Context) error {
	c := exec.CommandContext(ctx, "sh", "-c", m.command)
	c.Stdout, c.Stderr = m.cmd.OutOrStdout(), m.cmd.ErrOrStderr()
	return c.Run()
}
