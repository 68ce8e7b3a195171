// TypeORM: migrations, synchronize, repositories, relations, query builder.
import 'reflect-metadata'
import { randomUUID } from 'node:crypto'
import { DataSource, EntitySchema, In, IsNull, LessThan, MoreThan, Not, Raw } from 'typeorm'
import { check, declare, done, eventually, fails, restart, same } from './check.js'
import { customers, facts, items, orders, products, server, tables, tls, users } from './app.js'

const id = { type: 'bigint', primary: true, generated: 'increment' }
const Product = new EntitySchema({
  name: 'Product', tableName: 'products',
  columns: { id: { type: 'int', primary: true, generated: 'increment' }, name: { type: 'text', unique: true }, price: { type: 'numeric', precision: 10, scale: 2 } },
})
const Customer = new EntitySchema({
  name: 'Customer', tableName: 'customers',
  columns: {
    id, name: { type: 'varchar', length: 100 }, country: { type: 'char', length: 2 }, tags: { type: 'text', array: true, default: [] },
    created_at: { type: 'timestamptz', createDate: true }, updated_at: { type: 'timestamptz', updateDate: true },
    deleted_at: { type: 'timestamptz', deleteDate: true, nullable: true }, version: { type: 'int', version: true },
  },
  indices: [{ columns: ['country'] }],
  relations: { orders: { type: 'one-to-many', target: 'Order', inverseSide: 'customer', cascade: true } },
})
const Order = new EntitySchema({
  name: 'Order', tableName: 'orders',
  columns: {
    id, customer_id: { type: 'bigint' }, status: { type: 'enum', enum: ['new', 'paid', 'shipped', 'cancelled'], enumName: 'order_status', default: 'new' },
    total: { type: 'numeric', precision: 12, scale: 2, default: 0 }, note: { type: 'jsonb', nullable: true }, placed_at: { type: 'timestamptz', default: () => 'now()' },
  },
  relations: {
    customer: { type: 'many-to-one', target: 'Customer', inverseSide: 'orders', joinColumn: { name: 'customer_id' }, onDelete: 'CASCADE' },
    items: { type: 'one-to-many', target: 'Item', inverseSide: 'order' },
  },
  uniques: [{ columns: ['customer_id', 'id'] }],
})
const Item = new EntitySchema({
  name: 'Item', tableName: 'items',
  columns: { id, customer_id: { type: 'bigint' }, order_id: { type: 'bigint' }, product_id: { type: 'int' }, quantity: { type: 'int' }, price: { type: 'numeric', precision: 10, scale: 2 } },
  relations: {
    order: {
      type: 'many-to-one', target: 'Order', inverseSide: 'items', onDelete: 'CASCADE',
      joinColumn: [{ name: 'customer_id', referencedColumnName: 'customer_id' }, { name: 'order_id', referencedColumnName: 'id' }],
    },
    product: { type: 'many-to-one', target: 'Product', joinColumn: { name: 'product_id' } },
  },
  checks: [{ name: 'items_quantity', expression: 'quantity > 0' }],
})
const User = new EntitySchema({
  name: 'User', tableName: 'users',
  columns: { id: { type: 'uuid', primary: true, generated: 'uuid' }, email: { type: 'text', unique: true }, name: { type: 'text' } },
})
const Sample = new EntitySchema({
  name: 'Sample', tableName: 'samples',
  columns: {
    id: { type: 'uuid', primary: true }, b: { type: 'boolean' }, i8: { type: 'bigint' }, f8: { type: 'double precision' }, num: { type: 'numeric', precision: 30, scale: 10 },
    raw: { type: 'bytea' }, d: { type: 'date' }, at: { type: 'timestamptz', precision: 3 }, j: { type: 'json' }, jb: { type: 'jsonb' }, i4s: { type: 'int', array: true },
    uuids: { type: 'uuid', array: true }, mood: { type: 'enum', enum: ['glad', 'sad'] }, moods: { type: 'enum', enum: ['glad', 'sad'], array: true }, ip: { type: 'inet' },
  },
})
class Phone1700000000000 {
  up = (q) => q.query('ALTER TABLE "customers" ADD "phone" character varying')
  down = (q) => q.query('ALTER TABLE "customers" DROP COLUMN "phone"')
}
class Vip1700000000001 {
  async up(q) {
    await q.query('ALTER TABLE "customers" ADD "vip" boolean NOT NULL DEFAULT false')
    await q.query('CREATE INDEX "customers_vip" ON "customers" ("country", "vip")')
  }
  down = (q) => q.query('ALTER TABLE "customers" DROP COLUMN "vip"')
}

const options = {
  ...server, type: 'postgres', username: server.user, ssl: tls, extra: { max: 5 }, installExtensions: false, uuidExtension: 'pgcrypto',
  entities: [Product, Customer, Order, Item, User, Sample],
}
let db = new DataSource({ ...options, migrations: [Phone1700000000000] })
const repo = (e) => db.getRepository(e)

await check('connect', () => db.initialize())

await check('migrate', async () => {
  await db.synchronize()
  same((await db.runMigrations()).length, 1)
  await db.undoLastMigration()
  same((await db.runMigrations()).length, 1)
})
await check('declare', async () => declare(...tables, 'samples=id'))

await check('seed', async () => {
  await repo(Product).save(products.map(({ name, price }) => ({ name, price })))
  for (const c of customers) same(Number((await repo(Customer).save({ name: c.name, country: c.country })).id), c.id)
  await db.transaction(async (m) => {
    for (const o of orders) await m.save(Order, { customer_id: o.customer_id, status: o.status, total: o.total })
  })
  const made = await repo(Item).insert(items.map(({ id, ...i }) => i))
  same(made.identifiers.length, items.length)
  await repo(User).save(users.map((u) => ({ ...u })))
})

await check('migrate what is sharded', async () => {
  await db.destroy()
  db = new DataSource({ ...options, migrations: [Phone1700000000000, Vip1700000000001], migrationsTransactionMode: 'all' })
  await db.initialize()
  same((await db.runMigrations()).length, 1)
  await db.undoLastMigration()
  // What is there is what the entities say, but for the phone.
  const log = await db.driver.createSchemaBuilder().log()
  same(log.upQueries.map((q) => q.query), ['ALTER TABLE "customers" DROP COLUMN "phone"'])
  await db.synchronize()
})

await check('read', async () => {
  const c = await repo(Customer).findOneBy({ id: 7 })
  same([c.name, c.country, c.version], ['customer 7', 'fr', 1])
  same((await repo(User).findOneByOrFail({ email: 'user9@example.com' })).name, 'user 9')
  same(await repo(User).findOneBy({ email: 'nobody' }), null)
  same((await repo(Customer).find({ where: { id: In([1, 5, 9]) }, order: { id: 'ASC' }, select: { id: true } })).map((x) => x.id), ['1', '5', '9'])
  same(await repo(Customer).countBy([{ country: 'de' }, { id: 1 }]), 11)
  same(await repo(Order).countBy({ total: MoreThan(20), id: Not(In([1])), note: IsNull(), placed_at: LessThan(new Date(Date.now() + 3.6e6)) }), orders.filter((o) => Number(o.total) > 20).length)
  same(await repo(Customer).existsBy({ name: Raw((a) => `upper(${a}) = 'CUSTOMER 3'`) }), true)
})

await check('write', async () => {
  const r = repo(Customer)
  const c = await r.save({ name: 'tmp', country: 'it' })
  c.name = 'changed'
  c.tags = ['a', 'b']
  await r.save(c)
  const again = await r.findOneBy({ id: c.id })
  same([again.name, again.tags, again.version], ['changed', ['a', 'b'], 2])
  await r.softRemove(again)
  same(await r.findOneBy({ id: c.id }), null)
  await r.restore(c.id)
  await r.remove(await r.findOneBy({ id: c.id }))
  same(await r.count({ withDeleted: true }), 20)
  same((await r.update({ country: 'de' }, { tags: ['x'] })).affected, 10)
  same((await db.createQueryBuilder().update(Customer).set({ tags: [] }).where('country = :c', { c: 'de' }).returning(['id']).execute()).raw.length, 10)
  await repo(Order).increment({ id: 1 }, 'total', 5)
  await repo(Order).decrement({ id: 1 }, 'total', 5)
  same((await repo(Order).findOneBy({ id: 1 })).total, orders[0].total)
})

await check('upsert', async () => {
  await repo(User).upsert([{ email: 'user1@example.com', name: 'renamed' }], ['email'])
  await repo(User).upsert({ email: 'user1@example.com', name: 'user 1' }, { conflictPaths: ['email'], skipUpdateIfNoValuesChanged: true })
  await db.createQueryBuilder().insert().into(User).values({ email: 'user1@example.com', name: 'x' }).orIgnore().execute()
  await repo(Product).upsert({ name: 'product 1', price: '1.50' }, ['name'])
  same(await repo(User).count(), 20)
})

await check('relations', async () => {
  const c = await repo(Customer).findOne({ where: { id: 3 }, relations: { orders: { items: { product: true } } }, order: { orders: { id: 'ASC', items: { id: 'ASC' } } } })
  same(c.orders.length, 3)
  same(c.orders.flatMap((o) => o.items).length, items.filter((i) => i.customer_id === 3).length)
  same(c.orders[0].items[0].product.name, products.find((p) => p.id === items.find((i) => i.customer_id === 3).product_id).name)
  const all = await repo(Customer).find({ relations: { orders: true }, order: { id: 'ASC' } })
  same(all.map((x) => x.orders.length), customers.map((x) => x.id % 4))
  const apart = await repo(Customer).find({ relations: { orders: true }, relationLoadStrategy: 'query', order: { id: 'ASC' } })
  same(apart.map((x) => x.orders.length), customers.map((x) => x.id % 4))
  same((await repo(Order).findOne({ where: { customer: { name: 'customer 3' } }, relations: { customer: true } })).customer.id, '3')
  const whole = await repo(Customer).save({ name: 'with orders', country: 'it', orders: [{ status: 'new' }, { status: 'paid' }] })
  same(await repo(Order).countBy({ customer_id: whole.id }), 2)
  await repo(Customer).delete(whole.id)
  same(await repo(Order).countBy({ customer_id: whole.id }), 0)
})

await check('pagination', async () => {
  const ids = []
  for (let page = 0; page < 4; page++) {
    // take and skip with a join: first the ids, distinct, then the rows.
    const [rows, n] = await repo(Customer).findAndCount({ take: 6, skip: page * 6, order: { id: 'ASC' }, relations: { orders: true } })
    same(n, 20)
    ids.push(...rows.map((r) => Number(r.id)))
  }
  same(ids, customers.map((c) => c.id))
})

await check('query builder', async () => {
  const r = await repo(Customer).createQueryBuilder('c').leftJoinAndSelect('c.orders', 'o', 'o.status = :s', { s: 'shipped' })
    .where('c.id IN (:...ids)', { ids: [3, 4] }).orderBy('c.id').getMany()
  same(r.map((c) => c.orders.length), [1, 0])
  const sub = await repo(Customer).createQueryBuilder('c').where((q) => `c.id NOT IN ${q.subQuery().select('o.customer_id').from(Order, 'o').getQuery()}`).getCount()
  same(sub, 5)
  const cte = await db.createQueryBuilder().addCommonTableExpression('select customer_id, count(*) n from orders group by 1', 'x').select('max(n)', 'm').from('x', 'x').getRawOne()
  same(cte, { m: '3' })
  let n = 0
  for await (const _ of await repo(Item).createQueryBuilder('i').stream()) n++
  same(n, items.length)
})

await check('aggregates', async () => {
  same(await repo(Order).sum('total').then((v) => Number(v).toFixed(2)), facts.total)
  same(Number(await repo(Order).maximum('id')) >= facts.orders, true)
  const by = await repo(Order).createQueryBuilder('o').select('o.status', 'status').addSelect('count(*)::int', 'n').addSelect('sum(o.total)', 'total').groupBy('o.status').orderBy('o.status').getRawMany()
  same(by, facts.byStatus)
  const best = await repo(Customer).createQueryBuilder('c').leftJoin('c.orders', 'o').select('c.id::int', 'id').addSelect('coalesce(sum(o.total), 0.00)', 'spent')
    .groupBy('c.id').orderBy('spent', 'DESC').addOrderBy('c.id').limit(3).getRawMany()
  same(best, facts.best)
})

await check('transactions', async () => {
  await fails('22012', () =>
    db.transaction(async (m) => {
      await m.update(Customer, [1, 2, 3], { country: 'xx' })
      await m.query('select 1/0')
    }),
  )
  same(await repo(Customer).countBy({ country: 'xx' }), 0)
  await db.transaction('REPEATABLE READ', async (m) => {
    same((await m.find(Customer, { where: { id: In([1, 2]) }, lock: { mode: 'pessimistic_write' } })).length, 2)
    await m
      .transaction(async (sp) => {
        await sp.update(Customer, [5, 6], { country: 'yy' })
        await sp.insert(User, { email: 'user1@example.com', name: 'twice' })
      })
      .catch((e) => same(e.code, '23505'))
    await m.update(Customer, [1, 2], { tags: ['t'] })
  })
  same(await repo(Customer).countBy({ country: 'yy' }), 0)
  const runner = db.createQueryRunner()
  await runner.startTransaction('SERIALIZABLE')
  await runner.manager.update(Customer, 4, { tags: ['u'] })
  await runner.rollbackTransaction()
  await runner.release()
  same((await repo(Customer).findOneBy({ id: 4 })).tags, [])
})

await check('types', async () => {
  const row = {
    id: randomUUID(), b: true, i8: '9007199254740993', f8: -2.25, num: '12345678901234567890.0123456789', raw: Buffer.from([0, 255]), d: '2024-02-29',
    at: new Date('2024-02-29T12:00:00.123Z'), j: { a: [1, null] }, jb: { k: { n: 1 } }, i4s: [1, 2], uuids: [randomUUID()], mood: 'glad', moods: ['sad', 'glad'], ip: '10.0.0.1',
  }
  await repo(Sample).insert({ ...row })
  same({ ...(await repo(Sample).findOneBy({ id: row.id })) }, row)
})

await check('errors', async () => {
  const e = await fails('23505', () => repo(User).insert({ email: 'user2@example.com', name: 'x' }))
  same(e.table, 'users')
  await fails('23503', () => repo(Order).insert({ customer_id: 999999 }))
  await fails('23502', () => repo(Customer).insert({ country: 'de' }))
  await fails('23514', () => repo(Item).update({ customer_id: 3 }, { quantity: 0 }))
  await fails('42703', () => db.query('select nothing from customers'))
})

await check('many clients', async () => {
  await Promise.all(Array.from({ length: 200 }, async (_, n) => same((await repo(Customer).findOneBy({ id: (n % 20) + 1 })).name, `customer ${(n % 20) + 1}`)))
})

await check('reconnect after a restart', async () => {
  restart()
  await eventually(async () => {
    for (const c of customers) same((await repo(Customer).findOneBy({ id: c.id })).name, c.name)
  })
  same((await repo(Customer).update({}, { tags: ['again'] }).catch(() => repo(Customer).createQueryBuilder().update().set({ tags: ['again'] }).execute())).affected, 20)
})

await db.destroy()
done()
