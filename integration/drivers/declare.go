package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const declareCommand = "declare"

// declare is $DECLARE: it tells weft how the tables of an application lie on the shards. Like
// every libpq program it finds the database in the environment. On a plain PostgreSQL there is nothing to tell.
//
//	$DECLARE products=reference customers=id orders=customer_id users=id lookup:users.email
func declare(ctx context.Context, args []string) error {
	statements, err := declarations(args)
	if err != nil {
		return err
	}
	if os.Getenv("TARGET") == "plain" {
		return nil
	}
	conn, err := pgx.Connect(ctx, "")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, sql := range statements {
		_, err := conn.Exec(ctx, sql)
		var e *pgconn.PgError
		if errors.As(err, &e) && e.Code == "42710" {
			continue // a lookup that a unique index has made
		}
		if err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// declarations are the statements that the arguments stand for.
func declarations(args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, errors.New("declare: name tables, such as products=reference orders=customer_id lookup:users.email")
	}
	var out []string
	for _, arg := range args {
		if column, ok := strings.CutPrefix(arg, "lookup:"); ok {
			dot := strings.LastIndexByte(column, '.')
			if dot <= 0 || dot == len(column)-1 {
				return nil, fmt.Errorf("declare: %q is not lookup:table.column", arg)
			}
			out = append(out, fmt.Sprintf("select weft.create_lookup(%s, %s)", literal(column[:dot]), literal(column[dot+1:])))
			continue
		}
		table, key, ok := strings.Cut(arg, "=")
		switch {
		case !ok || table == "" || key == "":
			return nil, fmt.Errorf("declare: %q is not table=key, table=reference or lookup:table.column", arg)
		case key == "reference":
			out = append(out, fmt.Sprintf("select weft.reference_table(%s)", literal(table)))
		default:
			out = append(out, fmt.Sprintf("select weft.shard_table(%s, %s)", literal(table), literal(key)))
		}
	}
	return out, nil
}

func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
