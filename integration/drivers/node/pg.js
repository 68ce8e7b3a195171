// node-postgres: client and pool, cursors, streams, COPY.
import { randomUUID } from 'node:crypto'
import { pipeline } from 'node:stream/promises'
import { Readable } from 'node:stream'
import pg from 'pg'
import copy from 'pg-copy-streams'
import Cursor from 'pg-cursor'
import QueryStream from 'pg-query-stream'
import { check, declare, done, eventually, fails, restart, same, sleep } from './check.js'
import { customers, facts, items, orders, products, schema, server, tables, tls, users } from './app.js'

const config = { ...server, ssl: tls, enableChannelBinding: true }
const pool = new pg.Pool({ ...config, max: 5 })
pool.on('error', () => {}) // of idle clients, when a server restarts
const q = (text, values) => pool.query(text, values)
const rows = async (text, values) => (await q(text, values)).rows

// using lends one client of the pool.
async function using(run) {
  const c = await pool.connect()
  try {
    return await run(c)
  } finally {
    c.release()
  }
}

await check('connect', async () => {
  const c = new pg.Client(config)
  await c.connect()
  same(c.connection.stream.encrypted, true, 'encrypted')
  same((await c.query('select current_user u, current_database() d')).rows, [{ u: server.user, d: server.database }])
  await c.end()
})

await check('connect, wrong password', () => fails('28P01', () => new pg.Client({ ...config, password: 'wrong' }).connect()))
await check('connect, no such database', () => fails('3D000', () => new pg.Client({ ...config, database: 'nowhere' }).connect()))

await check('connect, settings of the startup', async () => {
  const c = new pg.Client({ ...config, application_name: 'shop', options: '-c work_mem=7MB', statement_timeout: 12345 })
  await c.connect()
  same((await c.query("select current_setting('application_name') a, current_setting('work_mem') w, current_setting('statement_timeout') t")).rows, [
    { a: 'shop', w: '7MB', t: '12345ms' },
  ])
  await c.end()
})

await check('migrate', () => q(`begin; ${schema}; commit`))
await check('declare', async () => declare(...tables, 'samples=id'))

await check('seed', async () => {
  for (const p of products) await q('insert into products (name, price) values ($1, $2)', [p.name, p.price])
  for (const c of customers) {
    const [r] = await rows('insert into customers (name, country) values ($1, $2) returning id', [c.name, c.country])
    same(r.id, String(c.id), 'id')
  }
  await using(async (c) => {
    await c.query('begin')
    for (const o of orders) {
      await c.query('insert into orders (customer_id, status, total) values ($1, $2, $3)', [o.customer_id, o.status, o.total])
    }
    await c.query('commit')
  })
  // Bulk: one statement of many rows, then one of arrays.
  await q(
    `insert into items (customer_id, order_id, product_id, quantity, price)
     select * from unnest($1::bigint[], $2::bigint[], $3::int[], $4::int[], $5::numeric[])`,
    ['customer_id', 'order_id', 'product_id', 'quantity', 'price'].map((k) => items.map((i) => i[k])),
  )
  const values = users.flatMap((u) => [u.email, u.name])
  const r = await q(`insert into users (email, name) values ${users.map((_, i) => `($${2 * i + 1}, $${2 * i + 2})`)}`, values)
  same(r.rowCount, users.length, 'rows')
})

await check('read one', async () => {
  same(await rows('select id, name, country from customers where id = $1', [7]), [{ id: '7', name: 'customer 7', country: 'fr' }])
  same((await rows('select name from users where email = $1', ['user9@example.com']))[0].name, 'user 9')
  same(await rows('select * from users where email = $1', ['nobody@example.com']), [])
})

await check('update and delete', async () => {
  const [{ id }] = await rows("insert into customers (name, country) values ('tmp', 'it') returning id")
  same((await q('update customers set name = $2, tags = $3 where id = $1', [id, 'changed', ['a', 'b']])).rowCount, 1)
  same(await rows('select name, tags from customers where id = $1', [id]), [{ name: 'changed', tags: ['a', 'b'] }])
  same((await q('delete from customers where id = $1', [id])).rowCount, 1)
  same((await q('delete from customers where id = $1', [id])).rowCount, 0)
})

await check('update over shards', async () => {
  same((await q("update customers set tags = array_append(tags, 'x') where country = 'de'")).rowCount, 10)
  same((await q("update customers set tags = '{}' where 'x' = any(tags)")).rowCount, 10)
})

await check('upsert', async () => {
  const up = 'insert into users (email, name) values ($1, $2) on conflict (email) do update set name = excluded.name returning name'
  same(await rows(up, ['user1@example.com', 'renamed']), [{ name: 'renamed' }])
  same(await rows(up, ['user1@example.com', 'user 1']), [{ name: 'user 1' }])
  same((await q("insert into products (name, price) values ('product 1', 3) on conflict do nothing")).rowCount, 0)
  same((await rows('select count(*)::int n from users'))[0].n, 20)
})

await check('joins', async () => {
  const r = await rows(
    `select o.id, c.name customer, p.name product, i.quantity
     from customers c join orders o on o.customer_id = c.id
     join items i on i.order_id = o.id and i.customer_id = o.customer_id join products p on p.id = i.product_id
     where c.id = $1 order by o.id, i.id`,
    [3],
  )
  same(r.length, items.filter((i) => i.customer_id === 3).length, 'rows')
  same(r[0].customer, 'customer 3')
  const all = await rows('select i.id from orders o join items i on i.order_id = o.id join customers c on c.id = i.customer_id order by i.id')
  same(all.map((x) => Number(x.id)), items.map((i) => i.id))
  const none = await rows('select c.id from customers c left join orders o on o.customer_id = c.id where o.id is null order by c.id')
  same(none.map((x) => x.id), ['4', '8', '12', '16', '20'])
})

await check('pagination', async () => {
  const pages = []
  for (let page = 0; page < 4; page++) pages.push(...(await rows('select id from customers order by id limit $1 offset $2', [6, page * 6])))
  same(pages.map((r) => Number(r.id)), customers.map((c) => c.id))
  let after = 0
  const seen = []
  for (;;) {
    const r = await rows('select id from orders where id > $1 order by id limit 7', [after])
    if (!r.length) break
    seen.push(...r.map((x) => Number(x.id)))
    after = r.at(-1).id
  }
  same(seen, orders.map((o) => o.id))
})

await check('aggregates', async () => {
  same(await rows('select count(*)::int n, sum(total) total from orders'), [{ n: facts.orders, total: facts.total }])
  same(await rows('select status, count(*)::int n, sum(total) total from orders group by status order by status'), facts.byStatus)
  const best = await rows(
    `select c.id::int, coalesce(sum(o.total), 0.00) spent from customers c left join orders o on o.customer_id = c.id
     group by c.id order by 2 desc, 1 limit 3`,
  )
  same(best, facts.best)
  const [w] = await rows('select id::int, rank() over (order by total desc, id) r from orders order by r limit 1')
  same(w.r, '1')
  const [g] = await rows("select count(distinct country)::int c, string_agg(distinct country, ',' order by country) s from customers")
  same(g, { c: 2, s: 'de,fr' })
})

await check('transaction, commit and rollback', async () => {
  await using(async (c) => {
    await c.query('begin')
    await c.query("update customers set country = 'xx' where id in (1, 2, 3)")
    same((await c.query("select count(*)::int n from customers where country = 'xx'")).rows[0].n, 3)
    await c.query('rollback')
    same((await c.query("select count(*)::int n from customers where country = 'xx'")).rows[0].n, 0)
    await c.query('begin isolation level repeatable read')
    for (const id of [1, 2, 3]) await c.query('update customers set tags = $2 where id = $1', [id, ['t']])
    await c.query('commit')
  })
  same((await rows("select count(*)::int n from customers where tags = '{t}'"))[0].n, 3)
  await q("update customers set tags = '{}'")
})

await check('transaction, savepoints', async () => {
  await using(async (c) => {
    await c.query('begin')
    await c.query("insert into users (email, name) values ('sp@example.com', 'one')")
    await c.query('savepoint a')
    await fails('23505', () => c.query("insert into users (email, name) values ('sp@example.com', 'two')"))
    await fails('25P02', () => c.query('select 1'))
    await c.query('rollback to savepoint a')
    await c.query('savepoint b')
    await c.query("update customers set country = 'yy' where id in (5, 6)")
    await c.query('rollback to b')
    await c.query('release a')
    await c.query("delete from users where email = 'sp@example.com'")
    await c.query('commit')
  })
  same((await rows("select count(*)::int n from customers where country = 'yy'"))[0].n, 0)
})

await check('transaction, read only and locks', async () => {
  await using(async (c) => {
    await c.query('begin read only')
    await fails('25006', () => c.query("update customers set name = 'x' where id = 1"))
    await c.query('rollback')
    await c.query('begin')
    same((await c.query('select id from customers where id in (1, 2) order by id for update')).rows.length, 2)
    await using(async (d) => {
      await fails('55P03', () => d.query('select id from customers where id = 2 for update nowait'))
      same((await d.query('select id from customers where id in (2, 3) order by id for update skip locked')).rows, [{ id: '3' }])
    })
    await c.query('commit')
  })
})

await check('cursor', async () => {
  await using(async (c) => {
    const cur = c.query(new Cursor('select id from items order by id'))
    const got = []
    for (;;) {
      const r = await cur.read(7)
      if (!r.length) break
      got.push(...r.map((x) => Number(x.id)))
    }
    await cur.close()
    same(got, items.map((i) => i.id))
    const early = c.query(new Cursor('select * from orders where customer_id = $1', [3]))
    same((await early.read(1)).length, 1)
    await early.close()
    same((await c.query('select 1 one')).rows, [{ one: 1 }])
  })
})

await check('cursor, DECLARE', async () => {
  await using(async (c) => {
    await c.query('begin')
    await c.query('declare cur scroll cursor for select id from orders order by id')
    same((await c.query('fetch 3 from cur')).rows.map((r) => r.id), ['1', '2', '3'])
    same((await c.query('fetch backward 1 from cur')).rows.map((r) => r.id), ['2'])
    await c.query('move last in cur')
    same((await c.query('fetch next from cur')).rows, [])
    await c.query('close cur')
    await c.query('commit')
  })
})

await check('stream', async () => {
  await using(async (c) => {
    let n = 0
    for await (const r of c.query(new QueryStream('select i.*, c.name from items i join customers c on c.id = i.customer_id', [], { batchSize: 5 }))) {
      if (r.name) n++
    }
    same(n, items.length)
  })
})

await check('prepared statements', async () => {
  await using(async (c) => {
    for (let n = 0; n < 200; n++) {
      const id = (n % 20) + 1
      same((await c.query({ name: 'by-id', text: 'select name from customers where id = $1', values: [id] })).rows[0].name, `customer ${id}`)
      const r = await c.query({ name: 'sum', text: 'select count(*)::int n from orders where customer_id = any($1)', values: [[id, 1]] })
      same(r.rows[0].n, id === 1 ? 1 : (id % 4) + 1)
    }
  })
  // The same names on every client of the pool at once.
  await Promise.all(
    Array.from({ length: 100 }, async (_, n) => {
      const r = await pool.query({ name: 'by-mail', text: 'select name from users where email = $1', values: [`user${(n % 20) + 1}@example.com`] })
      same(r.rows[0].name, `user ${(n % 20) + 1}`)
    }),
  )
})

const sample = {
  id: randomUUID(), b: true, i2: -2, i4: 42, i8: '9007199254740993', f4: 1.5, f8: -2.25, num: '12345678901234567890.0123456789', t: "é 'quote' \\ \n",
  vc: 'short', raw: Buffer.from([0, 1, 255]), d: '2024-02-29', tm: '23:59:58.123', ts: '2024-02-29 12:00:00', tstz: new Date('2024-02-29T12:00:00.123Z'),
  iv: '1 day 02:03:04', j: JSON.stringify({ a: [1, null] }), jb: { k: 'v', n: 1.5 }, i4s: [1, null, 3], ts_: ['a', 'b,c', '"q"', null], nums: [1.5, 2],
  uuids: [randomUUID()], st: 'paid', sts: '{new,shipped}', addr: '("Main, St",5,Bern)', ip: '10.0.0.1', r: '[1,5)',
}

await check('types, text', async () => {
  const names = Object.keys(sample)
  await q(`insert into samples (${names}) values (${names.map((_, i) => `$${i + 1}`)})`, Object.values(sample))
  const [r] = await rows('select *, d::text d, ts::text ts, iv::text iv from samples where id = $1', [sample.id])
  same(r, { ...sample, j: { a: [1, null] } })
  same(await rows('select (addr).city, addr.number n from samples, lateral (select (addr).number) addr where id = $1', [sample.id]), [{ city: 'Bern', n: 5 }])
})

// pg decodes binary rows as UTF-8 first, so only values without high bytes survive.
await check('types, binary', async () => {
  const id = randomUUID()
  await q({ text: 'insert into samples (id, b, i2, i4, i8, t, i4s) values ($1, $2, $3, $4, $5, $6, $7)', values: [id, true, 2, 42, '77', 'é', [1, 2]], binary: true })
  same((await q({ text: 'select b, i2, i4, i8, t, i4s from samples where id = $1', values: [id], binary: true })).rows, [
    { b: true, i2: 2, i4: 42, i8: '77', t: 'é', i4s: [1, 2] },
  ])
  same((await q({ text: 'select id, customer_id, status from orders order by id limit 2', binary: true })).rows, [
    { id: '1', customer_id: '1', status: 'new' },
    { id: '2', customer_id: '2', status: 'new' },
  ])
})

await check('errors', async () => {
  const e = await fails('23505', () => q("insert into users (email, name) values ('user2@example.com', 'x')"))
  same([e.table, e.constraint, e.severity], ['users', 'users_email_key', 'ERROR'])
  same((await fails('23503', () => q('insert into orders (customer_id) values (999999)'))).constraint, 'orders_customer_id_fkey')
  same((await fails('23502', () => q('insert into customers (country) values ($1)', ['de']))).column, 'name')
  same((await fails('23514', () => q('update items set quantity = 0 where customer_id = 3'))).constraint, 'items_quantity_check')
  same((await fails('23503', () => q('delete from products where id = 1'))).table, 'items')
  await fails('22P02', () => q('select * from customers where id = $1', ['abc']))
  await fails('42P01', () => q('select * from nowhere'))
  same((await fails('42703', () => q('select nothing from customers'))).position, '8')
  await fails('42601', () => q('selec 1'))
  await fails('22012', () => q('select id / (id - id) from customers'))
  await fails('22001', () => q('insert into customers (name, country) values ($1, $2)', ['x', 'too long']))
})

await check('timeout', async () => {
  await using(async (c) => {
    await c.query('set statement_timeout = 200')
    await fails('57014', () => c.query('select pg_sleep(5)'))
    await fails('57014', () => c.query('select c.id, pg_sleep(5) from customers c'))
    await c.query('reset statement_timeout')
    same((await c.query('select 1 one')).rows, [{ one: 1 }])
    await c.query('begin')
    await c.query("set local lock_timeout = '100ms'")
    await using(async (d) => {
      await d.query('begin')
      await d.query('update customers set name = name where id = 1')
      await fails('55P03', () => c.query('update customers set name = name where id = 1'))
      await d.query('rollback')
    })
    await c.query('rollback')
  })
})

await check('cancel', async () => {
  for (const text of ['select pg_sleep(20)', 'select id, pg_sleep(20) from customers', 'select pg_sleep(20) from customers where id = 3']) {
    const c = new pg.Client(config)
    await c.connect()
    let over = false
    const running = fails('57014', () => c.query(text)).finally(() => (over = true))
    while (!over) {
      await sleep(200) // until it runs
      same(await rows('select pg_cancel_backend($1) ok', [c.processID]), [{ ok: true }])
    }
    await running
    same((await c.query('select 1 one')).rows, [{ one: 1 }])
    await c.end()
  }
})

await check('LISTEN and NOTIFY', async () => {
  const c = new pg.Client(config)
  await c.connect()
  const got = []
  c.on('notification', (m) => got.push([m.channel, m.payload]))
  await c.query('listen news')
  await q("notify news, 'one'")
  await q("select pg_notify('news', $1)", ['two'])
  await using(async (d) => {
    await d.query('begin')
    await d.query("notify news, 'lost'")
    await d.query('rollback')
  })
  await c.query("notify news, 'self'")
  for (let n = 0; n < 50 && got.length < 3; n++) await sleep(50)
  same(got, [['news', 'one'], ['news', 'two'], ['news', 'self']])
  await c.query('unlisten *')
  await c.end()
})

await check('batch of statements in one text', async () => {
  const r = await q("select 1 a; select count(*)::int n from customers; update customers set name = name where id = 4; select 'z' z")
  same(r.map((x) => [x.command, x.rowCount]), [['SELECT', 1], ['SELECT', 1], ['UPDATE', 1], ['SELECT', 1]])
  same(r[1].rows, [{ n: 20 }])
  await fails('22012', () => q("update customers set name = 'broken' where id = 4; select 1/0"))
  same((await rows('select name from customers where id = 4'))[0].name, 'customer 4')
})

await check('queued queries of one client', async () => {
  await using(async (c) => {
    const r = await Promise.all(customers.map((x) => c.query('select name from customers where id = $1', [x.id])))
    same(r.map((x) => x.rows[0].name), customers.map((x) => x.name))
  })
})

await check('pipeline', async () => {
  const c = new pg.Client({ ...config, pipelining: true })
  await c.connect()
  c.pipelining = true
  const all = await Promise.allSettled([
    ...customers.map((x) => c.query('select name from customers where id = $1', [x.id])),
    c.query('select 1/0'),
    c.query('select count(*)::int n from orders'),
  ])
  same(all.slice(0, 20).map((x) => x.value.rows[0].name), customers.map((x) => x.name))
  same(all[20].reason?.code, '22012')
  same(all[21].value?.rows, [{ n: facts.orders }])
  await c.end()
})

await check('COPY in and out', async () => {
  await using(async (c) => {
    const lines = Array.from({ length: 2000 }, (_, i) => `copied${i}@example.com\tname ${i}\n`)
    await pipeline(Readable.from(lines), c.query(copy.from('copy users (email, name) from stdin')))
    same((await c.query("select count(*)::int n from users where email like 'copied%'")).rows[0].n, 2000)
    const out = c.query(copy.to("copy (select email from users where email like 'copied1%' order by email) to stdout with (format csv)"))
    let text = ''
    for await (const chunk of out) text += chunk
    same(text.trim().split('\n').length, 1111)
    let table = ''
    for await (const chunk of c.query(copy.to('copy products to stdout'))) table += chunk
    same(table.split('\n').length, products.length + 1)
    await fails('23505', () => pipeline(Readable.from(['fresh@example.com\tx\n', 'user3@example.com\tx\n']), c.query(copy.from('copy users (email, name) from stdin'))))
    same((await c.query("delete from users where email like 'copied%' or email like 'fresh%'")).rowCount, 2000)
  })
})

await check('session state', async () => {
  const c = new pg.Client(config)
  await c.connect()
  await c.query("set time zone 'America/New_York'; set search_path = public, pg_catalog")
  await c.query('create temporary table basket (id int, n int)')
  await c.query('insert into basket values (1, 2), (3, 4)')
  same((await c.query('select c.name, b.n from basket b join customers c on c.id = b.id order by 1')).rows, [{ name: 'customer 1', n: 2 }, { name: 'customer 3', n: 4 }])
  same((await c.query('show time zone')).rows, [{ TimeZone: 'America/New_York' }])
  await c.end()
  await fails('42P01', () => q('select * from basket'))
})

await check('many clients', async () => {
  const wide = new pg.Pool({ ...config, max: 20 })
  await Promise.all(
    Array.from({ length: 200 }, async (_, n) => {
      const id = (n % 20) + 1
      const r = await wide.query('select c.name, count(o.id)::int n from customers c left join orders o on o.customer_id = c.id where c.id = $1 group by c.name', [id])
      same(r.rows, [{ name: `customer ${id}`, n: id % 4 }])
    }),
  )
  await wide.end()
})

await check('reconnect after a restart', async () => {
  const before = (await rows('select count(*)::int n from customers'))[0].n
  restart()
  await eventually(async () => {
    for (const c of customers) same((await rows('select name from customers where id = $1', [c.id]))[0].name, c.name)
    same((await rows('select count(*)::int n from customers'))[0].n, before)
  })
  await q("update customers set tags = '{again}'")
})

await pool.end()
done()
