package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// errTaken: somebody has this e-mail already.
var errTaken = errors.New("this e-mail is taken")

type tracker struct{ pool *pgxpool.Pool }

// signUp makes a tenant and its first user, or neither.
func (t *tracker) signUp(ctx context.Context, tenant, email, name string) (id int64, err error) {
	err = pgx.BeginFunc(ctx, t.pool, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, "insert into tenants (name) values ($1) returning id", tenant).Scan(&id); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "insert into users (tenant_id, email, name) values ($1, $2, $3)", id, email, name)
		var e *pgconn.PgError
		if errors.As(err, &e) && e.Code == "23505" && e.ConstraintName == "users_email_key" {
			return errTaken
		}
		return err
	})
	return id, err
}

// startProject makes a project with its tasks, in one batch.
func (t *tracker) startProject(ctx context.Context, tenant int64, title string, tasks ...string) (id int64, err error) {
	err = pgx.BeginFunc(ctx, t.pool, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `insert into projects (tenant_id, title, owner_id)
			select $1, $2, min(id) from users where tenant_id = $1 returning id`, tenant, title).Scan(&id)
		if err != nil {
			return err
		}
		var batch pgx.Batch
		for _, task := range tasks {
			batch.Queue("insert into tasks (tenant_id, project_id, title) values ($1, $2, $3)", tenant, id, task)
		}
		return tx.SendBatch(ctx, &batch).Close()
	})
	return id, err
}

func (t *tracker) addTask(ctx context.Context, tenant, project int64, title string) error {
	var owner int64
	if err := t.pool.QueryRow(ctx, "select tenant_id from projects where tenant_id = $1 and id = $2", tenant, project).Scan(&owner); err != nil {
		return err
	}
	_, err := t.pool.Exec(ctx, "insert into tasks (tenant_id, project_id, title) values ($1, $2, $3)", tenant, project, title)
	return err
}

func (t *tracker) openTasks(ctx context.Context, tenant int64) ([]string, error) {
	rows, err := t.pool.Query(ctx, `select p.title || ': ' || t.title from tasks t join projects p on p.tenant_id = t.tenant_id and p.id = t.project_id
		where t.tenant_id = $1 and t.state = 'open' order by t.title`, tenant)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// takeTask gives each worker another task.
func (t *tracker) takeTask(ctx context.Context, tenant int64) (id int64, err error) {
	err = t.pool.QueryRow(ctx, `update tasks set state = 'taken' where tenant_id = $1 and id = (
		select id from tasks where tenant_id = $1 and state = 'open' order by id limit 1 for update skip locked) returning id`, tenant).Scan(&id)
	return id, err
}

func (t *tracker) finishTask(ctx context.Context, tenant, id int64, hours float64) error {
	_, err := t.pool.Exec(ctx, "update tasks set state = 'done', hours = $3 where tenant_id = $1 and id = $2", tenant, id, hours)
	return err
}

// report is for the operator of the tracker, who sees all tenants.
func (t *tracker) report(ctx context.Context) ([]string, error) {
	rows, err := t.pool.Query(ctx, `select t.name, count(distinct p.id), count(k.id), coalesce(sum(k.hours), 0)::text
		from tenants t left join projects p on p.tenant_id = t.id left join tasks k on k.tenant_id = p.tenant_id and k.project_id = p.id
		group by t.id, t.name order by t.name`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		var name, hours string
		var projects, tasks int
		err := row.Scan(&name, &projects, &tasks, &hours)
		return fmt.Sprintf("%s has %d projects with %d tasks and %s hours", name, projects, tasks, hours), err
	})
}

// login knows nothing but an e-mail.
func (t *tracker) login(ctx context.Context, email string) (who string, err error) {
	err = t.pool.QueryRow(ctx, "select u.name || ' of ' || t.name from users u join tenants t on t.id = u.tenant_id where u.email = $1", email).Scan(&who)
	return who, err
}

// raiseHours writes on all shards, in one transaction.
func (t *tracker) raiseHours(ctx context.Context) (int64, error) {
	tag, err := t.pool.Exec(ctx, "update tasks set hours = hours + 1")
	return tag.RowsAffected(), err
}

// leave deletes all that a tenant has, by the foreign keys.
func (t *tracker) leave(ctx context.Context, tenant int64) error {
	_, err := t.pool.Exec(ctx, "delete from tenants where id = $1", tenant)
	return err
}
