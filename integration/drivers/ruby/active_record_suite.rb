# ActiveRecord 6.1: migrations, associations, includes, batches, upserts, locks.
require "active_record"
require "logger"
require "securerandom"
require_relative "check"
require_relative "app"

CONFIG = {
  adapter: "postgresql", host: ENV["PGHOST"], port: ENV["PGPORT"], username: ENV["PGUSER"], password: ENV["PGPASSWORD"], database: ENV["PGDATABASE"],
  sslmode: ENV["PGSSLMODE"], pool: 20, min_messages: "warning",
}.freeze
ActiveRecord::Base.establish_connection(CONFIG)
ActiveRecord::Base.logger = nil
ActiveRecord::Migration.verbose = false

class Shop < ActiveRecord::Migration[6.1]
  def change
    create_table(:products, id: :integer) do |t|
      t.text :name, null: false, index: { unique: true }
      t.decimal :price, precision: 10, scale: 2, null: false
    end
    create_table(:customers) do |t|
      t.string :name, null: false, limit: 100
      t.string :country, null: false, limit: 2, index: true
      t.text :tags, array: true, null: false, default: []
      t.integer :lock_version, null: false, default: 0
      t.integer :orders_count, null: false, default: 0
      t.timestamps
    end
    create_table(:orders) do |t|
      t.references :customer, null: false, foreign_key: { on_delete: :cascade }
      t.integer :status, null: false, default: 0
      t.decimal :total, precision: 12, scale: 2, null: false, default: 0
      t.jsonb :note
      t.timestamps
    end
    create_table(:items) do |t|
      t.references :customer, null: false, foreign_key: true
      t.references :order, null: false # without a constraint: Rails 6.1 knows none of two columns
      t.references :product, null: false, foreign_key: true, type: :integer
      t.integer :quantity, null: false
      t.decimal :price, precision: 10, scale: 2, null: false
      t.check_constraint "quantity > 0", name: "items_quantity"
    end
    create_table(:users, id: :uuid, default: "gen_random_uuid()") do |t|
      t.text :email, null: false, index: { unique: true }
      t.text :name, null: false
    end
    create_table(:samples, id: :uuid, default: nil) do |t|
      t.boolean :b
      t.bigint :i8
      t.float :f8
      t.decimal :num, precision: 30, scale: 10
      t.binary :raw
      t.date :d
      t.datetime :at
      t.jsonb :jb
      t.integer :i4s, array: true
      t.inet :ip
      t.int4range :r
    end
  end
end

class Vip < ActiveRecord::Migration[6.1]
  def change
    add_column :customers, :vip, :boolean, null: false, default: false
    add_index :customers, [:country, :vip]
    change_column :customers, :name, :string, limit: 120
    rename_column :orders, :note, :remark
  end
end

class Later < ActiveRecord::Migration[6.1]
  disable_ddl_transaction!

  def up
    add_index :orders, :created_at, algorithm: :concurrently
    change_column_default :customers, :vip, from: false, to: true
    change_column_null :customers, :vip, true
  end

  def down
    remove_index :orders, :created_at
  end
end

class Product < ActiveRecord::Base; end

class Customer < ActiveRecord::Base
  has_many :orders, dependent: :destroy
  has_many :items, through: :orders
  has_many :products, -> { distinct }, through: :items
  validates :name, presence: true
end

class Order < ActiveRecord::Base
  belongs_to :customer, counter_cache: true
  has_many :items, dependent: :destroy
  enum status: { fresh: 0, paid: 1, shipped: 2 }
  scope :large, -> { where("total > ?", 20) }
end

class Item < ActiveRecord::Base
  belongs_to :customer
  belongs_to :order
  belongs_to :product
end

class User < ActiveRecord::Base
  validates :email, uniqueness: true
end

class Sample < ActiveRecord::Base; end

STATUS = { "new" => "fresh" }.freeze

def migrate(version, change, direction = :up)
  m = change.new(change.name, version)
  ActiveRecord::Migrator.new(direction, [m], ActiveRecord::SchemaMigration).migrate
  ActiveRecord::Base.descendants.each { |k| k.reset_column_information unless k.abstract_class? }
end

check("connect") { same(ActiveRecord::Base.connection.select_value("select current_user"), ENV["PGUSER"]) }
check("migrate") do
  migrate(1, Shop)
  migrate(1, Shop, :down)
  migrate(1, Shop)
end
check("declare") { declare(*App::TABLES, "samples=id") }
check("migrate what is sharded") do
  migrate(2, Vip)
  migrate(3, Later)
  same(Customer.column_names.include?("vip"), true)
  c = ActiveRecord::Base.connection
  same((%w[customers items orders products samples users] - c.tables), [])
  same(c.foreign_keys("items").map(&:to_table).sort, %w[customers products])
  same(c.indexes("customers").size, 2)
  same(c.check_constraints("items").map(&:name), ["items_quantity"])
  require "stringio"
  dump = StringIO.new
  ActiveRecord::SchemaDumper.dump(c, dump)
  same(dump.string.include?('create_table "orders"'), true)
end

$customers = []
check("seed") do
  Product.insert_all!(App::PRODUCTS)
  $customers = App::CUSTOMERS.map { |c| Customer.create!(c) }
  orders = Order.transaction { App::ORDERS.map { |o| $customers[o[:customer] - 1].orders.create!(status: STATUS.fetch(o[:status], o[:status]), total: o[:total]) } }
  products = Product.order(:id).to_a
  r = Item.insert_all!(
    App::ITEMS.map { |i| { customer_id: $customers[i[:customer] - 1].id, order_id: orders[i[:order]].id, product_id: products[i[:product] - 1].id, quantity: i[:quantity], price: i[:price] } },
    returning: [:id],
  )
  same(r.rows.flatten.uniq.size, App::ITEMS.size)
  User.insert_all(App::USERS)
end

check("read") do
  same(Customer.find($customers[6].id).name, "customer 7")
  same(User.find_by!(email: "user9@example.com").name, "user 9")
  same(User.find_by(email: "nobody"), nil)
  same(Customer.where(id: [$customers[0].id, $customers[4].id]).order(:id).pluck(:name), ["customer 1", "customer 5"])
  same(Customer.where(country: "de").or(Customer.where(id: $customers[0].id)).count, 11)
  same(Customer.where.not(id: Order.select(:customer_id)).count, 5)
  same(Customer.where("name ilike ?", "CUSTOMER 1%").exists?, true)
  same([Customer.first.name, Customer.last.name, Customer.second.name], ["customer 1", "customer 20", "customer 2"])
  same(Customer.order(:id).ids.size, 20)
  same(Customer.distinct.pluck(:country).sort, %w[de fr])
end

check("write") do
  c = Customer.create!(name: "tmp", country: "it", orders: [Order.new(total: 1), Order.new(total: 2)])
  version = c.reload.lock_version
  c.update!(name: "changed", tags: %w[a b])
  c.reload
  same([c.name, c.tags, c.lock_version], ["changed", %w[a b], version + 1])
  stale = Customer.find(c.id)
  c.update!(name: "first")
  begin
    stale.update!(name: "second")
    raise "no StaleObjectError"
  rescue ActiveRecord::StaleObjectError
    nil
  end
  same(c.orders.order(:id).first.increment!(:total, 5).total, 6)
  c.touch
  c.destroy!
  same([Customer.count, Order.count], [20, App::ORDERS.size])
  same(Customer.where(country: "de").update_all(vip: true), 10)
  same(Customer.update_all(vip: false), 20)
  same(Customer.update_counters($customers[0].id, orders_count: 0), 1)
  same(Customer.where(country: "xx").delete_all, 0)
end

check("upsert") do
  User.upsert({ email: "user1@example.com", name: "renamed" }, unique_by: :email)
  same(User.find_by(email: "user1@example.com").name, "renamed")
  User.upsert_all([{ email: "user1@example.com", name: "user 1" }, { email: "user2@example.com", name: "user 2" }], unique_by: :email)
  User.insert_all([{ email: "user1@example.com", name: "x" }, { email: "user3@example.com", name: "x" }])
  same(User.find_or_create_by!(email: "user1@example.com").name, "user 1")
  same(User.create_or_find_by!(email: "fresh@example.com") { |u| u.name = "fresh" }.name, "fresh")
  User.find_by(email: "fresh@example.com").destroy
  same(User.count, 20)
  begin
    User.create!(email: "user1@example.com", name: "x")
    raise "no RecordInvalid"
  rescue ActiveRecord::RecordInvalid
    nil
  end
end

check("associations") do
  want = App::CUSTOMERS.each_index.map { |i| (i + 1) % 4 }
  [:includes, :preload, :eager_load].each do |how|
    got = Customer.public_send(how, orders: { items: :product }).order(:id).to_a
    same(got.map { |c| c.orders.size }, want)
    same(got.sum { |c| c.orders.sum { |o| o.items.size } }, App::ITEMS.size)
  end
  c = $customers[2].reload
  same([c.orders.count, c.items.count, c.orders_count], [3, 6, 3])
  same(c.products.order(:id).pluck(:id).size, c.items.map(&:product_id).uniq.size)
  same(Customer.joins(:orders).where(orders: { status: :shipped }).count, 5)
  same(Customer.left_joins(:orders).where(orders: { id: nil }).count, 5)
  same(Customer.joins(orders: :items).distinct.count, 15)
  same(Order.includes(:customer).order(:id).first.customer.name, "customer 1")
  same(Item.joins(:product, order: :customer).where("products.price > 0 and customers.country = 'fr'").count.positive?, true)
  same(Customer.where.missing(:orders).count, 5)
end

check("pages and batches") do
  same((0..3).flat_map { |p| Customer.order(:id).limit(6).offset(p * 6).map(&:name) }, App::CUSTOMERS.map { |c| c[:name] })
  # The ids first, then the rows: a limit over a join.
  same(Customer.eager_load(:orders).order(:id).limit(5).map { |c| c.orders.size }, [1, 2, 3, 0, 1])
  same(Item.find_each(batch_size: 7).count, App::ITEMS.size)
  same(Order.in_batches(of: 8).map(&:count).sum, App::ORDERS.size)
end

check("aggregates") do
  same([Order.count, Order.sum(:total), Order.maximum(:total) >= Order.average(:total)], [App::ORDERS.size, App::TOTAL, true])
  by = Order.group(:status).order(:status).pluck(:status, Arel.sql("count(*)"), Arel.sql("sum(total)"))
  same(by.map { |s, n, t| [s, n, t] }, App::BY_STATUS.map { |s, n, t| [STATUS.fetch(s, s), n, t] })
  best = Customer.left_joins(:orders).group(:id).order(Arel.sql("coalesce(sum(orders.total), 0) desc, customers.id")).limit(3)
  same(best.pluck(:name, Arel.sql("coalesce(sum(orders.total), 0)")), App::BEST.map { |c, t| ["customer #{c}", t] })
  same(Customer.joins(:orders).group(:country).count.values.sum, App::ORDERS.size)
  same(Customer.joins(:orders).group("customers.id").having("count(orders.id) > 2").count.size, 5)
  same(Order.large.count, App::ORDERS.count { |o| o[:total] > 20 })
end

check("transactions") do
  fails("22012") { Customer.transaction { Customer.update_all(country: "xx"); Customer.connection.execute("select 1/0") } }
  Customer.transaction do
    Customer.transaction(requires_new: true) do
      Customer.update_all(country: "yy")
      raise ActiveRecord::Rollback
    end
    begin
      User.transaction(requires_new: true) { User.insert_all!([{ email: "user1@example.com", name: "twice" }]) }
      raise "no RecordNotUnique"
    rescue ActiveRecord::RecordNotUnique
      nil
    end
    Customer.where(id: $customers[0, 3]).update_all(tags: ["t"])
  end
  same(Customer.where(country: %w[xx yy]).count, 0)
  same(Customer.where("'t' = any(tags)").update_all(tags: []), 3)
  Customer.transaction(isolation: :repeatable_read) { same(Customer.count, 20) }
end

check("locks") do
  Customer.transaction do
    same(Customer.lock.where(id: $customers[0, 2]).to_a.size, 2)
    Thread.new do
      begin
        Customer.transaction { Customer.lock("for update nowait").find($customers[1].id) }
        raise "no LockWaitTimeout"
      rescue ActiveRecord::LockWaitTimeout
        same(Customer.lock("for update skip locked").where(id: $customers[1, 2]).pluck(:id), [$customers[2].id])
      ensure
        ActiveRecord::Base.clear_active_connections!
      end
    end.join
  end
  $customers[0].with_lock { $customers[0].update!(name: "customer 1") }
  same(ActiveRecord::Base.connection.get_advisory_lock(42), true)
  same(ActiveRecord::Base.connection.release_advisory_lock(42), true)
end

check("prepared statements") do
  100.times { |n| same(Customer.find($customers[n % 20].id).name, "customer #{n % 20 + 1}") }
  # A table that changes under prepared statements.
  same(Order.where(customer_id: $customers[2].id).to_a.size, 3)
  ActiveRecord::Base.connection.execute("alter table orders add extra int")
  same(Order.where(customer_id: $customers[2].id).to_a.size, 3)
  ActiveRecord::Base.connection.execute("alter table orders drop extra")
  same(Order.where(customer_id: $customers[2].id).to_a.size, 3)
end

check("types") do
  row = {
    "id" => SecureRandom.uuid, "b" => true, "i8" => 2**53 + 1, "f8" => -2.25, "num" => "12345678901234567890.0123456789".to_d, "raw" => "\x00\xff".b, "d" => Date.new(2024, 2, 29),
    "at" => Time.utc(2024, 2, 29, 12), "jb" => { "k" => { "n" => [1, nil] } }, "i4s" => [1, 2], "ip" => IPAddr.new("10.0.0.1"), "r" => 1...5,
  }
  Sample.create!(row)
  same(Sample.where("jb @> ?", { k: {} }.to_json).find(row["id"]).attributes, row)
end

check("errors and timeouts") do
  fails("23505") { User.insert_all!([{ email: "user2@example.com", name: "x" }]) }
  same(fails("23503") { Order.insert_all!([{ customer_id: 999999, created_at: Time.now, updated_at: Time.now }]) }.class, ActiveRecord::InvalidForeignKey)
  same(fails("23502") { Customer.where(id: $customers[0]).update_all(name: nil) }.class, ActiveRecord::NotNullViolation)
  fails("23514") { Item.update_all(quantity: 0) }
  same(fails("42P01") { ActiveRecord::Base.connection.select_all("select * from nowhere") }.class, ActiveRecord::StatementInvalid)
  e = fails("57014") { ActiveRecord::Base.transaction { ActiveRecord::Base.connection.execute("set local statement_timeout = 300"); ActiveRecord::Base.connection.execute("select pg_sleep(5)") } }
  same(e.class, ActiveRecord::QueryCanceled)
end

check("threads") do
  wrong = Queue.new
  10.times.map do |k|
    Thread.new do
      10.times { |n| i = (n + k) % 20; wrong << i if Customer.includes(:orders).find($customers[i].id).orders.size != (i + 1) % 4 }
    rescue StandardError => e
      wrong << e
    ensure
      ActiveRecord::Base.clear_active_connections!
    end
  end.each(&:join)
  same(wrong.size.times.map { wrong.pop }, [])
end

check("reconnect after a restart") do
  restart
  eventually do
    begin
      $customers.each_with_index { |c, i| same(Customer.find(c.id).name, "customer #{i + 1}") }
    rescue ActiveRecord::StatementInvalid
      ActiveRecord::Base.connection.reconnect! unless ActiveRecord::Base.connection.active?
      raise
    end
  end
  same(Customer.update_all(tags: ["again"]), 20)
end

done
