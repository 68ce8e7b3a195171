// Knex: migrations, the query builder, transactions, streams, batchInsert.
import { randomUUID } from 'node:crypto'
import Knex from 'knex'
import { check, declare, done, eventually, fails, restart, same } from './check.js'
import { customers, facts, items, orders, products, server, tables, tls, users } from './app.js'

const knex = Knex({ client: 'pg', connection: { ...server, ssl: tls }, pool: { min: 0, max: 5 } })

// Migrations as they would be in files.
const migrations = {
  '001_shop': {
    async up(k) {
      await k.schema.createTable('products', (t) => {
        t.increments()
        t.text('name').notNullable().unique()
        t.decimal('price', 10, 2).notNullable()
      })
      await k.schema.createTable('customers', (t) => {
        t.bigIncrements()
        t.string('name', 100).notNullable()
        t.specificType('country', 'char(2)').notNullable()
        t.specificType('tags', 'text[]').notNullable().defaultTo('{}')
        t.timestamps(true, true)
      })
      await k.schema.createTable('orders', (t) => {
        t.bigIncrements()
        t.bigInteger('customer_id').notNullable().references('customers.id').onDelete('cascade')
        t.enu('status', ['new', 'paid', 'shipped', 'cancelled'], { useNative: true, enumName: 'order_status' }).notNullable().defaultTo('new')
        t.decimal('total', 12, 2).notNullable().defaultTo(0)
        t.jsonb('note')
        t.timestamp('placed_at').notNullable().defaultTo(k.fn.now()).index()
        t.unique(['customer_id', 'id'])
      })
      await k.schema.createTable('items', (t) => {
        t.bigIncrements()
        t.bigInteger('customer_id').notNullable()
        t.bigInteger('order_id').notNullable()
        t.integer('product_id').notNullable().references('products.id')
        t.integer('quantity').notNullable()
        t.decimal('price', 10, 2).notNullable()
        t.foreign(['customer_id', 'order_id']).references(['customer_id', 'id']).inTable('orders').onDelete('cascade')
        t.check('?? > 0', ['quantity'], 'items_quantity')
      })
      await k.schema.createTable('users', (t) => {
        t.uuid('id').primary().defaultTo(k.fn.uuid())
        t.text('email').notNullable().unique()
        t.text('name').notNullable()
      })
    },
    down: (k) => k.schema.dropTable('users').dropTable('items').dropTable('orders').dropTable('customers').dropTable('products').raw('drop type order_status'),
  },
  '002_phone': {
    up: (k) => k.schema.alterTable('customers', (t) => t.string('phone').nullable().index()),
    down: (k) => k.schema.alterTable('customers', (t) => t.dropColumn('phone')),
  },
  '003_samples': {
    up: (k) =>
      k.schema.createTable('samples', (t) => {
        t.uuid('id').primary()
        t.json('j')
        t.binary('raw')
        t.double('f')
        t.date('d')
        t.timestamp('at', { precision: 3 })
        t.specificType('tags', 'text[]')
      }),
    down: (k) => k.schema.dropTable('samples'),
  },
}
// These run once there are sharded tables.
const later = {
  '004_vip': {
    up: (k) =>
      k.schema.alterTable('customers', (t) => {
        t.boolean('vip').notNullable().defaultTo(false)
        t.index(['country', 'vip'])
      }),
    down: (k) => k.schema.alterTable('customers', (t) => t.dropColumn('vip')),
  },
  '005_rename': {
    up: (k) => k.schema.alterTable('customers', (t) => t.renameColumn('phone', 'telephone')),
    down: (k) => k.schema.alterTable('customers', (t) => t.renameColumn('telephone', 'phone')),
  },
}
const source = (list) => ({ getMigrations: async () => Object.keys(list), getMigrationName: (n) => n, getMigration: async (n) => list[n] })

await check('connect', async () => same((await knex.raw('select current_user u')).rows, [{ u: server.user }]))

await check('migrate', async () => {
  same((await knex.migrate.latest({ migrationSource: source(migrations) }))[1].length, 3)
  same((await knex.migrate.rollback({ migrationSource: source(migrations) }))[1].length, 3)
  same((await knex.migrate.latest({ migrationSource: source(migrations) }))[1].length, 3)
  same(await knex.schema.hasTable('orders'), true)
  same(await knex.schema.hasColumn('customers', 'phone'), true)
})
await check('declare', async () => declare(...tables, 'samples=id'))

await check('seed', async () => {
  await knex('products').insert(products.map(({ name, price }) => ({ name, price })))
  for (const c of customers) await knex('customers').insert({ name: c.name, country: c.country })
  await knex.transaction(async (trx) => {
    for (const o of orders) {
      const [r] = await trx('orders').insert({ customer_id: o.customer_id, status: o.status, total: o.total }, ['id'])
      same(Number(r.id), o.id)
    }
  })
  const ids = await knex.batchInsert('items', items.map(({ id, ...i }) => i), 20).returning('id')
  same(ids.length, items.length)
  await knex('users').insert(users)
})

await check('migrate what is sharded', async () => {
  const all = source({ ...migrations, ...later })
  same((await knex.migrate.latest({ migrationSource: all }))[1], ['004_vip', '005_rename'])
  await knex.migrate.down({ migrationSource: all })
  await knex.migrate.up({ migrationSource: all })
  same(await knex('customers').where({ vip: false }).count({ n: '*' }), [{ n: '20' }])
  same(Object.keys(await knex('customers').columnInfo()).includes('telephone'), true)
})

await check('read', async () => {
  same(await knex('customers').first('name', 'country').where({ id: 7 }), { name: 'customer 7', country: 'fr' })
  same((await knex('users').where('email', 'user9@example.com').first()).name, 'user 9')
  same(await knex('customers').pluck('id').whereIn('id', [1, 5, 9]).orderBy('id'), ['1', '5', '9'])
  same((await knex('customers').whereNotIn('id', knex('orders').select('customer_id')).orderBy('id')).map((r) => r.id), ['4', '8', '12', '16', '20'])
  same((await knex('customers').whereExists(knex('orders').whereRaw('orders.customer_id = customers.id'))).length, 15)
})

await check('write', async () => {
  const [{ id }] = await knex('customers').insert({ name: 'tmp', country: 'it' }).returning('id')
  same(await knex('customers').where({ id }).update({ name: 'changed', tags: ['a', 'b'] }, ['name', 'tags']), [{ name: 'changed', tags: ['a', 'b'] }])
  same(await knex('customers').where({ id }).del(), 1)
  same(await knex('customers').where({ country: 'de' }).update({ vip: true }), 10)
  same(await knex('orders').increment('total', 0).where({ id: 1 }), 1)
  same(await knex('customers').update({ vip: false }), 20)
})

await check('upsert', async () => {
  same(await knex('users').insert({ email: 'user1@example.com', name: 'other' }).onConflict('email').merge().returning('name'), [{ name: 'other' }])
  await knex('users').insert({ email: 'user1@example.com', name: 'user 1' }).onConflict('email').merge(['name'])
  await knex('users').insert([{ email: 'user1@example.com', name: 'x' }, { email: 'user2@example.com', name: 'x' }]).onConflict('email').ignore()
  await knex('products').insert({ name: 'product 1', price: 9 }).onConflict('name').ignore()
  same(await knex('users').count('* as n'), [{ n: '20' }])
})

await check('joins', async () => {
  const r = await knex('items as i')
    .join('orders as o', (j) => j.on('o.id', 'i.order_id').andOn('o.customer_id', 'i.customer_id'))
    .join('customers as c', 'c.id', 'o.customer_id')
    .leftJoin('products as p', 'p.id', 'i.product_id')
    .where('c.id', 3)
    .orderBy('i.id')
    .select('i.id', { customer: 'c.name', product: 'p.name' })
  same(r.length, items.filter((i) => i.customer_id === 3).length)
  same(r[0].customer, 'customer 3')
  same((await knex('items as i').join('orders as o', 'o.id', 'i.order_id').select('i.id')).length, items.length)
  const u = await knex('customers').select('name').where('id', 1).union([knex('users').select('name').where('email', 'user2@example.com')]).orderBy('name')
  same(u, [{ name: 'customer 1' }, { name: 'user 2' }])
  const w = await knex.with('big', knex('orders').where('total', '>', 20)).from('big').count({ n: '*' })
  same(w, [{ n: String(orders.filter((o) => Number(o.total) > 20).length) }])
})

await check('pagination', async () => {
  const ids = []
  for (let page = 0; page < 4; page++) ids.push(...(await knex('customers').orderBy('id').limit(6).offset(page * 6).pluck('id')).map(Number))
  same(ids, customers.map((c) => c.id))
})

await check('aggregates', async () => {
  same(await knex('orders').count({ n: '*' }).sum({ total: 'total' }), [{ n: String(facts.orders), total: facts.total }])
  const by = await knex('orders').select('status').count({ n: '*' }).sum({ total: 'total' }).groupBy('status').orderBy('status')
  same(by.map((r) => ({ ...r, n: Number(r.n) })), facts.byStatus)
  const best = await knex('customers as c').leftJoin('orders as o', 'o.customer_id', 'c.id').select('c.id')
    .select(knex.raw('coalesce(sum(o.total), 0.00) as spent')).groupBy('c.id').orderBy([{ column: 'spent', order: 'desc' }, { column: 'c.id' }]).limit(3)
  same(best.map((r) => ({ ...r, id: Number(r.id) })), facts.best)
  same(await knex('customers').countDistinct({ n: 'country' }), [{ n: '2' }])
  same((await knex('orders').select('id').rank('r', 'total').orderBy('id')).length, facts.orders)
  same((await knex('orders').groupBy('customer_id').having(knex.raw('count(*)'), '>', 2).select('customer_id')).length, 5)
})

await check('transactions', async () => {
  await fails('22012', () =>
    knex.transaction(async (trx) => {
      await trx('customers').whereIn('id', [1, 2, 3]).update({ country: 'xx' })
      await trx.raw('select 1/0')
    }),
  )
  same(await knex('customers').where({ country: 'xx' }), [])
  await knex.transaction(
    async (trx) => {
      same((await trx('customers').whereIn('id', [1, 2]).forUpdate()).length, 2)
      // A nested transaction is a savepoint.
      await trx
        .transaction(async (sp) => {
          await sp('customers').whereIn('id', [5, 6]).update({ country: 'yy' })
          await sp('users').insert({ email: 'user1@example.com', name: 'twice' })
        })
        .catch((e) => same(e.code, '23505'))
      await trx.transaction((sp) => sp('customers').where({ id: 1 }).update({ vip: true }))
    },
    { isolationLevel: 'repeatable read' },
  )
  same(await knex('customers').where({ country: 'yy' }), [])
  same(await knex('customers').where({ vip: true }).update({ vip: false }), 1)
  const trx = await knex.transaction()
  same((await trx('customers').whereIn('id', [2, 3]).forUpdate().skipLocked()).length, 2)
  await fails('55P03', () => knex('customers').where({ id: 2 }).forUpdate().noWait())
  await trx.rollback()
  same(trx.isCompleted(), true)
})

await check('stream', async () => {
  let n = 0
  for await (const r of knex('items').orderBy('id').stream({ batchSize: 7, highWaterMark: 7 })) if (Number(r.id) === ++n) continue
  same(n, items.length)
})

await check('types', async () => {
  const row = { id: randomUUID(), j: { a: [1, null] }, raw: Buffer.from([0, 255]), f: -2.25, at: new Date('2024-02-29T12:00:00.123Z'), tags: ['a', 'b,c'] }
  await knex('samples').insert(row)
  same(await knex('samples').where({ id: row.id }).first(Object.keys(row)), row)
  await knex('orders').where({ id: 1 }).update({ note: { gift: { wrap: 'red' } } })
  same((await knex('orders').whereJsonPath('note', '$.gift.wrap', '=', 'red').select('id')).map((r) => r.id), ['1'])
  same((await knex('orders').whereJsonSupersetOf('note', { gift: {} }).jsonExtract('note', '$.gift.wrap', 'w')).map((r) => r.w), ['red'])
})

await check('errors and timeouts', async () => {
  same((await fails('23505', () => knex('users').insert({ email: 'user2@example.com', name: 'x' }))).constraint, 'users_email_unique')
  await fails('23503', () => knex('orders').insert({ customer_id: 999999 }))
  await fails('23502', () => knex('customers').insert({ country: 'de' }))
  await fails('23514', () => knex('items').where({ customer_id: 3 }).update({ quantity: 0 }))
  await fails('42703', () => knex('customers').select('nothing'))
  const e = await knex.raw('select pg_sleep(10)').timeout(500, { cancel: true }).catch((x) => x)
  same(e.name, 'KnexTimeoutError')
  same((await knex.raw('select 1 one')).rows, [{ one: 1 }])
})

await check('many clients', async () => {
  await Promise.all(
    Array.from({ length: 200 }, async (_, n) => same((await knex('customers').where({ id: (n % 20) + 1 }).first('name')).name, `customer ${(n % 20) + 1}`)),
  )
})

await check('truncate', async () => {
  await knex('samples').truncate()
  same(await knex('samples').count({ n: '*' }), [{ n: '0' }])
})

await check('reconnect after a restart', async () => {
  restart()
  await eventually(async () => {
    for (const c of customers) same((await knex('customers').where({ id: c.id }).first('name')).name, c.name)
  })
  same(await knex('customers').update({ tags: ['again'] }), 20)
})

await knex.destroy()
done()
