// Command weft makes many PostgreSQL servers look like one.
//
// Each subcommand is a file of its own: it reads flags and files, calls one
// package and prints. Only main ends the process.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// run is main for tests too: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	if !errors.Is(err, errReported) {
		fmt.Fprintf(stderr, "%s: %v\n", cmd.CommandPath(), err)
		var use *usageError
		if errors.As(err, &use) {
			fmt.Fprintf(stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
		}
	}
	var own *statusError
	if errors.As(err, &own) {
		return own.status
	}
	return 1
}

// errReported ends a command whose output has already said what is wrong.
var errReported = errors.New("reported")

// usageError is a command line that cannot be meant.
type usageError struct{ error }

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "weft",
		Short: "Many PostgreSQL servers as one",
		Long: `weft is a proxy that makes many PostgreSQL servers look like one.

  weft dev              try it: a whole cluster on this machine
  weft apply, serve     run it: declare the shards once, start a proxy anywhere`,
		// Errors are printed once, by run, and without the whole usage.
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       versionLine(),

		SuggestionsMinimumDistance: 2,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			msg := fmt.Sprintf("there is no command %q", args[0])
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				msg += "; did you mean " + strings.Join(near, " or ") + "?"
			}
			return &usageError{errors.New(msg)}
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.AddCommand(devCommand(), serveCommand(), applyCommand(), statusCommand(), recoverCommand(), moveCommand(), rebalanceCommand(), growCommand(), shardCommand(), switchoverCommand(), drainCommand(), fenceCommand(), importCommand(), backupCommand(), restoreCommand(), planCommand(), adviseCommand(), checkCommand(), doctorCommand(),
		versionCommand(), completionCommand(), manualCommand())
	return root
}

// noArgs refuses words that no flag takes.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &usageError{fmt.Errorf("%q is one word too many", args[0])}
	}
	return nil
}
