package main

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tracker:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	url := os.Getenv("DATABASE_URL")
	switch {
	case len(args) > 1 && args[0] == "migrate":
		return migrate(ctx, url, args[1:])
	case len(args) == 1 && args[0] == "demo":
		pool, err := pgxpool.New(ctx, url)
		if err != nil {
			return err
		}
		defer pool.Close()
		return demo(ctx, &tracker{pool})
	}
	return fmt.Errorf("usage: tracker migrate FILE … | tracker demo")
}

func migrate(ctx context.Context, url string, files []string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, string(text)); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// demo is a day of three tenants. Each step prints one line.
func demo(ctx context.Context, app *tracker) error {
	acme, err := app.signUp(ctx, "Acme", "ada@acme.example", "Ada")
	if err != nil {
		return err
	}
	bolt, err := app.signUp(ctx, "Bolt", "bob@bolt.example", "Bob")
	if err != nil {
		return err
	}
	cargo, err := app.signUp(ctx, "Cargo", "cyd@cargo.example", "Cyd")
	if err != nil {
		return err
	}
	say("sign up", "three tenants")

	_, err = app.signUp(ctx, "Another Acme", "ada@acme.example", "Ada")
	say("an e-mail is taken", err)

	roof, err := app.startProject(ctx, acme, "Roof", "tiles", "beams", "gutter")
	if err != nil {
		return err
	}
	if _, err := app.startProject(ctx, bolt, "Wall", "bricks", "mortar"); err != nil {
		return err
	}
	if _, err := app.startProject(ctx, cargo, "Gate", "hinges"); err != nil {
		return err
	}
	open, err := app.openTasks(ctx, acme)
	if err != nil {
		return err
	}
	say("open tasks", open)

	say("a task for a project of another tenant", app.addTask(ctx, bolt, roof, "not ours") != nil)

	first, err := app.takeTask(ctx, acme)
	if err != nil {
		return err
	}
	if err := app.finishTask(ctx, acme, first, 2.5); err != nil {
		return err
	}
	open, err = app.openTasks(ctx, acme)
	if err != nil {
		return err
	}
	say("one is done", open)

	report, err := app.report(ctx)
	if err != nil {
		return err
	}
	say("report over all tenants", report)

	who, err := app.login(ctx, "cyd@cargo.example")
	if err != nil {
		return err
	}
	say("login by e-mail", who)

	n, err := app.raiseHours(ctx)
	if err != nil {
		return err
	}
	say("hours of all tenants", n)

	if err := app.leave(ctx, bolt); err != nil {
		return err
	}
	report, err = app.report(ctx)
	if err != nil {
		return err
	}
	say("a tenant has left", report)
	return nil
}

func say(what string, answer any) { fmt.Printf("ok %s: %v\n", what, answer) }
