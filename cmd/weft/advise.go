package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"weft/advise"
	"weft/catalog"
	"weft/directory"
)

func adviseCommand() *cobra.Command {
	var a advising
	cmd := &cobra.Command{
		Use:   "advise",
		Short: "Find the shard key that fits an application",
		Long: `Plan the statements of an application under every shard key that they could have,
and print what would become of them: how much would run on one shard, how many
transactions would commit on several, which statements would be refused, how even the
shards would be. The best key comes first, with the statements that would still visit
several shards, and the SQL that declares the tables. Nothing is changed.

The statements come from one of these:
  -c weft.yaml   weft.statements of a running cluster, and what weft.record has recorded
  --from URL     pg_stat_statements of any PostgreSQL from version 13 on, before it is sharded
  --log FILE     PostgreSQL's log of statements (jsonlog or csvlog), beside --from or --schema
  --statements FILE   SQL, beside --from or --schema

Schema and statistics come from the same servers, or the schema alone from what
pg_dump --schema-only wrote (--schema).

Recorded transactions tell which values are equal, and so how many shards a transaction
would write on, and how hot the hottest value is: SELECT weft.record('10min'). Logs tell the
same. Without, the statistics of rows stand in for them.

On a cluster the user must be a superuser or a member of pg_read_all_stats to see
all statements. Passwords are taken from PGPASSWORD or ~/.pgpass, as psql does.

Afterwards, from the same inputs: weft check --schema says what tables lack before they
can be declared, and weft plan --file where each statement goes.`,
		Example: `  weft advise -c weft.yaml --database app
  weft advise -c weft.yaml --database app -U postgres --shards 8 --json
  weft advise --from postgres://postgres@db.example/app --shards 8
  weft advise --from postgres://postgres@db.example/app --shards 8 --log postgresql.json
  weft advise --schema dump.sql --statements statements.sql --shards 4`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.run(cmd) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	a.src.flags(cmd)
	f.StringVar(&a.database, "database", "", "database of the cluster (default: the user's name)")
	f.StringVarP(&a.role, "user", "U", "", "user to log in as (default: yours)")
	f.StringVar(&a.schema, "schema", "", "file with the schema, instead of a server")
	a.flags(f, "statements")
	f.IntVar(&a.shards, "shards", 0, "how many shards there are to be (default: as many as the cluster has)")
	f.BoolVar(&a.asJSON, "json", false, "print JSON")
	return cmd
}

// advising is one run of the command.
type advising struct {
	workload
	src                    source
	database, role, schema string
	shards                 int
	asJSON                 bool
}

// maxShards bounds --shards: a cluster has no more buckets at first.
const maxShards = directory.DefaultBucketCount

func (a *advising) valid() error {
	live := a.src.config != "" || len(a.src.etcd) > 0 || a.src.cluster != ""
	switch {
	case live && (a.from != "" || a.schema != ""):
		return errors.New("a cluster, or --from, or --schema: give one of them")
	case a.from != "" && a.schema != "":
		return errors.New("--from already has a schema: leave out --schema")
	case !live && a.from == "" && a.schema == "":
		return errors.New("which application? give --config weft.yaml, --from postgres://… or --schema dump.sql")
	case live && (a.log != "" || a.file != ""):
		return errors.New("a cluster has statements of its own: leave out --log and --statements")
	case a.log != "" && a.file != "":
		return errors.New("--log or --statements: give one of them")
	case a.schema != "" && a.log == "" && a.file == "":
		return errors.New("which statements? give --log or --statements beside --schema")
	case !live && a.shards == 0:
		return errors.New("how many shards? give --shards")
	case a.shards < 0 || a.shards == 1 || a.shards > maxShards:
		return fmt.Errorf("--shards: want 2 to %d", maxShards)
	}
	return nil
}

func (a *advising) run(cmd *cobra.Command) error {
	if err := a.valid(); err != nil {
		return &usageError{err}
	}
	in, err := a.input(cmd)
	if err != nil {
		return err
	}
	advice, err := advise.New(in)
	switch {
	case errors.Is(err, advise.ErrNoStatements) && a.from == "" && a.schema == "":
		return fmt.Errorf("%w in weft.statements: let the application work through weft for a while; a user who is neither superuser nor member of pg_read_all_stats sees its own statements only", err)
	case errors.Is(err, advise.ErrNoStatements) && a.from != "" && a.log == "" && a.file == "":
		return fmt.Errorf("%w in pg_stat_statements: it counts from its installation on, and shows others' statements to superusers and members of pg_read_all_stats only", err)
	case err != nil:
		return err
	}
	if a.asJSON {
		e := json.NewEncoder(cmd.OutOrStdout())
		e.SetIndent("", "  ")
		return e.Encode(advice)
	}
	return advice.Print(cmd.OutOrStdout())
}

// input reads what the advice is made of.
func (a *advising) input(cmd *cobra.Command) (*advise.Input, error) {
	ctx := cmd.Context()
	switch {
	case a.from != "":
		return a.fromServer(ctx)
	case a.schema == "":
		return a.fromCluster(ctx, cmd.ErrOrStderr())
	}
	text, err := readText(a.schema)
	if err != nil {
		return nil, err
	}
	schema, err := catalog.FromDump(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.schema, err)
	}
	in := &advise.Input{Database: "app", Path: []string{"pg_catalog", "public"}, Schema: schema, Shards: a.shards}
	return in, a.fromFile(in)
}
