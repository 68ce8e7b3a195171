// postgres.js: tagged templates, implicit pipelining, cursors, COPY, listen.
import { randomUUID } from 'node:crypto'
import { pipeline } from 'node:stream/promises'
import { Readable } from 'node:stream'
import postgres from 'postgres'
import { check, declare, done, eventually, fails, restart, same, sleep } from './check.js'
import { customers, facts, items, orders, products, schema, server, tables, tls, users } from './app.js'

const config = { ...server, username: server.user, ssl: tls, max: 5, onnotice: () => {} }
const sql = postgres(config)

await check('connect', async () => {
  const s = postgres({ ...config, max: 1, connection: { application_name: 'shop', work_mem: '7MB' } })
  same([...(await s`select current_user u, current_setting('application_name') a, current_setting('work_mem') w`)], [{ u: server.user, a: 'shop', w: '7MB' }])
  await s.end()
  const wrong = postgres({ ...config, max: 1, password: 'wrong' })
  await fails('28P01', () => wrong`select 1`)
})

await check('migrate', () => sql.begin((tx) => tx.unsafe(schema)))
await check('declare', async () => declare(...tables, 'samples=id'))

await check('seed', async () => {
  await sql`insert into products ${sql(products, 'name', 'price')}`
  const made = await sql`insert into customers ${sql(customers, 'name', 'country')} returning id, name`
  same(made.length, 20)
  same(made.map((r) => Number(r.id)).sort((a, b) => a - b), customers.map((c) => c.id))
  // Not awaited one by one: postgres.js sends them in one go.
  await sql.begin(async (tx) => {
    for (const o of orders) await tx`insert into orders (customer_id, status, total) values (${o.customer_id}, ${o.status}, ${o.total})`
  })
  await sql.begin((tx) => items.map((i) => tx`insert into items ${tx(i, 'customer_id', 'order_id', 'product_id', 'quantity', 'price')}`))
  await sql`insert into users (email, name) select * from unnest(${users.map((u) => u.email)}::text[], ${users.map((u) => u.name)}::text[])`
})

// ids by name: rows made in one statement may have got theirs in any order.
const of = {}
await check('read one', async () => {
  for (const r of await sql`select id, name from customers`) of[r.name] = r.id
  const id = of['customer 7']
  same([...(await sql`select name, country from customers where id = ${id}`)], [{ name: 'customer 7', country: 'fr' }])
  same((await sql`select name from users where email = ${'user9@example.com'}`)[0].name, 'user 9')
  const [none] = await sql`select * from users where email = ${'nobody'}`
  same(none, undefined)
})

await check('dynamic parts', async () => {
  const r = await sql`select ${sql('id', 'name')} from ${sql('customers')} where country = ${'de'} and id in ${sql([2, 4, 5])} order by ${sql('id')}`
  same(r.map((x) => x.id), ['2', '4'])
  const old = true
  same((await sql`select count(*)::int n from customers ${old ? sql`where country = 'fr'` : sql``}`)[0].n, 10)
})

await check('update and delete', async () => {
  const [{ id }] = await sql`insert into customers ${sql({ name: 'tmp', country: 'it' })} returning *`
  const change = { name: 'changed', tags: ['a', 'b'] }
  same([...(await sql`update customers set ${sql(change)} where id = ${id} returning name, tags`)], [change])
  same((await sql`delete from customers where id = ${id}`).count, 1)
  same((await sql`update customers set name = name where country = 'de'`).count, 10)
})

await check('upsert', async () => {
  const rows = [{ email: 'user1@example.com', name: 'user 1' }, { email: 'new@example.com', name: 'new' }]
  const r = await sql`insert into users ${sql(rows)} on conflict (email) do update set name = excluded.name returning email`
  same(r.map((x) => x.email).sort(), ['new@example.com', 'user1@example.com'])
  same((await sql`delete from users where email = ${'new@example.com'}`).count, 1)
})

await check('joins', async () => {
  const all = await sql`
    select i.id, c.name, p.price from items i join orders o on o.id = i.order_id and o.customer_id = i.customer_id
    join customers c on c.id = o.customer_id join products p on p.id = i.product_id order by i.id`
  same(all.length, items.length)
  const one = await sql`
    select c.name, json_agg(json_build_object('id', o.id, 'total', o.total) order by o.id) orders
    from customers c join orders o on o.customer_id = c.id where c.id = 3 group by c.id, c.name`
  same([one[0].name, one[0].orders.length], ['customer 3', 3])
})

await check('pagination', async () => {
  const ids = []
  for (let page = 0; page < 4; page++) ids.push(...(await sql`select id from customers order by id limit ${6} offset ${page * 6}`).map((r) => Number(r.id)))
  same(ids, customers.map((c) => c.id))
})

await check('aggregates', async () => {
  same([...(await sql`select count(*)::int n, sum(total) total from orders`)], [{ n: facts.orders, total: facts.total }])
  same([...(await sql`select status, count(*)::int n, sum(total) total from orders group by status order by status`)], facts.byStatus)
  const best = await sql`select c.id::int, coalesce(sum(o.total), 0.00) spent from customers c left join orders o on o.customer_id = c.id group by c.id order by 2 desc, 1 limit 3`
  same([...best], facts.best)
})

await check('transactions', async () => {
  await fails('22012', () =>
    sql.begin(async (tx) => {
      await tx`update customers set country = 'xx' where id in (1, 2, 3)`
      await tx`select 1/0`
    }),
  )
  same((await sql`select count(*)::int n from customers where country = 'xx'`)[0].n, 0)
  await sql.begin('isolation level repeatable read', async (tx) => {
    for (const id of [1, 2, 3]) await tx`update customers set tags = ${['t']} where id = ${id}`
  })
  same((await sql`update customers set tags = '{}' where tags = '{t}'`).count, 3)
  await fails('25006', () => sql.begin('read only', (tx) => tx`delete from customers where id = 1`))
})

await check('savepoints', async () => {
  await sql.begin(async (tx) => {
    await tx`insert into users ${tx({ email: 'sp@example.com', name: 'sp' })}`
    await tx
      .savepoint(async (sp) => {
        await sp`update customers set country = 'yy' where id in (5, 6, 7)`
        await sp`insert into users ${sp({ email: 'sp@example.com', name: 'twice' })}`
      })
      .catch((e) => same(e.code, '23505'))
    await tx.savepoint('named', (sp) => sp`delete from users where email = 'sp@example.com'`)
  })
  same((await sql`select count(*)::int n from customers where country = 'yy'`)[0].n, 0)
  same((await sql`select count(*)::int n from users`)[0].n, 20)
})

await check('cursor', async () => {
  const got = []
  await sql`select id from items order by id`.cursor(7, (rows) => got.push(...rows.map((r) => Number(r.id))))
  same(got, items.map((i) => i.id))
  let n = 0
  for await (const rows of sql`select * from orders`.cursor(4)) if ((n += rows.length) >= 8) break
  same(n, 8)
  let each = 0
  await sql`select * from orders`.forEach(() => each++)
  same(each, orders.length)
})

await check('prepared statements', async () => {
  for (let n = 0; n < 200; n++) {
    const id = (n % 20) + 1
    same((await sql`select name from customers where id = ${id}`)[0].name, `customer ${id}`)
    same((await sql`select count(*)::int n from orders where customer_id = any(${[id, 1]}::bigint[])`)[0].n, id === 1 ? 1 : (id % 4) + 1)
  }
  await Promise.all(
    Array.from({ length: 200 }, async (_, n) => {
      same((await sql`select name from users where email = ${`user${(n % 20) + 1}@example.com`}`)[0].name, `user ${(n % 20) + 1}`)
    }),
  )
  const simple = postgres({ ...config, max: 2, prepare: false })
  for (const c of customers) same((await simple`select name from customers where id = ${c.id}`)[0].name, c.name)
  await simple.end()
})

await check('describe', async () => {
  const d = await sql`select id, total, status from orders where customer_id = ${1} and placed_at < ${new Date()}`.describe()
  same(d.columns.map((c) => c.name), ['id', 'total', 'status'])
  same(d.types, [20, 1184])
})

await check('types', async () => {
  const row = {
    id: randomUUID(), b: true, i2: -2, i4: 42, i8: '9007199254740993', f4: 1.5, f8: -2.25, num: '12345678901234567890.0123456789', t: "é 'quote' \\ \n",
    vc: 'short', raw: Buffer.from([0, 1, 255]), tm: '23:59:58.123', tstz: new Date('2024-02-29T12:00:00.123Z'), iv: '1 day 02:03:04', jb: { k: 'v', n: 1.5 },
    i4s: [1, null, 3], ts_: ['a', 'b,c', '"q"'], nums: ['1.10', '2'], uuids: [randomUUID()], st: 'paid', ip: '10.0.0.1', r: '[1,5)',
    addr: '("Main, St",5,Bern)', sts: ['new', 'shipped'],
  }
  await sql`insert into samples ${sql(row)}`
  const [got] = await sql`select ${sql(Object.keys(row))} from samples where id = ${row.id}`
  same(JSON.stringify(got), JSON.stringify(row)) // its arrays are no plain ones
  same((await sql`select (addr).city from samples where addr = ${row.addr}::address`)[0].city, 'Bern')
  same((await sql`select count(*)::int n from samples where ${'paid'} = st and jb @> ${sql.json({ k: 'v' })} and ts_ && ${['b,c']}`)[0].n, 1)
})

await check('errors', async () => {
  const e = await fails('23505', () => sql`insert into users ${sql({ email: 'user2@example.com', name: 'x' })}`)
  same([e.table_name, e.constraint_name, e.severity_local], ['users', 'users_email_key', 'ERROR'])
  await fails('23503', () => sql`insert into orders (customer_id) values (${999999})`)
  await fails('23502', () => sql`insert into customers (country) values ('de')`)
  await fails('23514', () => sql`update items set quantity = 0 where customer_id = 3`)
  await fails('22P02', () => sql`select * from customers where id = ${'abc'}`)
  await fails('42P01', () => sql`select * from nowhere`)
  await fails('42703', () => sql`select nothing from customers`)
  await fails('42601', () => sql`selec 1`)
})

await check('timeout and cancel', async () => {
  const s = postgres({ ...config, max: 1, connection: { statement_timeout: 300 } })
  await fails('57014', () => s`select pg_sleep(5)`)
  await fails('57014', () => s`select id, pg_sleep(5) from customers`)
  same((await s`select 1 one`)[0].one, 1)
  await s.end()
  for (const q of [sql`select pg_sleep(8)`, sql`select id, pg_sleep(8) from customers where id = 3`]) {
    const began = Date.now()
    const running = fails('57014', () => q)
    await sleep(1000)
    q.cancel()
    await running
    if (Date.now() - began > 7000) throw new Error('not cancelled')
  }
})

await check('LISTEN and NOTIFY', async () => {
  const got = []
  const sub = await sql.listen('news', (payload) => got.push(payload))
  await sql.notify('news', 'one')
  await sql`select pg_notify('news', ${'two'})`
  await sql.begin((tx) => tx`notify news, 'three'`)
  for (let n = 0; n < 50 && got.length < 3; n++) await sleep(50)
  same(got, ['one', 'two', 'three'])
  await sub.unlisten()
})

await check('pipelines', async () => {
  const s = postgres({ ...config, max: 1 })
  const r = await Promise.all(customers.map((c) => s`select name from customers where id = ${c.id}`))
  same(r.map((x) => x[0].name), customers.map((c) => c.name))
  const mixed = await Promise.allSettled([s`select 1 a`, s`select 1/0`, s`select count(*)::int n from orders`, s`select name from customers where id = ${3}`])
  same(mixed.map((x) => x.status), ['fulfilled', 'rejected', 'fulfilled', 'fulfilled'])
  same(mixed[2].value[0].n, facts.orders)
  const both = await s.begin((tx) => [tx`update customers set name = name where id = 1`, tx`update customers set name = name where id = 2`, tx`select count(*)::int n from customers`])
  same([both[0].count, both[1].count, both[2][0].n], [1, 1, 20])
  await s.end()
})

await check('several statements in one text', async () => {
  const r = await sql.unsafe('select 1 a; select count(*)::int n from orders; select name from customers where id = 3')
  same([r[0][0].a, r[1][0].n, r[2][0].name], [1, facts.orders, 'customer 3'])
})

await check('COPY in and out', async () => {
  const lines = Array.from({ length: 2000 }, (_, i) => `copied${i}@example.com\tname ${i}\n`)
  await pipeline(Readable.from(lines), await sql`copy users (email, name) from stdin`.writable())
  same((await sql`select count(*)::int n from users where email like 'copied%'`)[0].n, 2000)
  let text = ''
  for await (const chunk of await sql`copy (select email from users where email like 'copied1%') to stdout`.readable()) text += chunk
  same(text.trim().split('\n').length, 1111)
  same((await sql`delete from users where email like 'copied%'`).count, 2000)
})

await check('many clients', async () => {
  const wide = postgres({ ...config, max: 20 })
  await Promise.all(
    Array.from({ length: 300 }, async (_, n) => {
      const id = (n % 20) + 1
      const [r] = await wide`select c.name, count(o.id)::int n from customers c left join orders o on o.customer_id = c.id where c.id = ${id} group by c.name`
      same({ ...r }, { name: `customer ${id}`, n: id % 4 })
    }),
  )
  await wide.end()
})

await check('reserved connection', async () => {
  const c = await sql.reserve()
  try {
    await c`set time zone 'America/New_York'`
    await c`create temporary table basket (id int, n int)`
    await c`insert into basket ${c([{ id: 1, n: 2 }, { id: 3, n: 4 }])}`
    same((await c`select c.name, b.n from basket b join customers c on c.id = b.id order by 1`).length, 2)
    same((await c`show time zone`)[0].TimeZone, 'America/New_York')
    await c`discard all`
  } finally {
    c.release()
  }
})

await check('reconnect after a restart', async () => {
  restart()
  await eventually(async () => {
    for (const c of customers) same((await sql`select name from customers where id = ${c.id}`)[0].name, c.name)
  })
  same((await sql`update customers set tags = '{again}'`).count, 20)
})

await sql.end({ timeout: 5 })
done()
