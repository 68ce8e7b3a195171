package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Names of targets, of the query mode that needs care, and of the two workloads that are not pgbench scripts.
const (
	targetDirect    = "direct"
	targetPgBouncer = "pgbouncer"
	targetWeft      = "weft"
	targetBaseline  = "baseline"
	targetCold      = "weft-cold" // weft that samples nothing
	targetLoop      = "weft-loop" // weft whose sessions run in loops

	modePrepared = "prepared"

	workloadIdle   = "idle"
	workloadStream = "stream"
)

// options is what to measure and for how long.
type options struct {
	Workloads []string `json:"workloads"`
	Modes     []string `json:"modes"`
	Clients   []int    `json:"clients"`
	Targets   []string `json:"targets"`
	Seconds   int      `json:"seconds"` // of one run of one target in one cell
	Rounds    int      `json:"rounds"`
	Scale     int      `json:"scale"`
	Shards    int      `json:"shards"`
	Pool      int      `json:"pool"` // connections to a server per proxy in transaction pooling
	Idle      int      `json:"idle_clients"`
	StreamMB  int      `json:"stream_mb"`

	// settle is how long a proxy gets to put away what a burst of work left behind.
	settle time.Duration

	WeftBin string `json:"-"`
	PgBin   string `json:"-"`
	Profile string `json:"-"`
	JSON    string `json:"-"`
}

func parseOptions(args []string, usage io.Writer) (options, error) {
	o := options{settle: 2 * time.Second}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(usage)
	wl := fs.String("workloads", "idle,stream,copy,"+strings.Join(scatterNames(), ",")+",select,update,readwrite,transfer,insert,home-select,home-readwrite", "what to measure")
	modes := fs.String("modes", "simple,extended,prepared", "pgbench query modes")
	clients := fs.String("clients", "16", "numbers of pgbench clients, such as 1,16,64")
	targets := fs.String("targets", "direct,pgbouncer,weft", "where to send the work")
	baseline := fs.Bool("baseline", false, "also measure a bare Go relay, the floor of any Go proxy here")
	quick := fs.Bool("quick", false, "2 s, one round, 200 MB streamed, unless those flags are given")
	fs.IntVar(&o.Seconds, "seconds", 5, "seconds of one run of one target in one cell")
	fs.IntVar(&o.Rounds, "rounds", 3, "runs of each target per cell; the median is reported")
	fs.IntVar(&o.Scale, "scale", 10, "pgbench scale")
	fs.IntVar(&o.Shards, "shards", 4, "shards of the cluster that weft stands before")
	fs.IntVar(&o.Pool, "pool", 20, "connections of a proxy to a server in transaction pooling")
	fs.IntVar(&o.Idle, "idle", 1000, "clients of the idle test")
	fs.IntVar(&o.StreamMB, "stream-mb", 1000, "size of the streamed result in MB")
	fs.StringVar(&o.WeftBin, "weft", "", "weft `binary` to measure instead of building one")
	fs.StringVar(&o.PgBin, "pg-bin", "", "`directory` of the PostgreSQL programs")
	fs.StringVar(&o.Profile, "profile", "", "write weft's CPU profile of each weft cell to this `file`, named per cell if there are several")
	fs.StringVar(&o.JSON, "json", "", "also write all figures to this `file`")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if *quick {
		given := map[string]bool{}
		fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
		if !given["seconds"] {
			o.Seconds = 2
		}
		if !given["rounds"] {
			o.Rounds = 1
		}
		if !given["stream-mb"] {
			o.StreamMB = 200
		}
	}
	o.Workloads = strings.Split(*wl, ",")
	o.Modes = strings.Split(*modes, ",")
	o.Targets = strings.Split(*targets, ",")
	if *baseline && !slices.Contains(o.Targets, targetBaseline) {
		o.Targets = append(o.Targets, targetBaseline)
	}
	for _, s := range strings.Split(*clients, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return o, fmt.Errorf("-clients: %q is not a positive number", s)
		}
		o.Clients = append(o.Clients, n)
	}
	return o, o.validate()
}

func (o options) validate() error {
	for _, c := range []struct {
		flag       string
		got, known []string
	}{
		{"workloads", o.Workloads, slices.Concat([]string{workloadIdle, workloadStream, workloadCopy}, scatterNames(), workloadNames())},
		{"modes", o.Modes, []string{"simple", "extended", modePrepared}},
		{"targets", o.Targets, []string{targetDirect, targetPgBouncer, targetWeft, targetCold, targetLoop, targetBaseline}},
	} {
		for _, s := range c.got {
			if !slices.Contains(c.known, s) {
				return fmt.Errorf("-%s: %q is none of %s", c.flag, s, strings.Join(c.known, ", "))
			}
		}
	}
	if o.wants(targetCold) && !o.wants(targetWeft) {
		return fmt.Errorf("-targets: %s is compared with %s, which is not among them", targetCold, targetWeft)
	}
	for _, c := range []struct {
		flag string
		n    int
	}{
		{"seconds", o.Seconds},
		{"rounds", o.Rounds},
		{"scale", o.Scale},
		{"shards", o.Shards},
		{"pool", o.Pool},
		{"idle", o.Idle},
		{"stream-mb", o.StreamMB},
	} {
		if c.n < 1 {
			return fmt.Errorf("-%s: %d is not a positive number", c.flag, c.n)
		}
	}
	return nil
}

func (o options) has(workload string) bool { return slices.Contains(o.Workloads, workload) }
func (o options) wants(target string) bool { return slices.Contains(o.Targets, target) }
