package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// shells are those for which weft writes completions.
var shells = []string{"bash", "zsh", "fish"}

func completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion " + strings.Join(shells, "|"),
		Short: "Print a script that completes command lines of weft in a shell",
		Long: `Print a script with which a shell completes commands and flags of weft. The
packages install it; otherwise put it where the shell looks for such scripts.`,
		Example: `  weft completion bash > /etc/bash_completion.d/weft
  weft completion zsh > /usr/local/share/zsh/site-functions/_weft
  weft completion fish > ~/.config/fish/completions/weft.fish`,
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return &usageError{errors.New("for which shell? " + strings.Join(shells, ", "))}
			case len(args) > 1:
				return &usageError{fmt.Errorf("%q is one word too many", args[1])}
			case !slices.Contains(shells, args[0]):
				return &usageError{fmt.Errorf("%q is not one of %s", args[0], strings.Join(shells, ", "))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root, out := cmd.Root(), cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			default:
				return root.GenFishCompletion(out, true)
			}
		},
	}
}
