// Sequelize: sync and migrations, associations, eager loading, transactions, upserts.
import { randomUUID } from 'node:crypto'
import sequelizePackage from 'sequelize'
import { check, declare, done, eventually, fails, restart, same } from './check.js'
import { customers, facts, items, orders, products, server, tables, tls, users } from './app.js'

const { DataTypes, Op, QueryTypes, Sequelize, Transaction } = sequelizePackage

const db = new Sequelize(server.database, server.user, server.password, {
  ...server, dialect: 'postgres', logging: false, pool: { max: 5, idle: 500 }, dialectOptions: { ssl: tls },
  define: { underscored: true, timestamps: false },
})

const Product = db.define('product', {
  name: { type: DataTypes.TEXT, allowNull: false, unique: true },
  price: { type: DataTypes.DECIMAL(10, 2), allowNull: false, validate: { min: 0 } },
})
const Customer = db.define(
  'customer',
  {
    id: { type: DataTypes.BIGINT, primaryKey: true, autoIncrement: true },
    name: { type: DataTypes.STRING(100), allowNull: false },
    country: { type: DataTypes.CHAR(2), allowNull: false },
    tags: { type: DataTypes.ARRAY(DataTypes.TEXT), allowNull: false, defaultValue: [] },
  },
  { timestamps: true, paranoid: true, indexes: [{ fields: ['country'] }] },
)
const Order = db.define('order', {
  id: { type: DataTypes.BIGINT, primaryKey: true, autoIncrement: true },
  status: { type: DataTypes.ENUM('new', 'paid', 'shipped', 'cancelled'), allowNull: false, defaultValue: 'new' },
  total: { type: DataTypes.DECIMAL(12, 2), allowNull: false, defaultValue: 0 },
  note: DataTypes.JSONB,
  placedAt: { type: DataTypes.DATE, allowNull: false, defaultValue: DataTypes.NOW },
})
const Item = db.define('item', {
  id: { type: DataTypes.BIGINT, primaryKey: true, autoIncrement: true },
  customerId: { type: DataTypes.BIGINT, allowNull: false },
  quantity: { type: DataTypes.INTEGER, allowNull: false },
  price: { type: DataTypes.DECIMAL(10, 2), allowNull: false },
})
const User = db.define('user', {
  id: { type: DataTypes.UUID, primaryKey: true, defaultValue: DataTypes.UUIDV4 },
  email: { type: DataTypes.TEXT, allowNull: false, unique: true },
  name: { type: DataTypes.TEXT, allowNull: false },
})
const Sample = db.define('sample', {
  id: { type: DataTypes.UUID, primaryKey: true },
  b: DataTypes.BOOLEAN, i8: DataTypes.BIGINT, f8: DataTypes.DOUBLE, num: DataTypes.DECIMAL(30, 10), raw: DataTypes.BLOB, d: DataTypes.DATEONLY,
  at: DataTypes.DATE, j: DataTypes.JSON, jb: DataTypes.JSONB, i4s: DataTypes.ARRAY(DataTypes.INTEGER), uuids: DataTypes.ARRAY(DataTypes.UUID),
  mood: DataTypes.ENUM('glad', 'sad'), r: DataTypes.RANGE(DataTypes.INTEGER), ip: DataTypes.INET, ci: DataTypes.STRING,
})
Customer.hasMany(Order, { foreignKey: { name: 'customerId', allowNull: false }, onDelete: 'CASCADE' })
Order.belongsTo(Customer, { foreignKey: { name: 'customerId', allowNull: false } })
// Sequelize knows no foreign keys of two columns; an item is its order's without one.
Order.hasMany(Item, { foreignKey: 'orderId', constraints: false })
Item.belongsTo(Order, { foreignKey: 'orderId', constraints: false })
Item.belongsTo(Product, { foreignKey: { name: 'productId', allowNull: false } })
Product.hasMany(Item, { foreignKey: 'productId' })

await check('connect', () => db.authenticate())

await check('migrate', async () => {
  await db.sync()
  const q = db.getQueryInterface()
  await q.addColumn('customers', 'phone', { type: DataTypes.STRING })
  await q.addConstraint('items', { fields: ['quantity'], type: 'check', where: { quantity: { [Op.gt]: 0 } }, name: 'items_quantity' })
  await q.addIndex('orders', ['placed_at'])
  same(Object.keys(await q.describeTable('customers')), ['id', 'name', 'country', 'tags', 'created_at', 'updated_at', 'deleted_at', 'phone'])
  same((await q.showAllTables()).sort(), ['customers', 'items', 'orders', 'products', 'samples', 'users'])
})
await check('declare', async () => declare(...tables, 'samples=id'))

await check('seed', async () => {
  await Product.bulkCreate(products.map(({ name, price }) => ({ name, price })))
  for (const c of customers) same(Number((await Customer.create({ name: c.name, country: c.country })).id), c.id)
  await db.transaction(async (transaction) => {
    for (const o of orders) await Order.create({ customerId: o.customer_id, status: o.status, total: o.total }, { transaction })
  })
  const made = await Item.bulkCreate(items.map((i) => ({ customerId: i.customer_id, orderId: i.order_id, productId: i.product_id, quantity: i.quantity, price: i.price })))
  same(made.every((i) => i.id), true)
  await User.bulkCreate(users)
})

await check('sync what is sharded', async () => {
  await db.sync()
  await db.sync({ alter: true })
  const q = db.getQueryInterface()
  await q.addColumn('customers', 'vip', { type: DataTypes.BOOLEAN, allowNull: false, defaultValue: false })
  await q.addIndex('customers', ['country', 'vip'])
  await q.changeColumn('customers', 'name', { type: DataTypes.STRING(120), allowNull: false })
  same((await q.showIndex('customers')).length, 3)
  await q.removeColumn('customers', 'vip')
  same((await q.getForeignKeyReferencesForTable('orders')).length, 1)
})

await check('read', async () => {
  const c = await Customer.findByPk(7)
  same([c.name, c.country], ['customer 7', 'fr'])
  same((await User.findOne({ where: { email: 'user9@example.com' } })).name, 'user 9')
  same(await User.findOne({ where: { email: 'nobody' } }), null)
  same((await Customer.findAll({ where: { id: { [Op.in]: [1, 5, 9] }, name: { [Op.iLike]: 'CUST%' } }, order: [['id', 'ASC']] })).map((x) => x.id), ['1', '5', '9'])
  same(await Customer.count({ where: { [Op.or]: [{ country: 'de' }, { id: 1 }] } }), 11)
})

await check('write', async () => {
  const c = await Customer.create({ name: 'tmp', country: 'it' })
  c.name = 'changed'
  c.tags = ['a', 'b']
  await c.save()
  await c.reload()
  same([c.name, c.tags], ['changed', ['a', 'b']])
  await c.destroy() // paranoid: it is marked
  same(await Customer.findByPk(c.id), null)
  await c.restore()
  same((await Customer.findByPk(c.id)).name, 'changed')
  await c.destroy({ force: true })
  same(await Customer.count({ paranoid: false }), 20)
  const [n, rows] = await Customer.update({ tags: ['x'] }, { where: { country: 'de' }, returning: true })
  same([n, rows.length], [10, 10])
  same(await Customer.update({ tags: [] }, { where: {} }), [20])
  const o = await Order.findOne({ where: { customerId: 1 } })
  await o.increment('total', { by: 5 })
  await o.decrement({ total: 5 })
  same((await o.reload()).total, orders[0].total)
})

await check('upsert', async () => {
  const [u] = await User.upsert({ email: 'user1@example.com', name: 'renamed' }, { conflictFields: ['email'] })
  same(u.name, 'renamed')
  await User.bulkCreate([{ email: 'user1@example.com', name: 'user 1' }], { updateOnDuplicate: ['name'], conflictAttributes: ['email'] })
  await User.bulkCreate([{ email: 'user1@example.com', name: 'ignored' }], { ignoreDuplicates: true })
  const [u1, made1] = await User.findCreateFind({ where: { email: 'user1@example.com' }, defaults: { name: 'never' } })
  same([u1.name, made1], ['user 1', false])
  const [u2, made2] = await User.findCreateFind({ where: { email: 'fresh@example.com' }, defaults: { name: 'fresh' } })
  same([u2.name, made2], ['fresh', true])
  await u2.destroy()
  same(await User.count(), 20)
  await Product.upsert({ id: 1, name: 'product 1', price: '1.50' })
  same(await Product.count(), 10)
})

// It inserts in a temporary PL/pgSQL function.
await check('findOrCreate', async () => {
  const [u1, made1] = await User.findOrCreate({ where: { email: 'user1@example.com' }, defaults: { name: 'never' } })
  same([u1.name, made1], ['user 1', false])
  const [u2, made2] = await User.findOrCreate({ where: { email: 'fresh@example.com' }, defaults: { name: "it's \"fresh\" \\" } })
  same([u2.name, made2], ["it's \"fresh\" \\", true])
  same((await User.findByPk(u2.id)).email, 'fresh@example.com')
  // Somebody else has the email: found neither by id nor made.
  const e = await User.findOrCreate({ where: { id: '00000000-0000-4000-8000-000000000001' }, defaults: { email: 'user2@example.com', name: 'x' } }).catch((e) => e)
  same([e.name, Object.keys(e.fields)], ['SequelizeUniqueConstraintError', ['email']])
  const results = await Promise.all([1, 2, 3, 4].map(() => User.findOrCreate({ where: { email: 'race@example.com' }, defaults: { name: 'race' } })))
  same([results.filter(([, made]) => made).length, new Set(results.map(([u]) => u.id)).size], [1, 1])
  await db.transaction(async (transaction) => {
    const [c, made] = await Customer.findOrCreate({ where: { name: 'found' }, defaults: { country: 'de' }, transaction })
    same([Number(c.id) > 0, made], [true, true])
    const [again, madeAgain] = await Customer.findOrCreate({ where: { name: 'found' }, defaults: { country: 'de' }, transaction })
    same([again.id, madeAgain], [c.id, false])
    await c.destroy({ force: true, transaction })
  })
  const [p, madeP] = await Product.findOrCreate({ where: { name: 'product 3' }, defaults: { price: '1.00' } })
  same([Number(p.id), madeP], [3, false])
  await User.destroy({ where: { email: ['fresh@example.com', 'race@example.com'] } })
  same(await User.count(), 20)
})

await check('relations', async () => {
  const c = await Customer.findByPk(3, { include: [{ model: Order, include: [{ model: Item, include: Product }] }], order: [[Order, 'id'], [Order, Item, 'id']] })
  same(c.orders.length, 3)
  same(c.orders.flatMap((o) => o.items).length, items.filter((i) => i.customer_id === 3).length)
  same(c.orders[0].items[0].product.name, products.find((p) => p.id === items.find((i) => i.customer_id === 3).product_id).name)
  const all = await Customer.findAll({ include: [{ model: Order, include: [Item] }], order: [['id', 'ASC']] })
  same(all.map((x) => x.orders.length), customers.map((x) => x.id % 4))
  const separate = await Customer.findAll({ include: [{ model: Order, separate: true, order: [['id', 'ASC']] }], order: [['id', 'ASC']] })
  same(separate.map((x) => x.orders.length), customers.map((x) => x.id % 4))
  const needed = await Customer.findAll({ include: [{ model: Order, required: true, where: { status: 'shipped' } }], order: [['id', 'ASC']] })
  same(needed.map((x) => Number(x.id)), [3, 7, 11, 15, 19])
  const back = await Order.findOne({ where: { id: 1 }, include: Customer })
  same(back.customer.name, 'customer 1')
  same(await c.countOrders(), 3)
  const made = await c.createOrder({ status: 'new' })
  same((await made.getCustomer()).id, '3')
  await made.destroy()
})

await check('pagination', async () => {
  const ids = []
  for (let page = 0; page < 4; page++) {
    // A page of customers with their orders: the limit is put into a subquery.
    const { count, rows } = await Customer.findAndCountAll({ limit: 6, offset: page * 6, order: [['id', 'ASC']], include: [Order], distinct: true })
    same(count, 20)
    ids.push(...rows.map((r) => Number(r.id)))
  }
  same(ids, customers.map((c) => c.id))
})

await check('aggregates', async () => {
  same(await Order.count(), facts.orders)
  same(Number(await Order.sum('total')).toFixed(2), facts.total)
  same((await Order.max('id')) >= facts.orders, true)
  const by = await Order.findAll({
    attributes: ['status', [db.fn('count', db.col('id')), 'n'], [db.fn('sum', db.col('total')), 'total']], group: ['status'], order: ['status'], raw: true,
  })
  same(by.map((r) => ({ ...r, n: Number(r.n) })), facts.byStatus)
  const best = await Customer.findAll({
    attributes: ['id', [db.fn('coalesce', db.fn('sum', db.col('orders.total')), 0), 'spent']],
    include: [{ model: Order, attributes: [] }], group: ['customer.id'], order: [[db.literal('spent'), 'DESC'], ['id', 'ASC']], limit: 3, subQuery: false, raw: true,
  })
  same(best.map((r) => ({ id: Number(r.id), spent: r.spent })), facts.best)
})

await check('transactions', async () => {
  await fails('22012', () =>
    db.transaction(async (transaction) => {
      await Customer.update({ country: 'xx' }, { where: { id: [1, 2, 3] }, transaction })
      await db.query('select 1/0', { transaction })
    }),
  )
  same(await Customer.count({ where: { country: 'xx' } }), 0)
  await db.transaction({ isolationLevel: Transaction.ISOLATION_LEVELS.REPEATABLE_READ }, async (transaction) => {
    const locked = await Customer.findAll({ where: { id: [1, 2] }, lock: transaction.LOCK.UPDATE, transaction })
    same(locked.length, 2)
    await db
      .transaction({ transaction }, async (sp) => {
        await Customer.update({ country: 'yy' }, { where: { id: [5, 6] }, transaction: sp })
        await User.create({ email: 'user1@example.com', name: 'twice' }, { transaction: sp })
      })
      .catch((e) => same(e.name, 'SequelizeUniqueConstraintError'))
    await Customer.update({ tags: ['t'] }, { where: { id: [1, 2] }, transaction })
  })
  same(await Customer.count({ where: { country: 'yy' } }), 0)
  same(await Customer.count({ where: { tags: { [Op.contains]: ['t'] } } }), 2)
  const t = await db.transaction()
  await Customer.findByPk(2, { lock: true, transaction: t })
  same((await Customer.findAll({ where: { id: [2, 3] }, lock: true, skipLocked: true, transaction: await db.transaction().then((x) => (t.other = x)) })).length, 1)
  await t.other.rollback()
  await t.rollback()
})

await check('types', async () => {
  const row = {
    id: randomUUID(), b: true, i8: '9007199254740993', f8: -2.25, num: '12345678901234567890.0123456789', raw: Buffer.from([0, 255]), d: '2024-02-29',
    at: new Date('2024-02-29T12:00:00.123Z'), j: { a: [1, null] }, jb: { k: { n: 1 } }, i4s: [1, 2, 3], uuids: [randomUUID()], mood: 'glad', ip: '10.0.0.1', ci: "q'",
  }
  await Sample.create({ ...row, r: [1, 5] })
  const got = (await Sample.findByPk(row.id)).get({ plain: true })
  same({ ...got, r: got.r.map((x) => x.value) }, { ...row, r: [1, 5] })
  same(await Sample.count({ where: { jb: { k: { n: 1 } }, i4s: { [Op.overlap]: [3] }, r: { [Op.contains]: 2 } } }), 1)
})

await check('errors', async () => {
  same((await fails('23505', () => User.create({ email: 'user2@example.com', name: 'x' }))).table, 'users')
  await fails('23503', () => Order.create({ customerId: 999999 }))
  await fails('23514', () => Item.update({ quantity: 0 }, { where: { customerId: 3 } }))
  await fails('42703', () => db.query('select nothing from customers'))
  await fails('57014', () =>
    db.transaction(async (transaction) => {
      await db.query('set local statement_timeout = 300', { transaction })
      await db.query('select pg_sleep(5)', { transaction })
    }),
  )
})

await check('raw queries', async () => {
  const rows = await db.query('select name from customers where id = :id', { replacements: { id: 3 }, type: QueryTypes.SELECT })
  same(rows, [{ name: 'customer 3' }])
  const bound = await db.query('select count(*)::int n from orders where customer_id = any($1)', { bind: [[3, 7]], type: QueryTypes.SELECT })
  same(bound, [{ n: 6 }])
})

await check('many clients', async () => {
  await Promise.all(Array.from({ length: 200 }, async (_, n) => same((await Customer.findByPk((n % 20) + 1)).name, `customer ${(n % 20) + 1}`)))
})

await check('reconnect after a restart', async () => {
  restart()
  await eventually(async () => {
    for (const c of customers) same((await Customer.findByPk(c.id)).name, c.name)
  })
  same(await Customer.update({ tags: ['again'] }, { where: {} }), [20])
})

await db.close()
done()
