package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

// The models of GORM: as its manual has them, with numbers for keys. An item knows its customer too, which
// is what puts it beside its order.
type (
	gormCustomer struct {
		ID        uint `gorm:"primaryKey"`
		CreatedAt time.Time
		UpdatedAt time.Time
		DeletedAt gorm.DeletedAt
		Name      string            `gorm:"not null;index"`
		Balance   float64           `gorm:"type:numeric(12,2);default:0"`
		Settings  map[string]string `gorm:"serializer:json;type:jsonb"`
		Orders    []gormOrder       `gorm:"foreignKey:CustomerID;constraint:OnDelete:CASCADE"`
	}
	gormOrder struct {
		ID         uint `gorm:"primaryKey"`
		CustomerID uint `gorm:"primaryKey;autoIncrement:false"`
		Status     string
		Placed     time.Time
		Items      []gormItem `gorm:"foreignKey:OrderID,CustomerID;references:ID,CustomerID;constraint:OnDelete:CASCADE"`
	}
	gormItem struct {
		CustomerID uint `gorm:"primaryKey;autoIncrement:false"`
		OrderID    uint `gorm:"primaryKey;autoIncrement:false"`
		Line       int  `gorm:"primaryKey;autoIncrement:false"`
		ProductID  uint
		Product    gormProduct
		Quantity   int `gorm:"check:quantity > 0"`
	}
	gormProduct struct {
		ID    uint   `gorm:"primaryKey"`
		SKU   string `gorm:"uniqueIndex"`
		Name  string
		Price float64 `gorm:"type:numeric(10,2)"`
	}
	gormUser struct {
		ID         uint   `gorm:"primaryKey"`
		Email      string `gorm:"uniqueIndex"`
		CustomerID uint
	}
)

func (gormCustomer) TableName() string { return "customers" }
func (gormOrder) TableName() string    { return "orders" }
func (gormItem) TableName() string     { return "items" }
func (gormProduct) TableName() string  { return "products" }
func (gormUser) TableName() string     { return "users" }

// gormSuite lets GORM make its tables and its queries.
func gormSuite(r *report) {
	db, err := gorm.Open(postgres.New(postgres.Config{DSN: "channel_binding=require"}), &gorm.Config{
		Logger: logger.Discard, TranslateError: true, NowFunc: func() time.Time { return time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC) },
	})
	if err != nil {
		r.check("connection", func(context.Context) (any, error) { return nil, err })
		return
	}
	s := gormApp{db}
	r.check("migrations", s.migrate)
	r.check("migrations again", s.migrateAgain)
	r.check("create with associations", s.create)
	r.check("batches", s.batches)
	r.check("find", s.find)
	r.check("update and delete", s.update)
	r.check("preload", s.preload)
	r.check("joins", s.joins)
	r.check("association mode", s.associations)
	r.check("pages and scopes", s.pages)
	r.check("aggregates", s.aggregates)
	r.check("raw and rows", s.raw)
	r.check("transactions", s.transactions)
	r.check("upsert", s.upsert)
	r.check("locking", s.locking)
	r.check("translated errors", s.errors)
	r.check("prepared mode", s.prepared)
	r.check("columns of the schema", s.schema)
	r.check("reconnect", s.reconnect)
}

type gormApp struct{ db *gorm.DB }

var gormModels = []any{&gormProduct{}, &gormCustomer{}, &gormOrder{}, &gormItem{}, &gormUser{}}

func (s gormApp) migrate(ctx context.Context) (any, error) {
	if err := s.db.WithContext(ctx).AutoMigrate(gormModels...); err != nil {
		return nil, err
	}
	if err := shell(ctx, "DECLARE", "products=reference customers=id orders=customer_id items=customer_id users=id"); err != nil {
		return nil, err
	}
	products := make([]gormProduct, 10)
	for i := range products {
		products[i] = gormProduct{SKU: fmt.Sprintf("sku-%d", i+1), Name: fmt.Sprintf("product %d", i+1), Price: float64(i) + 0.5}
	}
	return nil, s.db.WithContext(ctx).Create(&products).Error
}

// migrateAgain: a program migrates at every start, and now the tables are sharded.
func (s gormApp) migrateAgain(ctx context.Context) (any, error) {
	type customer struct {
		gormCustomer
		Nickname string `gorm:"size:40;default:'none'"`
	}
	db := s.db.WithContext(ctx)
	if err := db.AutoMigrate(gormModels...); err != nil {
		return nil, err
	}
	if err := db.Table("customers").AutoMigrate(&customer{}); err != nil {
		return nil, err
	}
	m := db.Migrator()
	out := []any{m.HasColumn(&customer{}, "nickname"), m.HasTable("orders"), m.HasIndex(&gormProduct{}, "SKU"), m.HasTable("nosuch")}
	return out, errors.Join(m.AlterColumn(&gormOrder{}, "Status"), m.RenameColumn("customers", "nickname", "alias"), m.DropColumn("customers", "alias"),
		m.CreateIndex(&gormCustomer{}, "Name"), db.Exec(`create index if not exists by_status on orders (status)`).Error)
}

func (s gormApp) create(ctx context.Context) (any, error) {
	db := s.db.WithContext(ctx)
	var total int64
	for c := 1; c <= 20; c++ {
		customer := gormCustomer{Name: fmt.Sprintf("customer %d", c), Balance: float64(c) * 1.25, Settings: map[string]string{"lang": "de", "n": fmt.Sprint(c)}}
		for o := range 3 {
			order := gormOrder{Status: []string{"open", "paid", "sent"}[o], Placed: time.Date(2024, 1, c, o, 0, 0, 0, time.UTC)}
			customer.Orders = append(customer.Orders, order)
		}
		if err := db.Create(&customer).Error; err != nil {
			return nil, err
		}
		for _, o := range customer.Orders {
			items := []gormItem{{CustomerID: customer.ID, OrderID: o.ID, Line: 1, ProductID: uint(c%10 + 1), Quantity: c}, {CustomerID: customer.ID, OrderID: o.ID, Line: 2, ProductID: 1, Quantity: 2}}
			if err := db.Create(&items).Error; err != nil {
				return nil, err
			}
		}
		if err := db.Create(&gormUser{Email: fmt.Sprintf("user%d@example.com", c), CustomerID: customer.ID}).Error; err != nil {
			return nil, err
		}
	}
	err := db.Model(&gormItem{}).Count(&total).Error
	return total, err
}

func (s gormApp) batches(ctx context.Context) (any, error) {
	db := s.db.WithContext(ctx)
	many := make([]gormUser, 300)
	for i := range many {
		many[i] = gormUser{Email: fmt.Sprintf("many%d@example.com", i), CustomerID: 1}
	}
	if err := db.CreateInBatches(&many, 70).Error; err != nil {
		return nil, err
	}
	ids := map[uint]bool{}
	for _, u := range many {
		ids[u.ID] = true
	}
	var seen int
	var batch []gormUser
	found := db.Where("email like ?", "many%").FindInBatches(&batch, 80, func(tx *gorm.DB, n int) error {
		seen += len(batch)
		return nil
	})
	deleted := db.Where("email like ?", "many%").Delete(&gormUser{})
	return []any{len(ids), seen, found.RowsAffected, deleted.RowsAffected}, errors.Join(found.Error, deleted.Error)
}

// plain is a customer without what differs from run to run.
func (c gormCustomer) plain() string {
	out := fmt.Sprintf("%s %v %v", c.Name, c.Balance, c.Settings)
	for _, o := range c.Orders {
		out += fmt.Sprintf("; %s %s", o.Status, show(o.Placed))
		for _, i := range o.Items {
			out += fmt.Sprintf(", %d %s %v", i.Quantity, i.Product.Name, i.Product.Price)
		}
	}
	return out
}

func plainAll(customers []gormCustomer) []string {
	out := make([]string, len(customers))
	for i, c := range customers {
		out[i] = c.plain()
	}
	return out
}

func (s gormApp) find(ctx context.Context) (any, error) {
	db := s.db.WithContext(ctx)
	var first, last gormCustomer
	var some []gormCustomer
	var user gormUser
	var names []string
	err := errors.Join(
		db.First(&first).Error, db.Last(&last).Error,
		db.Where("id in ?", []uint{first.ID, last.ID}).Or("balance between ? and ?", 5, 10).Order("name").Find(&some).Error,
		db.Where(&gormUser{Email: "user7@example.com"}).Take(&user).Error,
		db.Model(&gormCustomer{}).Where("settings->>'n' = ?", "3").Not("name = ?", "x").Pluck("name", &names).Error)
	none := db.First(&gormCustomer{}, "name = ?", "nobody").Error
	return []any{first.plain(), last.plain(), plainAll(some), user.Email, names, errors.Is(none, gorm.ErrRecordNotFound)}, err
}

func (s gormApp) update(ctx context.Context) (any, error) {
	db := s.db.WithContext(ctx)
	var c gormCustomer
	if err := db.First(&c, "name = ?", "customer 5").Error; err != nil {
		return nil, err
	}
	c.Settings["new"] = "yes"
	saved := db.Save(&c)
	one := db.Model(&c).Update("balance", gorm.Expr("balance * ? + ?", 2, 1))
	many := db.Model(&gormCustomer{}).Where("balance > ?", 20).Updates(map[string]any{"balance": 20, "name": gorm.Expr("name || ?", "+")})
	var back gormOrder
	returned := db.Model(&back).Clauses(clause.Returning{}).Where("customer_id = ? and status = ?", c.ID, "open").Update("status", "late")
	soft := db.Where("name = ?", "customer 6").Delete(&gormCustomer{})
	var left, all int64
	err := errors.Join(saved.Error, one.Error, many.Error, returned.Error, soft.Error, db.Model(&gormCustomer{}).Count(&left).Error, db.Unscoped().Model(&gormCustomer{}).Count(&all).Error)
	var after gormCustomer
	err = errors.Join(err, db.First(&after, c.ID).Error)
	return []any{one.RowsAffected, many.RowsAffected, back.Status, soft.RowsAffected, left, all, after.plain()}, err
}

func (s gormApp) preload(ctx context.Context) (any, error) {
	db := s.db.WithContext(ctx)
	var customers []gormCustomer
	err := db.Preload("Orders", func(tx *gorm.DB) *gorm.DB { return tx.Order("orders.placed") }).Preload("Orders.Items", func(tx *gorm.DB) *gorm.DB { return tx.Order("items.line") }).
		Preload("Orders.Items.Product").Order("created_at, name").Find(&customers).Error
	return plainAll(customers), err
}

func (s gormApp) joins(ctx context.Context) (any, error) {
	db := s.db.WithContext(ctx)
	var items []gormItem
	if err := db.Joins("Product").Where(`"Product".price > ?`, 5).Order(`"Product".name, items.quantity, items.line, items.customer_id, items.order_id`).Limit(8).Find(&items).Error; err != nil {
		return nil, err
	}
	var out []any
	for _, i := range items {
		out = append(out, fmt.Sprintf("%s %d", i.Product.Name, i.Quantity))
	}
	var customers []gormCustomer
	err := db.Distinct("customers.*").Joins("join orders on orders.customer_id = customers.id and orders.status = ?", "late").Order("customers.name").Find(&customers).Error
	return list(append(out, plainAll(customers)), "\n"), err
}

func (s gormApp) associations(ctx context.Context) (any, error) {
	db := s.db.WithContext(ctx)
	var c gormCustomer
	if err := db.First(&c, "name = ?", "customer 9").Error; err != nil {
		return nil, err
	}
	before := db.Model(&c).Association("Orders").Count()
	added := gormOrder{Status: "added", Placed: time.Date(2024, 3, 3, 0, 0, 0, 0, time.UTC)}
	if err := db.Model(&c).Association("Orders").Append(&added); err != nil {
		return nil, err
	}
	after := db.Model(&c).Association("Orders").Count()
	var orders []gormOrder
	if err := db.Model(&c).Order("placed").Association("Orders").Find(&orders); err != nil {
		return nil, err
	}
	var status []string
	for _, o := range orders {
		status = append(status, o.Status)
	}
	return []any{before, after, status}, db.Delete(&added).Error
}

func (s gormApp) pages(ctx context.Context) (any, error) {
	db := s.db.WithContext(ctx)
	page := func(n int) func(*gorm.DB) *gorm.DB {
		return func(tx *gorm.DB) *gorm.DB { return tx.Order("name").Offset((n - 1) * 6).Limit(6) }
	}
	var out []any
	for n := 1; n <= 4; n++ {
		var customers []gormCustomer
		if err := db.Scopes(page(n)).Select("name", "balance").Find(&customers).Error; err != nil {
			return nil, err
		}
		out = append(out, plainAll(customers))
	}
	return list(out, "\n"), nil
}

func (s gormApp) aggregates(ctx context.Context) (any, error) {
	db := s.db.WithContext(ctx)
	var per []struct {
		Status string
		N      int
		Newest time.Time
	}
	if err := db.Model(&gormOrder{}).Select("status, count(*) as n, max(placed) as newest").Group("status").Having("count(*) > ?", 0).Order("status").Scan(&per).Error; err != nil {
		return nil, err
	}
	var rich []struct {
		Name   string
		Amount float64
	}
	err := db.Table("(?) as spent", db.Model(&gormItem{}).Select("items.customer_id, sum(items.quantity * products.price) as amount").Joins("join products on products.id = items.product_id").Group("items.customer_id")).
		Select("customers.name, spent.amount").Joins("join customers on customers.id = spent.customer_id").Order("2 desc, 1").Limit(5).Scan(&rich).Error
	return fmt.Sprintf("%v\n%v", per, rich), err
}

func (s gormApp) raw(ctx context.Context) (any, error) {
	db := s.db.WithContext(ctx)
	var n int
	if err := db.Raw("select count(*) from orders where status = @status", map[string]any{"status": "paid"}).Scan(&n).Error; err != nil {
		return nil, err
	}
	r, err := db.Model(&gormCustomer{}).Where("balance > ?", 3).Order("name").Rows()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	out := []any{n}
	for r.Next() {
		var c gormCustomer
		if err := db.ScanRows(r, &c); err != nil {
			return nil, err
		}
		out = append(out, c.plain())
	}
	return list(out, "\n"), r.Err()
}

func (s gormApp) transactions(ctx context.Context) (any, error) {
	db := s.db.WithContext(ctx)
	sum := func() (total float64) {
		db.Model(&gormCustomer{}).Select("sum(balance)").Scan(&total)
		return total
	}
	before := sum()
	err := db.Transaction(func(tx *gorm.DB) error {
		if err := tx.Model(&gormCustomer{}).Where("name = ?", "customer 1").Update("balance", gorm.Expr("balance - 5")).Error; err != nil {
			return err
		}
		nested := tx.Transaction(func(inner *gorm.DB) error {
			if err := inner.Model(&gormCustomer{}).Where("true").Update("balance", 0).Error; err != nil {
				return err
			}
			return errChanged
		})
		if !errors.Is(nested, errChanged) {
			return fmt.Errorf("nested: %w", nested)
		}
		return tx.Model(&gormCustomer{}).Where("name = ?", "customer 2").Update("balance", gorm.Expr("balance + 5")).Error
	})
	if err != nil {
		return nil, err
	}
	tx := db.Begin()
	tx.SavePoint("here")
	tx.Where("true").Delete(&gormItem{})
	tx.RollbackTo("here")
	if err := tx.Commit().Error; err != nil {
		return nil, err
	}
	var items int64
	err = db.Model(&gormItem{}).Count(&items).Error
	return []any{before, sum(), items}, err
}

func (s gormApp) upsert(ctx context.Context) (any, error) {
	db := s.db.WithContext(ctx)
	p := []gormProduct{{SKU: "sku-1", Name: "new name", Price: 99}, {SKU: "sku-new", Name: "new", Price: 1}}
	onSKU := clause.OnConflict{Columns: []clause.Column{{Name: "sku"}}, DoUpdates: clause.AssignmentColumns([]string{"name", "price"})}
	var all []gormProduct
	err := errors.Join(db.Clauses(onSKU).Create(&p).Error, db.Clauses(clause.OnConflict{DoNothing: true}).Create(&gormUser{Email: "user3@example.com"}).Error,
		db.Where(gormUser{Email: "first@example.com"}).Attrs(gormUser{CustomerID: 5}).FirstOrCreate(&gormUser{}).Error, db.Order("sku").Find(&all).Error)
	out := []any{}
	for _, p := range all {
		out = append(out, fmt.Sprintf("%s %s %v", p.SKU, p.Name, p.Price))
	}
	var users int64
	return list(append(out, db.Model(&gormUser{}).Count(&users).Error, users), "\n"), err
}

func (s gormApp) locking(ctx context.Context) (any, error) {
	var c []gormCustomer
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		return tx.Clauses(clause.Locking{Strength: "UPDATE", Options: "SKIP LOCKED"}).Where("balance < ?", 10).Order("name").Limit(3).Find(&c).Error
	})
	return plainAll(c), err
}

func (s gormApp) errors(ctx context.Context) (any, error) {
	db := s.db.WithContext(ctx)
	return []any{
		errors.Is(db.Create(&gormUser{Email: "user1@example.com"}).Error, gorm.ErrDuplicatedKey),
		errors.Is(db.Create(&gormOrder{CustomerID: 4711, Status: "x"}).Error, gorm.ErrForeignKeyViolated),
		errors.Is(db.Create(&gormItem{CustomerID: 1, OrderID: 1, Line: 99, ProductID: 1}).Error, gorm.ErrCheckConstraintViolated),
		pgxCode(db.Exec("select nosuch").Error),
	}, nil
}

func (s gormApp) prepared(ctx context.Context) (any, error) {
	db := s.db.Session(&gorm.Session{PrepareStmt: true, Context: ctx})
	total := 0
	for i := range 100 {
		var n int64
		if err := db.Model(&gormOrder{}).Where("customer_id = ?", i%20+1).Count(&n).Error; err != nil {
			return nil, err
		}
		total += int(n)
	}
	return total, nil
}

func (s gormApp) schema(ctx context.Context) (any, error) {
	var out []any
	for _, model := range gormModels {
		columns, err := s.db.WithContext(ctx).Migrator().ColumnTypes(model)
		if err != nil {
			return nil, err
		}
		for _, c := range columns {
			length, _ := c.Length()
			nullable, _ := c.Nullable()
			primary, _ := c.PrimaryKey()
			unique, _ := c.Unique()
			def, _ := c.DefaultValue()
			out = append(out, []any{c.Name(), c.DatabaseTypeName(), length, nullable, primary, unique, def})
		}
		indexes, err := s.db.WithContext(ctx).Migrator().GetIndexes(model)
		if err != nil {
			return nil, err
		}
		for _, i := range indexes {
			unique, _ := i.Unique()
			out = append(out, []any{i.Table(), i.Name(), i.Columns(), unique})
		}
	}
	tables, err := s.db.WithContext(ctx).Migrator().GetTables()
	slices.Sort(tables) // GORM does not ask for an order
	return list(append(out, tables), "\n"), err
}

func (s gormApp) reconnect(ctx context.Context) (any, error) {
	if err := shell(ctx, "RESTART", ""); err != nil {
		return nil, err
	}
	var n int64
	err := eventually(ctx, func(ctx context.Context) error { return s.db.WithContext(ctx).Model(&gormCustomer{}).Count(&n).Error })
	return n, err
}
