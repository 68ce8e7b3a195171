package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manualCommand writes the manual pages that packages install. They say what --help says.
func manualCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "manual DIRECTORY",
		Short:   "Write manual pages, one for each command",
		Example: "  weft manual /usr/local/share/man/man1",
		Hidden:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &usageError{errors.New("into which directory?")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			for _, c := range documented(cmd.Root()) {
				if err := os.WriteFile(filepath.Join(args[0], pageName(c)+".1"), []byte(page(c)), 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// documented returns root and every command below it that people may type.
func documented(root *cobra.Command) []*cobra.Command {
	out := []*cobra.Command{root}
	for _, c := range root.Commands() {
		if !c.Hidden && c.Name() != "help" {
			out = append(out, documented(c)...)
		}
	}
	return out
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// flags returns the flags of a command as people may type them, sorted by name.
func flags(c *cobra.Command) []*pflag.Flag {
	c.InitDefaultHelpFlag()
	c.InitDefaultVersionFlag()
	var out []*pflag.Flag
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			out = append(out, f)
		}
	})
	slices.SortFunc(out, func(a, b *pflag.Flag) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// page returns the manual page of a command in roff.
func page(c *cobra.Command) string {
	var b strings.Builder
	name := pageName(c)
	fmt.Fprintf(&b, ".TH %q 1 \"\" %q \"weft\"\n", strings.ToUpper(name), "weft "+buildVersion())
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(name), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(c.UseLine()))
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, ".br\n.B %s\n", roff(c.CommandPath()+" COMMAND [flags]"))
	}
	b.WriteString(".SH DESCRIPTION\n")
	if c.Long != "" {
		prose(&b, c.Long)
	} else {
		prose(&b, c.Short+".")
	}
	if c.HasAvailableSubCommands() {
		b.WriteString(".SH COMMANDS\n")
		for _, sub := range documented(c)[1:] {
			fmt.Fprintf(&b, ".TP\n.BR %s (1)\n%s\n", roff(pageName(sub)), roff(sub.Short))
		}
	}
	b.WriteString(".SH OPTIONS\n")
	for _, f := range flags(c) {
		option(&b, f)
	}
	if c.Example != "" {
		b.WriteString(".SH EXAMPLES\n")
		literal(&b, strings.Split(c.Example, "\n"))
	}
	b.WriteString(".SH SEE ALSO\n")
	var others []string
	for _, o := range documented(c.Root()) {
		if o != c {
			others = append(others, ".BR "+roff(pageName(o))+" (1)")
		}
	}
	b.WriteString(strings.Join(others, " ,\n") + "\n")
	return b.String()
}

// option writes one flag, its default included.
func option(b *strings.Builder, f *pflag.Flag) {
	value, usage := pflag.UnquoteUsage(f)
	word := "--" + f.Name
	if f.Shorthand != "" {
		word = "-" + f.Shorthand + ", " + word
	}
	if value != "" {
		value = " " + value
	}
	if d := f.DefValue; d != "" && d != "false" && d != "[]" && d != "0" {
		usage += " (default " + d + ")"
	}
	fmt.Fprintf(b, ".TP\n\\fB%s\\fR\\fI%s\\fR\n%s\n", roff(word), roff(value), roff(usage))
}

// prose writes paragraphs. Indented lines stay as they are.
func prose(b *strings.Builder, text string) {
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		lines := strings.Split(paragraph, "\n")
		if strings.HasPrefix(lines[0], " ") {
			literal(b, lines)
			continue
		}
		for _, l := range lines {
			b.WriteString(roff(l) + "\n")
		}
	}
}

// literal writes lines that are not filled.
func literal(b *strings.Builder, lines []string) {
	b.WriteString(".nf\n")
	for _, l := range lines {
		b.WriteString(roff(l) + "\n")
	}
	b.WriteString(".fi\n")
}

// roff escapes text for a line of its own or in one.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
