// Drizzle on node-postgres and on postgres.js: migrations, relational queries, transactions.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { and, asc, count, desc, eq, exists, gt, inArray, relations, sql, sum } from 'drizzle-orm'
import { drizzle as onPg } from 'drizzle-orm/node-postgres'
import { migrate } from 'drizzle-orm/node-postgres/migrator'
import { bigint, bigserial, char, integer, jsonb, numeric, pgEnum, pgTable, serial, text, timestamp, uuid, varchar } from 'drizzle-orm/pg-core'
import { drizzle as onPostgres } from 'drizzle-orm/postgres-js'
import pg from 'pg'
import postgres from 'postgres'
import { check, declare, done, eventually, fails, restart, same } from './check.js'
import { customers as rows, facts, items as itemRows, orders as orderRows, products as productRows, server, tables, tls, users as userRows } from './app.js'

const status = pgEnum('order_status', ['new', 'paid', 'shipped', 'cancelled'])
const products = pgTable('products', { id: serial().primaryKey(), name: text().notNull().unique(), price: numeric({ precision: 10, scale: 2 }).notNull() })
const customers = pgTable('customers', {
  id: bigserial({ mode: 'number' }).primaryKey(), name: varchar({ length: 100 }).notNull(), country: char({ length: 2 }).notNull(),
  tags: text().array().notNull().default([]), createdAt: timestamp('created_at', { withTimezone: true }).notNull().defaultNow(), phone: text(),
})
const orders = pgTable('orders', {
  id: bigserial({ mode: 'number' }).primaryKey(), customerId: bigint('customer_id', { mode: 'number' }).notNull(), status: status().notNull().default('new'),
  total: numeric({ precision: 12, scale: 2 }).notNull().default('0'), note: jsonb(), placedAt: timestamp('placed_at', { withTimezone: true }).notNull().defaultNow(),
})
const items = pgTable('items', {
  id: bigserial({ mode: 'number' }).primaryKey(), customerId: bigint('customer_id', { mode: 'number' }).notNull(), orderId: bigint('order_id', { mode: 'number' }).notNull(),
  productId: integer('product_id').notNull(), quantity: integer().notNull(), price: numeric({ precision: 10, scale: 2 }).notNull(),
})
const users = pgTable('users', { id: uuid().primaryKey().defaultRandom(), email: text().notNull().unique(), name: text().notNull() })
const schema = {
  products, customers, orders, items, users,
  customersRelations: relations(customers, ({ many }) => ({ orders: many(orders) })),
  ordersRelations: relations(orders, ({ one, many }) => ({ customer: one(customers, { fields: [orders.customerId], references: [customers.id] }), items: many(items) })),
  itemsRelations: relations(items, ({ one }) => ({
    order: one(orders, { fields: [items.customerId, items.orderId], references: [orders.customerId, orders.id] }),
    product: one(products, { fields: [items.productId], references: [products.id] }),
  })),
}

const pool = new pg.Pool({ ...server, ssl: tls, max: 5 })
pool.on('error', () => {})
const db = onPg(pool, { schema })
const client = postgres({ ...server, username: server.user, ssl: tls, max: 3, onnotice: () => {} })
const other = onPostgres(client, { schema })

await check('connect', async () => {
  same((await db.execute(sql`select current_user u`)).rows, [{ u: server.user }])
  same([...(await other.execute(sql`select current_user u`))], [{ u: server.user }])
})

await check('migrate', async () => {
  await migrate(db, { migrationsFolder: 'drizzle' })
  await migrate(db, { migrationsFolder: 'drizzle' }) // nothing left to do
})
await check('declare', async () => declare(...tables))

// A sequence promises different numbers, not the next ones.
const orderIds = []
const itemIds = []
await check('seed', async () => {
  await db.insert(products).values(productRows.map(({ name, price }) => ({ name, price })))
  for (const c of rows) same(await db.insert(customers).values({ name: c.name, country: c.country }).returning({ id: customers.id }), [{ id: c.id }])
  await db.transaction(async (tx) => {
    for (const o of orderRows) {
      const [r] = await tx.insert(orders).values({ customerId: o.customer_id, status: o.status, total: o.total }).returning({ id: orders.id })
      orderIds.push(r.id)
    }
  })
  const made = await db.insert(items).values(
    itemRows.map((i) => ({ customerId: i.customer_id, orderId: orderIds[i.order_id - 1], productId: i.product_id, quantity: i.quantity, price: i.price })),
  ).returning({ id: items.id })
  itemIds.push(...made.map((r) => r.id).sort((a, b) => a - b))
  await db.insert(users).values(userRows)
})

await check('migrate what is sharded', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'drizzle-'))
  try {
    cpSync('drizzle', folder, { recursive: true })
    const journal = JSON.parse(readFileSync(join(folder, 'meta/_journal.json')))
    journal.entries.push({ idx: 2, version: '7', when: 1700000000002, tag: '0002_vip', breakpoints: true })
    writeFileSync(join(folder, 'meta/_journal.json'), JSON.stringify(journal))
    writeFileSync(join(folder, '0002_vip.sql'), `ALTER TABLE "customers" ADD COLUMN "vip" boolean DEFAULT false NOT NULL;--> statement-breakpoint
CREATE INDEX "customers_vip_index" ON "customers" USING btree ("country","vip");--> statement-breakpoint
ALTER TYPE "public"."order_status" ADD VALUE 'returned';`)
    await migrate(db, { migrationsFolder: folder })
  } finally {
    rmSync(folder, { recursive: true })
  }
  same((await db.execute(sql`select count(*)::int n from customers where not vip`)).rows, [{ n: 20 }])
  same((await db.update(orders).set({ status: sql`'returned'` }).where(eq(orders.id, orderIds[0])).returning({ s: orders.status })), [{ s: 'returned' }])
  await db.update(orders).set({ status: 'new' }).where(eq(orders.id, orderIds[0]))
})

await check('read', async () => {
  same(await db.select({ name: customers.name }).from(customers).where(eq(customers.id, 7)), [{ name: 'customer 7' }])
  same((await other.select().from(users).where(eq(users.email, 'user9@example.com')))[0].name, 'user 9')
  same((await db.select().from(customers).where(inArray(customers.id, [1, 5, 9])).orderBy(customers.id)).map((c) => c.id), [1, 5, 9])
  same(await db.$count(customers, eq(customers.country, 'de')), 10)
  const with_ = db.select().from(orders).where(eq(orders.customerId, customers.id))
  same((await db.select().from(customers).where(exists(with_))).length, 15)
})

await check('write', async () => {
  const [c] = await db.insert(customers).values({ name: 'tmp', country: 'it' }).returning()
  same((await db.update(customers).set({ name: 'changed', tags: ['a', 'b'] }).where(eq(customers.id, c.id)).returning())[0].tags, ['a', 'b'])
  same((await db.delete(customers).where(eq(customers.id, c.id))).rowCount, 1)
  same((await db.update(customers).set({ tags: ['x'] }).where(eq(customers.country, 'de'))).rowCount, 10)
  same((await other.update(customers).set({ tags: [] })).count, 20)
})

await check('upsert', async () => {
  const up = (name) => db.insert(users).values({ email: 'user1@example.com', name }).onConflictDoUpdate({ target: users.email, set: { name } }).returning({ name: users.name })
  same(await up('renamed'), [{ name: 'renamed' }])
  same(await up('user 1'), [{ name: 'user 1' }])
  same((await db.insert(users).values([{ email: 'user1@example.com', name: 'x' }, { email: 'user2@example.com', name: 'x' }]).onConflictDoNothing()).rowCount, 0)
  same((await db.insert(products).values({ name: 'product 1', price: '1' }).onConflictDoNothing({ target: products.name })).rowCount, 0)
})

await check('joins', async () => {
  const r = await db.select().from(items).innerJoin(orders, and(eq(orders.id, items.orderId), eq(orders.customerId, items.customerId)))
    .innerJoin(products, eq(products.id, items.productId)).leftJoin(customers, eq(customers.id, items.customerId)).orderBy(items.id)
  same(r.map((x) => x.items.id), itemIds)
  const big = db.$with('big').as(db.select().from(orders).where(gt(orders.total, '20')))
  same((await db.with(big).select({ n: count() }).from(big))[0].n, orderRows.filter((o) => Number(o.total) > 20).length)
  const spent = db.select({ id: orders.customerId, s: sum(orders.total).as('s') }).from(orders).groupBy(orders.customerId).as('spent')
  same((await db.select({ name: customers.name, s: spent.s }).from(customers).innerJoin(spent, eq(spent.id, customers.id))).length, 15)
})

await check('relational queries', async () => {
  // Each is one statement of lateral joins and json_agg.
  for (const d of [db, other]) {
    const c = await d.query.customers.findFirst({ where: eq(customers.id, 3), with: { orders: { orderBy: asc(orders.id), with: { items: { with: { product: true } } } } } })
    same(c.orders.length, 3)
    same(c.orders.flatMap((o) => o.items).length, itemRows.filter((i) => i.customer_id === 3).length)
    same(typeof c.orders[0].items[0].product.name, 'string')
    const all = await d.query.customers.findMany({ orderBy: asc(customers.id), with: { orders: { with: { items: true } } } })
    same(all.map((x) => x.orders.length), rows.map((x) => x.id % 4))
    same(all.flatMap((x) => x.orders.flatMap((o) => o.items)).length, itemRows.length)
    const page = await d.query.orders.findMany({ limit: 5, offset: 5, orderBy: [asc(orders.customerId), asc(orders.id)], with: { customer: { columns: { name: true } } } })
    same(page.map((o) => o.customer.name), orderRows.slice(5, 10).map((o) => `customer ${o.customer_id}`))
  }
})

await check('pagination', async () => {
  const ids = []
  for (let page = 0; page < 4; page++) ids.push(...(await db.select({ id: customers.id }).from(customers).orderBy(customers.id).limit(6).offset(page * 6)).map((r) => r.id))
  same(ids, rows.map((c) => c.id))
})

await check('aggregates', async () => {
  same(await db.select({ n: count(), total: sum(orders.total) }).from(orders), [{ n: facts.orders, total: facts.total }])
  same(await db.select({ status: orders.status, n: count(), total: sum(orders.total) }).from(orders).groupBy(orders.status).orderBy(orders.status), facts.byStatus)
  const best = await db.select({ id: customers.id, spent: sql`coalesce(sum(${orders.total}), 0.00)` }).from(customers).leftJoin(orders, eq(orders.customerId, customers.id))
    .groupBy(customers.id).orderBy(desc(sql`coalesce(sum(${orders.total}), 0.00)`), customers.id).limit(3)
  same(best, facts.best)
})

await check('transactions', async () => {
  for (const d of [db, other]) {
    await fails('22012', () =>
      d.transaction(async (tx) => {
        await tx.update(customers).set({ country: 'xx' }).where(inArray(customers.id, [1, 2, 3]))
        await tx.execute(sql`select 1/0`)
      }),
    )
    same(await d.$count(customers, eq(customers.country, 'xx')), 0)
    await d.transaction(
      async (tx) => {
        same((await tx.select().from(customers).where(inArray(customers.id, [1, 2])).for('update')).length, 2)
        await tx
          .transaction(async (sp) => {
            await sp.update(customers).set({ country: 'yy' }).where(inArray(customers.id, [5, 6]))
            await sp.insert(users).values({ email: 'user1@example.com', name: 'twice' })
          })
          .catch((e) => same((e.cause ?? e).code, '23505'))
        await tx.update(customers).set({ tags: ['t'] }).where(inArray(customers.id, [1, 2]))
      },
      { isolationLevel: 'repeatable read' },
    )
    same(await d.$count(customers, eq(customers.country, 'yy')), 0)
    await d.update(customers).set({ tags: [] })
  }
  await db.transaction(async (tx) => tx.rollback()).catch((e) => same(e.constructor.name, 'TransactionRollbackError'))
})

await check('prepared statements', async () => {
  const byId = db.select({ name: customers.name }).from(customers).where(eq(customers.id, sql.placeholder('id'))).prepare('by_id')
  const withOrders = db.query.customers.findFirst({ where: eq(customers.id, sql.placeholder('id')), with: { orders: true } }).prepare('with_orders')
  for (let n = 0; n < 100; n++) {
    const id = (n % 20) + 1
    same(await byId.execute({ id }), [{ name: `customer ${id}` }])
    same((await withOrders.execute({ id })).orders.length, id % 4)
  }
})

await check('errors', async () => {
  same((await fails('23505', () => db.insert(users).values({ email: 'user2@example.com', name: 'x' }))).constraint, 'users_email_unique')
  await fails('23503', () => db.insert(orders).values({ customerId: 999999 }))
  await fails('23514', () => db.update(items).set({ quantity: 0 }).where(eq(items.customerId, 3)))
  await fails('42703', () => other.execute(sql`select nothing from customers`))
})

await check('many clients', async () => {
  await Promise.all(Array.from({ length: 200 }, async (_, n) => {
    const id = (n % 20) + 1
    same((await db.query.customers.findFirst({ where: eq(customers.id, id), with: { orders: true } })).orders.length, id % 4)
  }))
  await Promise.all(Array.from({ length: 20 }, (_, n) => db.transaction(async (tx) => {
    for (const id of [n + 1, ((n + 1) % 20) + 1].sort((a, b) => a - b)) await tx.update(customers).set({ tags: sql`array_append(${customers.tags}, ${`t${n}`})` }).where(eq(customers.id, id))
  })))
  same(Number((await db.select({ n: sql`sum(cardinality(tags))` }).from(customers))[0].n), 40)
  await db.update(customers).set({ tags: [] })
})

await check('reconnect after a restart', async () => {
  restart()
  await eventually(async () => {
    for (const c of rows) {
      same(await db.select({ name: customers.name }).from(customers).where(eq(customers.id, c.id)), [{ name: c.name }])
      same(await other.select({ name: customers.name }).from(customers).where(eq(customers.id, c.id)), [{ name: c.name }])
    }
  })
  same((await db.update(customers).set({ tags: ['again'] })).rowCount, 20)
})

await pool.end()
await client.end({ timeout: 5 })
done()
