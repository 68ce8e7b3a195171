package importer

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/jackc/pgx/v5"

	"weft/parser"
)

// dump returns the statements that make the schema of the source.
func (i *Importer) dump(ctx context.Context, s *source) ([]string, error) {
	args := []string{
		"--schema-only", "--no-publications", "--no-subscriptions", "--no-tablespaces", "--no-password",
		"--exclude-schema=weft", "--exclude-schema=weft_gate", "--exclude-schema=weft_import", // of a server that was a shard
	}
	if i.Wish.NoOwner {
		args = append(args, "--no-owner", "--no-privileges")
	}
	for _, name := range i.Wish.Exclude {
		args = append(args, "--exclude-table="+name)
	}
	cmd := exec.CommandContext(ctx, i.PgDump, args...)
	cmd.Env = append(i.Env, dumpEnv(s.cfg)...)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", i.PgDump, err, strings.TrimSpace(complaint.String()))
	}
	return splitDump(out.String())
}

// dumpEnv is the environment with which libpq reaches a database.
func dumpEnv(cfg *pgx.ConnConfig) []string {
	env := []string{
		"PGHOST=" + cfg.Host, fmt.Sprintf("PGPORT=%d", cfg.Port), "PGUSER=" + cfg.User, "PGDATABASE=" + cfg.Database, "PGAPPNAME=" + application, "PGCLIENTENCODING=UTF8",
		"PGOPTIONS=-c default_transaction_read_only=off",
	}
	if cfg.Password != "" {
		env = append(env, "PGPASSWORD="+cfg.Password)
	}
	if cfg.TLSConfig == nil {
		env = append(env, "PGSSLMODE=disable")
	}
	return env
}

// splitDump cuts what pg_dump has written into statements.
func splitDump(text string) ([]string, error) {
	// Newer releases fence their script with commands of psql that have a key nobody can guess.
	if _, after, ok := strings.Cut(text, "\n\\restrict "); ok {
		key, _, _ := strings.Cut(after, "\n")
		text = strings.Replace(text, "\n\\restrict "+key+"\n", "\n", 1)
		text = strings.Replace(text, "\n\\unrestrict "+key+"\n", "\n", 1)
	}
	tree, err := parser.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("the source's dump cannot be read: %w", err)
	}
	var out []string
	for _, s := range tree.GetStmts() {
		from := int(s.GetStmtLocation())
		to := len(text)
		if n := int(s.GetStmtLen()); n > 0 {
			to = from + n
		}
		sql := withoutComments(text[from:to])
		// Only newer servers know this one, and it says what they do anyway.
		if !strings.HasPrefix(sql, "SET transaction_timeout") {
			out = append(out, sql)
		}
	}
	return out, nil
}

// withoutComments takes the comments away that pg_dump writes before a statement.
func withoutComments(sql string) string {
	for {
		sql = strings.TrimSpace(sql)
		if !strings.HasPrefix(sql, "--") {
			return sql
		}
		_, sql, _ = strings.Cut(sql, "\n")
	}
}
