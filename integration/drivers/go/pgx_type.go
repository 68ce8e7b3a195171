package main

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// address is the composite type, found by the order of its fields.
type address struct {
	Street *string
	City   *string
	Zip    *int32
}

func (a address) String() string {
	text := func(s *string) string {
		if s == nil {
			return "NULL"
		}
		return fmt.Sprintf("%q", *s)
	}
	zip := "NULL"
	if a.Zip != nil {
		zip = fmt.Sprint(*a.Zip)
	}
	return "(" + text(a.Street) + "," + text(a.City) + "," + zip + ")"
}

// types writes values of every type and reads them back, in one of pgx's ways.
func (s *pgxApp) types(ctx context.Context, mode pgx.QueryExecMode) (any, error) {
	text, day, at := "ünï \\ ' \" 日本", time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC), time.Date(2024, 2, 29, 23, 59, 59, 123456000, time.UTC)
	values := []any{
		int16(-7), int32(1 << 30), int64(-1 << 62), float32(1.5), 0.1, "123456789.000100", text, "vc", "ab", true,
		[]byte{0, 1, 255, '\\'},
		day, "01:02:03.000004", at, at, 36 * time.Hour, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", `{"k": "v"}`, `{"n": [1.5, null]}`,
		[]int32{1, -2, 3},
		[]string{"x", "", "a,b\"c\\"},
		[]string{"1.10", "2"},
		"sad", "{happy,ok}", "(\"x y\",,5)", "{\"(a,b,1)\"}",
		netip.MustParsePrefix("10.1.2.3/16"), "[3,9)", "10101",
		pgtype.Point{P: pgtype.Vec2{X: 1.25, Y: -2}, Valid: true},
	}
	// The types of parameters are told: in the simple protocol and in exec mode pgx guesses them by the Go type.
	_, err := s.Exec(ctx, `insert into kinds values (50, $1, $2, $3, $4, $5, $6::text::numeric, $7, $8, $9, $10, $11, $12, $13::text::time, $14, $15, $16::interval, $17::text::uuid, $18, $19,
		$20, $21, $22::text[]::numeric[], $23::text::mood, $24::text::mood[], $25::text::address, $26::text::address[], $27, $28::text::int4range, $29::text::varbit, $30)`,
		append([]any{mode}, values...)...)
	if err != nil {
		return nil, err
	}
	var out []any
	for _, sql := range []string{
		`select * from kinds where id = 50`, `select * from kinds where id < 3 order by id`,
		`select mood, moods, addr, addrs from kinds order by id`, `select max(num), min(tz), sum(iv), array_agg(u order by id), avg(f8) from kinds`,
		`select i8, tz, num, u, ia from kinds order by num nulls first, id`,
	} {
		got, err := rows(s.Query(ctx, sql, mode))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sql, err)
		}
		out = append(out, got)
	}
	for i, q := range []string{
		`select id from kinds where i2 = $1`, `select id from kinds where i4 = $1`, `select id from kinds where i8 = $1`, `select id from kinds where f4 = $1`,
		`select id from kinds where f8 = $1`, `select id from kinds where num = $1::text::numeric`, `select id from kinds where t = $1`, `select id from kinds where vc = $1 and id > 8`,
	} {
		got, err := rows(s.Query(ctx, q, mode, values[i]))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q, err)
		}
		out = append(out, got)
	}
	if _, err := s.Exec(ctx, `delete from kinds where id = 50`, mode); err != nil {
		return nil, err
	}
	return list(out, "\n"), nil
}

// ownTypes has pgx look up the enum and the composite type, and then reads and writes them in binary.
func (s *pgxApp) ownTypes(ctx context.Context) (any, error) {
	conn, err := pgx.Connect(ctx, "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	types, err := conn.LoadTypes(ctx, []string{"mood", "_mood", "address", "_address"})
	if err != nil {
		return nil, err
	}
	conn.TypeMap().RegisterTypes(types)
	var out []any
	for _, t := range types {
		out = append(out, t.Name)
	}
	street, zip := "long street", int32(7)
	homes := []address{{&street, nil, &zip}, {nil, &street, nil}}
	if _, err := conn.Exec(ctx, `insert into kinds (id, mood, moods, addr, addrs) values (51, $1, $2, $3, $4)`, "happy", []string{"sad", "happy"}, homes[0], homes); err != nil {
		return nil, err
	}
	for _, sql := range []string{`select id, mood, moods, addr, addrs from kinds where id = 51`, `select id, mood, moods, addr, addrs from kinds where id > 0 order by id`} {
		r, err := conn.Query(ctx, sql)
		if err != nil {
			return nil, err
		}
		for r.Next() {
			var id int
			var mood string
			var moods []string
			var home address
			var addrs []address
			if err := r.Scan(&id, &mood, &moods, &home, &addrs); err != nil {
				return nil, err
			}
			out = append(out, []any{id, mood, moods, home, addrs})
		}
		if r.Err() != nil {
			return nil, r.Err()
		}
	}
	// The type in the middle of a query over all shards, and as a key of a group.
	for _, sql := range []string{`select mood, count(*) from kinds group by mood order by mood`, `select distinct addr from kinds order by addr`, `select array_agg(mood order by id) from kinds`} {
		got, err := rows(conn.Query(ctx, sql))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sql, err)
		}
		out = append(out, fmt.Sprintf("%+v", got))
	}
	_, err = conn.Exec(ctx, `delete from kinds where id = 51`)
	return list(out, "\n"), err
}

// formats asks for each column in text and in binary, and compares the bytes.
func (s *pgxApp) formats(ctx context.Context) (any, error) {
	var out []any
	for _, sql := range []string{`select * from kinds where id = 5`, `select * from kinds order by id`} {
		for format := range int16(2) {
			r := s.PgConn().ExecParams(ctx, sql, nil, nil, nil, []int16{format}).Read()
			if r.Err != nil {
				return nil, r.Err
			}
			out = append(out, names(r.FieldDescriptions))
			for _, row := range r.Rows {
				// Values of the shop's own types hold numbers of types, which are each server's own.
				own := map[int]bool{24: true, 25: true, 26: true}
				for i := range row {
					if format == 1 && own[i] {
						row[i] = nil
					}
				}
				out = append(out, fmt.Sprintf("%q", row))
			}
		}
	}
	return list(out, "\n"), nil
}
