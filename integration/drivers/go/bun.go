package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/driver/pgdriver"
	"github.com/uptrace/bun/migrate"
)

// The models of bun.
type (
	bunCustomer struct {
		bun.BaseModel `bun:"table:customers,alias:c"`
		ID            int64          `bun:",pk,autoincrement"`
		Name          string         `bun:",notnull"`
		Tags          []string       `bun:",array"`
		Settings      map[string]any `bun:"type:jsonb"`
		Balance       string         `bun:"type:numeric(12,2),notnull,default:0"`
		Created       time.Time      `bun:",notnull,default:current_timestamp"`
		Orders        []*bunOrder    `bun:"rel:has-many,join:id=customer_id"`
		User          *bunUser       `bun:"rel:has-one,join:id=customer_id"`
	}
	bunOrder struct {
		bun.BaseModel `bun:"table:orders,alias:o"`
		CustomerID    int64 `bun:",pk"`
		ID            int64 `bun:",pk,autoincrement"`
		Status        string
		Placed        time.Time
		Customer      *bunCustomer  `bun:"rel:belongs-to,join:customer_id=id"`
		Products      []*bunProduct `bun:"m2m:items,join:Order=Product"`
	}
	bunItem struct {
		bun.BaseModel `bun:"table:items,alias:i"`
		CustomerID    int64 `bun:",pk"`
		OrderID       int64 `bun:",pk"`
		ProductID     int64 `bun:",pk"`
		Quantity      int
		Order         *bunOrder   `bun:"rel:belongs-to,join:customer_id=customer_id,join:order_id=id"`
		Product       *bunProduct `bun:"rel:belongs-to,join:product_id=id"`
	}
	bunProduct struct {
		bun.BaseModel `bun:"table:products,alias:p"`
		ID            int64  `bun:",pk,autoincrement"`
		Name          string `bun:",unique"`
		Price         string `bun:"type:numeric(10,2)"`
	}
	bunUser struct {
		bun.BaseModel `bun:"table:users,alias:u"`
		ID            int64  `bun:",pk,autoincrement"`
		Email         string `bun:",unique,notnull"`
		CustomerID    int64
	}
)

// bunSuite uses bun with its own driver, which sends everything as simple queries.
func bunSuite(r *report) {
	ca := os.Getenv("PGSSLROOTCERT")
	dsn := strings.Replace(os.Getenv("DATABASE_URL"), "sslmode=require", "sslmode=verify-ca&sslrootcert="+ca, 1)
	db := bun.NewDB(sql.OpenDB(pgdriver.NewConnector(pgdriver.WithDSN(dsn))), pgdialect.New())
	defer db.Close()
	db.RegisterModel((*bunItem)(nil))
	s := bunApp{db}
	r.check("connect", func(ctx context.Context) (any, error) { return nil, db.PingContext(ctx) })
	r.check("migrations", s.migrations)
	r.check("bulk insert", s.bulk)
	r.check("relations", s.relations)
	r.check("many to many", s.manyToMany)
	r.check("select", s.selects)
	r.check("with", s.with)
	r.check("update and delete", s.update)
	r.check("upsert", s.upsert)
	r.check("transactions", s.transactions)
	r.check("copy", s.copy)
	r.check("listen", s.listen)
	r.check("errors", s.errors)
	r.check("cancel", s.cancel)
	r.check("migrations back", s.back)
	r.check("reconnect", s.reconnect)
}

type bunApp struct{ *bun.DB }

// bunMigrations make the tables by bun's own migrator, which keeps a table of what it did and locks another.
func bunMigrations() *migrate.Migrations {
	m := migrate.NewMigrations()
	exec := func(statements ...string) func(context.Context, *migrate.Migrator, *migrate.Migration) error {
		return func(ctx context.Context, m *migrate.Migrator, _ *migrate.Migration) error {
			db := m.DB()
			for _, text := range statements {
				if _, err := db.ExecContext(ctx, text); err != nil {
					return err
				}
			}
			return nil
		}
	}
	m.Add(migrate.Migration{Name: "20240101000000", Up: func(ctx context.Context, m *migrate.Migrator, _ *migrate.Migration) error {
		db := m.DB()
		for _, model := range []any{(*bunProduct)(nil), (*bunCustomer)(nil), (*bunOrder)(nil), (*bunUser)(nil)} {
			create := db.NewCreateTable().Model(model).IfNotExists()
			if _, isOrder := model.(*bunOrder); isOrder {
				create = create.ForeignKey(`(customer_id) references customers (id) on delete cascade`)
			}
			if _, err := create.Exec(ctx); err != nil {
				return err
			}
		}
		_, err := db.NewCreateTable().Model((*bunItem)(nil)).ForeignKey(`(customer_id, order_id) references orders (customer_id, id) on delete cascade`).
			ForeignKey(`(product_id) references products (id)`).Exec(ctx)
		return err
	}, Down: exec(`drop table users, items, orders, customers, products`)})
	m.Add(migrate.Migration{Name: "20240102000000", Up: exec(`create index orders_placed on orders (placed)`, `alter table orders add column note text`), Down: exec(`drop index orders_placed`, `alter table orders drop column note`)})
	return m
}

func (s bunApp) migrations(ctx context.Context) (any, error) {
	m := migrate.NewMigrator(s.DB, bunMigrations())
	if err := m.Init(ctx); err != nil {
		return nil, err
	}
	if err := m.Lock(ctx); err != nil {
		return nil, err
	}
	group, err := m.Migrate(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.Unlock(ctx); err != nil {
		return nil, err
	}
	if err := shell(ctx, "DECLARE", "products=reference customers=id orders=customer_id items=customer_id users=id"); err != nil {
		return nil, err
	}
	status, err := m.MigrationsWithStatus(ctx)
	if err != nil {
		return nil, err
	}
	return []any{len(group.Migrations), len(status.Applied()), len(status.Unapplied())}, nil
}

func (s bunApp) bulk(ctx context.Context) (any, error) {
	var customers []*bunCustomer
	var products []*bunProduct
	for i := 1; i <= 30; i++ {
		customers = append(customers, &bunCustomer{Name: fmt.Sprintf("customer %02d", i), Tags: []string{"a", fmt.Sprintf("t'%d", i%3)}, Settings: map[string]any{"n": i}, Balance: fmt.Sprintf("%d.50", i), Created: time.Date(2024, 1, i, 0, 0, 0, 0, time.UTC)})
		products = append(products, &bunProduct{Name: fmt.Sprintf("product %02d", i), Price: fmt.Sprintf("%d.25", i)})
	}
	if _, err := s.NewInsert().Model(&customers).Exec(ctx); err != nil {
		return nil, err
	}
	if _, err := s.NewInsert().Model(&products).Exec(ctx); err != nil {
		return nil, err
	}
	var orders []*bunOrder
	var users []*bunUser
	for i, c := range customers {
		users = append(users, &bunUser{Email: fmt.Sprintf("user%d@example.com", i+1), CustomerID: c.ID})
		for o := range 3 {
			orders = append(orders, &bunOrder{CustomerID: c.ID, Status: []string{"open", "paid", "sent"}[(i+o)%3], Placed: time.Date(2024, 2, i%28+1, o, 0, 0, 0, time.UTC)})
		}
	}
	if _, err := s.NewInsert().Model(&orders).Exec(ctx); err != nil {
		return nil, err
	}
	if _, err := s.NewInsert().Model(&users).Exec(ctx); err != nil {
		return nil, err
	}
	var items []*bunItem
	for i, o := range orders {
		items = append(items, &bunItem{CustomerID: o.CustomerID, OrderID: o.ID, ProductID: products[i%30].ID, Quantity: i%5 + 1}, &bunItem{CustomerID: o.CustomerID, OrderID: o.ID, ProductID: products[(i+7)%30].ID, Quantity: 1})
	}
	_, err := s.NewInsert().Model(&items).Exec(ctx)
	return []any{len(customers), len(orders), len(items)}, err
}

func (s bunApp) relations(ctx context.Context) (any, error) {
	var customers []*bunCustomer
	err := s.NewSelect().Model(&customers).Relation("User").Relation("Orders", func(q *bun.SelectQuery) *bun.SelectQuery { return q.Order("o.placed").Where("o.status <> ?", "open") }).
		Order("c.name").Limit(12).Scan(ctx)
	if err != nil {
		return nil, err
	}
	var out []any
	for _, c := range customers {
		line := fmt.Sprint(c.Name, c.Tags, c.Settings, c.Balance, show(c.Created), c.User.Email)
		for _, o := range c.Orders {
			line += " " + o.Status + " " + show(o.Placed)
		}
		out = append(out, line)
	}
	var orders []*bunOrder
	if err := s.NewSelect().Model(&orders).Relation("Customer").Where("customer.name > ?", "customer 25").Order("o.placed", "o.id").Scan(ctx); err != nil {
		return nil, err
	}
	for _, o := range orders {
		out = append(out, o.Customer.Name+" "+o.Status)
	}
	return list(out, "\n"), nil
}

func (s bunApp) manyToMany(ctx context.Context) (any, error) {
	var orders []*bunOrder
	if err := s.NewSelect().Model(&orders).Relation("Products").Order("o.placed", "o.customer_id").Limit(10).Scan(ctx); err != nil {
		return nil, err
	}
	var out []any
	for _, o := range orders {
		names := map[string]string{}
		for _, p := range o.Products {
			names[p.Name] = p.Price
		}
		out = append(out, names)
	}
	return list(out, "\n"), nil
}

func (s bunApp) selects(ctx context.Context) (any, error) {
	var out []any
	count, err := s.NewSelect().Model((*bunOrder)(nil)).Where("status IN (?)", bun.List([]string{"open", "paid"})).Count(ctx)
	if err != nil {
		return nil, err
	}
	exists, err := s.NewSelect().Model((*bunUser)(nil)).Where("email = ?", "user9@example.com").Exists(ctx)
	if err != nil {
		return nil, err
	}
	out = append(out, count, exists)
	for page := range int64(3) {
		var names []string
		n, err := s.NewSelect().Model((*bunCustomer)(nil)).Column("name").Order("name DESC").Limit(4).Offset(4*page).ScanAndCount(ctx, &names)
		if err != nil {
			return nil, err
		}
		out = append(out, n, names)
	}
	var per []map[string]any
	if err := s.NewSelect().Model((*bunOrder)(nil)).Column("status").ColumnExpr("count(*) AS n").ColumnExpr("count(DISTINCT customer_id) AS customers").Group("status").Having("count(*) > 1").Order("status").Scan(ctx, &per); err != nil {
		return nil, err
	}
	union := s.NewSelect().ColumnExpr("name").TableExpr("customers").Where("name < 'customer 03'").UnionAll(s.NewSelect().ColumnExpr("name").TableExpr("products").Where("name < 'product 03'"))
	var names []string
	err = s.NewSelect().ColumnExpr("name").TableExpr("(?) AS u", union).OrderExpr("name").Scan(ctx, &names)
	return list(append(out, per, names), "\n"), err
}

func (s bunApp) with(ctx context.Context) (any, error) {
	spent := s.NewSelect().ColumnExpr("i.customer_id, sum(i.quantity * p.price) AS amount").TableExpr("items AS i").Join("JOIN products AS p ON p.id = i.product_id").Group("i.customer_id")
	var rich []struct {
		Name   string
		Amount string
	}
	err := s.NewSelect().With("spent", spent).ColumnExpr("c.name, s.amount").TableExpr("spent AS s").Join("JOIN customers AS c ON c.id = s.customer_id").OrderExpr("s.amount DESC, c.name").Limit(5).Scan(ctx, &rich)
	if err != nil {
		return nil, err
	}
	values := s.NewValues(&[]*bunProduct{{ID: 1, Price: "100.00"}, {ID: 2, Price: "200.00"}}).Column("id", "price")
	res, err := s.NewUpdate().With("_data", values).Model((*bunProduct)(nil)).TableExpr("_data").Set("price = _data.price").Where("p.id = _data.id").Exec(ctx)
	if err != nil {
		return nil, err
	}
	n, err := res.RowsAffected()
	return fmt.Sprint(rich, n), err
}

func (s bunApp) update(ctx context.Context) (any, error) {
	var back []bunCustomer
	if _, err := s.NewUpdate().Model(&back).Set("balance = balance + 1").Set("tags = array_append(tags, ?)", "rich").Where("balance > ?", 25).Returning("name, balance, tags").Exec(ctx); err != nil {
		return nil, err
	}
	seen := map[string]string{}
	for _, c := range back {
		seen[c.Name] = fmt.Sprint(c.Balance, c.Tags)
	}
	var order bunOrder
	if err := s.NewSelect().Model(&order).OrderExpr("placed, customer_id").Limit(1).Scan(ctx); err != nil {
		return nil, err
	}
	order.Status = "changed"
	if _, err := s.NewUpdate().Model(&order).Column("status").WherePK().Exec(ctx); err != nil {
		return nil, err
	}
	res, err := s.NewDelete().Model((*bunItem)(nil)).Where("quantity = ?", 5).Exec(ctx)
	if err != nil {
		return nil, err
	}
	n, err := res.RowsAffected()
	return fmt.Sprint(seen, n), err
}

func (s bunApp) upsert(ctx context.Context) (any, error) {
	products := []*bunProduct{{Name: "product 01", Price: "7.00"}, {Name: "product new", Price: "8.00"}}
	if _, err := s.NewInsert().Model(&products).On("CONFLICT (name) DO UPDATE").Set("price = EXCLUDED.price").Exec(ctx); err != nil {
		return nil, err
	}
	users := []*bunUser{{Email: "user1@example.com"}, {Email: "fresh@example.com"}}
	if _, err := s.NewInsert().Model(&users).Ignore().Exec(ctx); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	if _, err := s.NewInsert().Model(&bunUser{Email: "user2@example.com", CustomerID: 77}).On("CONFLICT (email) DO UPDATE").Set("customer_id = EXCLUDED.customer_id").Exec(ctx); err != nil {
		return nil, err
	}
	var found []string
	err := s.NewSelect().ColumnExpr("name || ' ' || price").TableExpr("products").Where("price < 9").UnionAll(s.NewSelect().ColumnExpr("email").TableExpr("users").Where("customer_id = 77 or email = 'fresh@example.com'")).Scan(ctx, &found)
	return len(found), err
}

func (s bunApp) transactions(ctx context.Context) (any, error) {
	err := s.RunInTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead}, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewUpdate().Model((*bunCustomer)(nil)).Set("balance = balance - 1").Where("name = ?", "customer 01").Exec(ctx); err != nil {
			return err
		}
		if _, err := tx.NewUpdate().Model((*bunCustomer)(nil)).Set("balance = balance + 1").Where("name = ?", "customer 02").Exec(ctx); err != nil {
			return err
		}
		inner := tx.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error { // a savepoint
			if _, err := tx.NewDelete().Model((*bunOrder)(nil)).Where("true").Exec(ctx); err != nil {
				return err
			}
			return errChanged
		})
		if !errors.Is(inner, errChanged) {
			return fmt.Errorf("inner: %w", inner)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var sum string
	if err := s.NewSelect().Model((*bunCustomer)(nil)).ColumnExpr("sum(balance)").Scan(ctx, &sum); err != nil {
		return nil, err
	}
	n, err := s.NewSelect().Model((*bunOrder)(nil)).Count(ctx)
	return []any{sum, n}, err
}

func (s bunApp) copy(ctx context.Context) (any, error) {
	conn, err := s.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	in, err := pgdriver.CopyFrom(ctx, conn, strings.NewReader("9001,copied,{}\n9002,copied,{x}\n"), `COPY customers (id, name, tags) FROM STDIN WITH (FORMAT csv, DELIMITER ',', QUOTE '"')`)
	if err != nil {
		// The braces hold no comma, so this is CSV.
		return nil, err
	}
	var text strings.Builder
	out, err := pgdriver.CopyTo(ctx, conn, &text, `COPY (SELECT id, name, tags FROM customers WHERE id > 9000 ORDER BY id) TO STDOUT`)
	if err != nil {
		return nil, err
	}
	a, _ := in.RowsAffected()
	b, _ := out.RowsAffected()
	_, err = s.NewDelete().Model((*bunCustomer)(nil)).Where("id > 9000").Exec(ctx)
	return []any{a, b, fmt.Sprintf("%q", text.String())}, err
}

func (s bunApp) listen(ctx context.Context) (any, error) {
	l := pgdriver.NewListener(s.DB)
	defer l.Close()
	if err := l.Listen(ctx, "news"); err != nil {
		return nil, err
	}
	// Listen does not wait for the server's answer, so a first notification may come too early.
	for {
		if err := pgdriver.Notify(ctx, s.DB, "news", "it's \\ here"); err != nil {
			return nil, err
		}
		channel, payload, err := l.ReceiveTimeout(ctx, time.Second)
		if err == nil || ctx.Err() != nil {
			return channel + ": " + payload, err
		}
	}
}

func (s bunApp) errors(ctx context.Context) (any, error) {
	var out []any
	for _, text := range []string{`insert into users (email) values ('user1@example.com')`, `insert into orders (customer_id) values (4711)`, `select nosuch from customers`, `select 1/0 from customers`} {
		_, err := s.ExecContext(ctx, text)
		var e pgdriver.Error
		if !errors.As(err, &e) {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
		out = append(out, []any{e.Field('C'), e.Field('M'), e.Field('D'), e.Field('t'), e.Field('n'), e.Field('P'), e.IntegrityViolation()})
	}
	return list(out, "\n"), nil
}

func (s bunApp) cancel(ctx context.Context) (any, error) {
	soon, stop := context.WithTimeout(ctx, 150*time.Millisecond)
	defer stop()
	_, err := s.ExecContext(soon, `select pg_sleep(20)`)
	if err == nil {
		return nil, errors.New("pg_sleep came to its end")
	}
	return s.NewSelect().Model((*bunUser)(nil)).Where("email like 'user%'").Count(ctx)
}

// back takes the last migration back and makes it again: now the tables are sharded.
func (s bunApp) back(ctx context.Context) (any, error) {
	db := migrate.NewMigrator(s.DB, bunMigrations(), migrate.WithMarkAppliedOnSuccess(true))
	if _, err := s.ExecContext(ctx, `update bun_migrations set group_id = 2 where name = '20240102000000'`); err != nil {
		return nil, err
	}
	down, err := db.Rollback(ctx)
	if err != nil {
		return nil, err
	}
	up, err := db.Migrate(ctx)
	if err != nil {
		return nil, err
	}
	var columns []string
	err = s.NewSelect().ColumnExpr("column_name").TableExpr("information_schema.columns").Where("table_name = 'orders'").OrderExpr("column_name").Scan(ctx, &columns)
	return []any{len(down.Migrations), len(up.Migrations), columns}, err
}

func (s bunApp) reconnect(ctx context.Context) (any, error) {
	if err := shell(ctx, "RESTART", ""); err != nil {
		return nil, err
	}
	var n int64
	err := eventually(ctx, func(ctx context.Context) (err error) {
		n, err = s.NewSelect().Model((*bunCustomer)(nil)).Count(ctx)
		return err
	})
	return n, err
}
