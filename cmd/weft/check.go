package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"weft/config"
)

func checkCommand() *cobra.Command {
	var file, cluster string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check configuration files",
		Long: `Check a weft.yaml, a cluster.yaml or both: every problem is printed with its line
and column, and the exit code is 1 if there is one. Certificates and passwords
that the file refers to must be there. Nothing is started or contacted.`,
		Example: `  weft check -c weft.yaml
  weft check -f cluster.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
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
			if bad {
				return errReported
			}
			fmt.Fprintln(cmd.OutOrStdout(), "ok")
			return nil
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "weft.yaml to check")
	cmd.Flags().StringVarP(&cluster, "file", "f", "", "cluster.yaml to check")
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
