package console

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/pgerr"
)

// Table is the result of a command.
type Table struct {
	Columns []string
	Rows    [][]string
	Tag     string
}

// Client is one session as SHOW CLIENTS tells it.
type Client struct {
	ID             int32
	User, Database string
	Address        string
	State          string // idle, active, in transaction, failed transaction
	Pinned         string // why it keeps its backend; empty if it does not
	Shard          string // of the backend it holds
	BackendPID     int32
	Application    string
	Since          time.Time
}

// Pool is the connections of one user to one database on one shard.
type Pool struct {
	Shard, Database, User, Mode string
	Open, Idle, Waiting         int
}

// Shard is one shard of the cluster.
type Shard struct {
	Name   string
	Hosts  []string
	Home   bool
	Weight int
}

// Source is what the commands read.
type Source interface {
	Clients() []Client
	Pools() []Pool
	Shards() []Shard
	Version() string
}

type command struct {
	name, help string
	run        func(Source) Table
}

var commands []command

func init() {
	commands = []command{
		{"SHOW CLIENTS", "the connected clients, what they do and why they keep a backend", showClients},
		{"SHOW POOLS", "the connections to shards", showPools},
		{"SHOW SHARDS", "the shards of the cluster", showShards},
		{"SHOW VERSION", "weft's version", showVersion},
		{"SHOW HELP", "this list", showHelp},
	}
}

// Run runs one command.
func Run(text string, src Source) (Table, error) {
	words := strings.Fields(strings.TrimRight(strings.TrimSpace(text), "; \t\n"))
	name := strings.ToUpper(strings.Join(words, " "))
	if name == "" {
		return Table{}, nil
	}
	i := slices.IndexFunc(commands, func(c command) bool { return c.name == name })
	if i < 0 {
		return Table{}, pgerr.New(pgerr.SyntaxError, "unknown command %q", strings.Join(words, " ")).
			WithHint("This is weft's admin database: SHOW HELP lists what it knows.")
	}
	t := commands[i].run(src)
	t.Tag = "SHOW"
	return t, nil
}

func showClients(src Source) Table {
	t := Table{Columns: []string{"id", "user", "database", "address", "state", "pinned", "shard", "backend_pid", "application", "connected"}}
	for _, c := range src.Clients() {
		pid := ""
		if c.BackendPID != 0 {
			pid = strconv.Itoa(int(c.BackendPID))
		}
		t.Rows = append(t.Rows, []string{
			strconv.Itoa(int(c.ID)), c.User, c.Database, c.Address, c.State, c.Pinned, c.Shard, pid, c.Application,
			c.Since.UTC().Format("2006-01-02 15:04:05"),
		})
	}
	return t.sorted()
}

func showPools(src Source) Table {
	t := Table{Columns: []string{"shard", "database", "user", "mode", "open", "idle", "used", "waiting"}}
	for _, p := range src.Pools() {
		t.Rows = append(t.Rows, []string{
			p.Shard, p.Database, p.User, p.Mode, strconv.Itoa(p.Open), strconv.Itoa(p.Idle), strconv.Itoa(p.Open - p.Idle), strconv.Itoa(p.Waiting),
		})
	}
	return t.sorted()
}

func showShards(src Source) Table {
	t := Table{Columns: []string{"name", "hosts", "home", "weight"}}
	for _, s := range src.Shards() {
		t.Rows = append(t.Rows, []string{s.Name, strings.Join(s.Hosts, ","), strconv.FormatBool(s.Home), strconv.Itoa(s.Weight)})
	}
	return t
}

func showVersion(src Source) Table {
	return Table{Columns: []string{"version"}, Rows: [][]string{{src.Version()}}}
}

func showHelp(Source) Table {
	t := Table{Columns: []string{"command", "shows"}}
	for _, c := range commands {
		t.Rows = append(t.Rows, []string{c.name, c.help})
	}
	return t
}

func (t Table) sorted() Table {
	slices.SortFunc(t.Rows, slices.Compare[[]string])
	return t
}
