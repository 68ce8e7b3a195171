package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

type options struct {
	only    []string // names of suites or of languages; empty: all
	list    bool
	keep    bool
	verbose bool
}

const usage = `Runs real drivers and ORMs against weft and against a plain PostgreSQL.

Usage: go run ./integration/drivers [flags]

Examples:
  go run ./integration/drivers                          all suites; installs what is missing
  go run ./integration/drivers --list                   what there is
  go run ./integration/drivers --only go,psql           the suites of two languages
  go run ./integration/drivers --only go/pgx -v         one suite, with all it prints
  go run ./integration/drivers --only go/pgx --keep     leave the servers running, say how to reach them
  go run ./integration/drivers --examples --only go     one of the applications in examples

Flags:
`

func parseOptions(args []string, out io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("drivers", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.Usage = func() {
		fmt.Fprint(out, usage)
		fs.PrintDefaults()
	}
	only := fs.String("only", "", "run only these suites or languages, separated by commas")
	examples := fs.Bool("examples", false, "run the applications of the folder examples; --only names some of them")
	fs.BoolVar(&o.list, "list", false, "list the suites and end")
	fs.BoolVar(&o.keep, "keep", false, "keep servers and databases until Ctrl-C, and print how to reach them")
	fs.BoolVar(&o.verbose, "v", false, "show what the suites print")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected %q; suites are named with --only", fs.Arg(0))
	}
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	switch {
	case *examples && len(o.only) == 0:
		o.only = []string{"examples"}
	case *examples:
		for i, name := range o.only {
			o.only[i] = "examples/" + name
		}
	}
	return o, nil
}

// choose picks suites by name or by language, in their own order.
func choose(all []suite, only []string) ([]suite, error) {
	if len(only) == 0 {
		return all, nil
	}
	used := map[string]bool{}
	var chosen []suite
	for _, s := range all {
		language, _, _ := strings.Cut(s.Name, "/")
		wanted := false
		for _, o := range only {
			if o == s.Name || o == language {
				used[o], wanted = true, true
			}
		}
		if wanted {
			chosen = append(chosen, s)
		}
	}
	for _, o := range only {
		if !used[o] {
			return nil, fmt.Errorf("there is no suite or language %q; --list names them", o)
		}
	}
	return chosen, nil
}
