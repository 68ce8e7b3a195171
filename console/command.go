package console

import (
	"context"
	"strconv"
	"strings"

	"weft/pgerr"
)

// Control is the proxy, as commands act on it.
type Control interface {
	Source
	// Pause lets no transaction begin on the shard, or on any if it is "", and
	// waits until those that run have ended. If ctx ends before, all is as it was.
	Pause(ctx context.Context, shard string) error
	// Resume undoes it.
	Resume(shard string) error
	// DrainEverywhere lets no transaction begin on the shard on any proxy, for a while, "" for the usual time, and waits until those that
	// run have ended. ResumeEverywhere undoes it.
	DrainEverywhere(ctx context.Context, shard, lasts string) error
	ResumeEverywhere(ctx context.Context, shard string) error
	// Eject lets no transaction of this proxy read the standby at an address, Admit undoes it.
	Eject(address string) error
	Admit(address string) error
	// Reload reads weft.yaml again. It returns what changed, and what did not
	// because it needs a restart.
	Reload(ctx context.Context) ([]string, error)
	// Kill ends a session.
	Kill(id int32) error
	// PauseMoves pauses all jobs that carry rows, ResumeMoves lets them go on. Both return how many.
	PauseMoves(ctx context.Context) (int, error)
	ResumeMoves(ctx context.Context) (int, error)
	// ThrottleShard limits the statements of a shard per second for a while, and returns the id of the limit. Unthrottle
	// ends a limit.
	ThrottleShard(ctx context.Context, shard, rate, lasts string) (int64, error)
	Unthrottle(ctx context.Context, id string) error
}

// command is one that is no view.
type command struct {
	name string // as SHOW HELP has it: what is in lower case is an argument
	help string
	// columns are those of its answer, nil for none.
	columns []Column
	run     func(ctx context.Context, c Control, args []string) (Table, error)
}

// one is a command with one argument at most.
func one(run func(ctx context.Context, c Control, arg string) (Table, error)) func(context.Context, Control, []string) (Table, error) {
	return func(ctx context.Context, c Control, args []string) (Table, error) {
		if len(args) == 0 {
			return run(ctx, c, "")
		}
		return run(ctx, c, args[0])
	}
}

var commands []command

func init() {
	commands = []command{
		{"SHOW VERSION", "weft's version", []Column{{"version", Text}}, one(showVersion)},
		{"SHOW HELP", "this list", []Column{{"command", Text}, {"does", Text}}, one(showHelp)},
		{"PAUSE", "let no transaction begin, and wait for those that run; clients wait", nil, one(pause)},
		{"RESUME", "go on after PAUSE or DRAIN SHARD", nil, one(resume)},
		{"DRAIN SHARD name", "PAUSE for one shard: its connections are closed when they are free", nil, one(pause)},
		{"RESUME SHARD name", "go on after DRAIN SHARD", nil, one(resume)},
		{"DRAIN SHARD name EVERYWHERE", "DRAIN SHARD on all proxies, for a minute or until the shard has another primary", nil, drainEverywhere},
		{"DRAIN SHARD name EVERYWHERE FOR time", "the same for a while such as 30s", nil, drainEverywhere},
		{"RESUME SHARD name EVERYWHERE", "go on after DRAIN SHARD EVERYWHERE", nil, one(resumeEverywhere)},
		{"EJECT address", "let nothing be read from a standby; SHOW REPLICAS has the addresses", nil, one(eject)},
		{"ADMIT address", "go on after EJECT, or before a standby that could not be reached is tried again", nil, one(admit)},
		{"PAUSE MOVES", "let no job of the cluster carry rows to other shards", nil, one(pauseMoves)},
		{"RESUME MOVES", "let all jobs that are paused go on", nil, one(resumeMoves)},
		{"RELOAD", "read weft.yaml again", nil, one(reload)},
		{"KILL id", "end a client's session; SHOW CLIENTS has the ids", nil, one(kill)},
		{"THROTTLE SHARD name RATE n FOR time", "limit the statements of a shard per second, for a while such as 5m", throttleColumns, throttleShard},
		{"UNTHROTTLE id", "end a limit; SHOW THROTTLES has the ids", nil, one(unthrottle)},
	}
}

// polite are commands that drivers send of themselves, and their tags. They mean
// nothing here.
var polite = map[string]string{
	"BEGIN": "BEGIN", "START": "START TRANSACTION", "COMMIT": "COMMIT", "END": "COMMIT", "ROLLBACK": "ROLLBACK", "ABORT": "ROLLBACK",
	"SET": "SET", "RESET": "RESET", "DISCARD": "DISCARD ALL", "DEALLOCATE": "DEALLOCATE", "CLOSE": "CLOSE CURSOR", "UNLISTEN": "UNLISTEN",
}

// Run runs one command.
func Run(ctx context.Context, line string, c Control) (Table, error) {
	words := strings.Fields(strings.TrimRight(strings.TrimSpace(line), "; \t\r\n"))
	if len(words) == 0 {
		return Table{}, nil
	}
	first := strings.ToUpper(words[0])
	if tag, ok := polite[first]; ok {
		return Table{Tag: tag}, nil
	}
	if w := shown(words); w != nil {
		t := w.Table(ctx, c, Viewer{All: true})
		t.Tag = "SHOW"
		return t, nil
	}
	for _, cmd := range commands {
		if args, ok := cmd.match(words); ok {
			return cmd.run(ctx, c, args)
		}
	}
	return Table{}, unknown(words)
}

// shown returns the view that SHOW is to show, nil if it is something else.
func shown(words []string) *View {
	if len(words) != 2 || !strings.EqualFold(words[0], "SHOW") {
		return nil
	}
	for _, w := range Views {
		if strings.EqualFold(w.Show, words[1]) || strings.EqualFold(w.Name, words[1]) {
			return w
		}
	}
	return nil
}

// match returns the arguments of a command.
func (cmd command) match(words []string) (args []string, ok bool) {
	want := strings.Fields(cmd.name)
	if len(want) != len(words) {
		return nil, false
	}
	for i, w := range want {
		if strings.ToUpper(w) != w {
			args = append(args, strings.Trim(words[i], `"'`))
		} else if !strings.EqualFold(w, words[i]) {
			return nil, false
		}
	}
	return args, true
}

// unknown refuses a command, and says what was meant if that is clear.
func unknown(words []string) error {
	shown := strings.Join(words, " ")
	if len(shown) > 60 {
		shown = shown[:60] + "…" // not more: it may be a statement that went astray
	}
	e := pgerr.New(pgerr.SyntaxError, "unknown command %q", shown)
	switch strings.ToUpper(words[0]) {
	case "EJECT", "ADMIT":
		return e.WithHint("Say EJECT or ADMIT with the address of a standby: SHOW REPLICAS has them.")
	case "DRAIN", "KILL":
		return e.WithHint("Say DRAIN SHARD with the name of a shard (SHOW SHARDS), or KILL with the id of a client (SHOW CLIENTS).")
	case "THROTTLE", "UNTHROTTLE":
		return e.WithHint("Say THROTTLE SHARD name RATE 100 FOR 5m, or UNTHROTTLE with the id of a throttle (SHOW THROTTLES). weft.throttle in any other database has all limits.")
	case "SELECT", "WITH", "TABLE", "VALUES", "INSERT", "UPDATE", "DELETE", "COPY", "EXPLAIN":
		return e.WithHint("This is weft's admin database, which knows no SQL: SHOW HELP lists its commands. The same is in tables of every other database: SELECT * FROM weft.shards.")
	}
	return e.WithHint("This is weft's admin database: SHOW HELP lists what it knows.")
}

func showVersion(_ context.Context, c Control, _ string) (Table, error) {
	return Table{Columns: []Column{{"version", Text}}, Rows: [][]any{{c.Version()}}, Tag: "SHOW"}, nil
}

func showHelp(context.Context, Control, string) (Table, error) {
	t := Table{Columns: []Column{{"command", Text}, {"does", Text}}, Tag: "SHOW"}
	for _, w := range Views {
		t.Rows = append(t.Rows, []any{"SHOW " + w.Show, w.Help})
	}
	for _, cmd := range commands {
		t.Rows = append(t.Rows, []any{cmd.name, cmd.help})
	}
	return t, nil
}

func pause(ctx context.Context, c Control, shard string) (Table, error) {
	tag := "PAUSE"
	if shard != "" {
		tag = "DRAIN"
	}
	return Table{Tag: tag}, c.Pause(ctx, shard)
}

func resume(_ context.Context, c Control, shard string) (Table, error) {
	return Table{Tag: "RESUME"}, c.Resume(shard)
}

func drainEverywhere(ctx context.Context, c Control, args []string) (Table, error) {
	lasts := ""
	if len(args) > 1 {
		lasts = args[1]
	}
	return Table{Tag: "DRAIN"}, c.DrainEverywhere(ctx, args[0], lasts)
}

func resumeEverywhere(ctx context.Context, c Control, shard string) (Table, error) {
	return Table{Tag: "RESUME"}, c.ResumeEverywhere(ctx, shard)
}

func eject(_ context.Context, c Control, address string) (Table, error) {
	return Table{Tag: "EJECT"}, c.Eject(address)
}

func admit(_ context.Context, c Control, address string) (Table, error) {
	return Table{Tag: "ADMIT"}, c.Admit(address)
}

func pauseMoves(ctx context.Context, c Control, _ string) (Table, error) {
	n, err := c.PauseMoves(ctx)
	return Table{Tag: "PAUSE", Notices: []string{strconv.Itoa(n) + " jobs are paused"}}, err
}

func resumeMoves(ctx context.Context, c Control, _ string) (Table, error) {
	n, err := c.ResumeMoves(ctx)
	return Table{Tag: "RESUME", Notices: []string{strconv.Itoa(n) + " jobs go on"}}, err
}

func reload(ctx context.Context, c Control, _ string) (Table, error) {
	notices, err := c.Reload(ctx)
	return Table{Tag: "RELOAD", Notices: notices}, err
}

func kill(_ context.Context, c Control, arg string) (Table, error) {
	id, err := strconv.ParseInt(arg, 10, 32)
	if err != nil {
		return Table{}, pgerr.New(pgerr.InvalidParameterValue, "%q is not the id of a client", arg).WithHint("SHOW CLIENTS has the ids.")
	}
	return Table{Tag: "KILL"}, c.Kill(int32(id))
}

// Describe returns the columns that a command answers with, nil for none.
func Describe(line string) ([]Column, error) {
	words := strings.Fields(strings.TrimRight(strings.TrimSpace(line), "; \t\r\n"))
	if len(words) == 0 {
		return nil, nil
	}
	if _, ok := polite[strings.ToUpper(words[0])]; ok {
		return nil, nil
	}
	if w := shown(words); w != nil {
		return w.Columns, nil
	}
	for _, cmd := range commands {
		if _, ok := cmd.match(words); ok {
			return cmd.columns, nil
		}
	}
	return nil, unknown(words)
}
