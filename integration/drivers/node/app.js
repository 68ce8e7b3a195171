// The application's connection and rows, the same for every suite.
import { readFileSync } from 'node:fs'

const env = process.env
const require = { mode: env.PGSSLMODE, root: env.PGSSLROOTCERT }

// tls is what node's TLS wants to know: verify against the root if there is one.
export const tls =
  require.mode === 'disable' || !require.mode
    ? false
    : require.root
      ? { ca: readFileSync(require.root), rejectUnauthorized: true, checkServerIdentity: () => undefined }
      : { rejectUnauthorized: false }

export const server = {
  host: env.PGHOST,
  port: Number(env.PGPORT),
  user: env.PGUSER,
  password: env.PGPASSWORD,
  database: env.PGDATABASE,
}

export const schema = readFileSync('../schema.sql', 'utf8')

export const tables = [
  'products=reference',
  'customers=id',
  'orders=customer_id',
  'items=customer_id',
  'users=id', // the unique email gets a lookup by itself
]

// Customer i of 20 has i mod 4 orders, order k of them 1 + k items.
export const products = Array.from({ length: 10 }, (_, i) => ({ id: i + 1, name: `product ${i + 1}`, price: `${i + 1}.50` }))
export const customers = Array.from({ length: 20 }, (_, i) => ({ id: i + 1, name: `customer ${i + 1}`, country: i % 2 ? 'de' : 'fr' }))
export const users = Array.from({ length: 20 }, (_, i) => ({ email: `user${i + 1}@example.com`, name: `user ${i + 1}` }))
export const orders = []
export const items = []
for (const c of customers) {
  for (let k = 0; k < c.id % 4; k++) {
    const order = { id: orders.length + 1, customer_id: c.id, status: ['new', 'paid', 'shipped'][k], total: '0' }
    let cents = 0
    for (let n = 0; n <= k; n++) {
      const p = products[(c.id + n) % 10]
      items.push({ id: items.length + 1, customer_id: c.id, order_id: order.id, product_id: p.id, quantity: n + 1, price: p.price })
      cents += (n + 1) * Math.round(Number(p.price) * 100)
    }
    order.total = (cents / 100).toFixed(2)
    orders.push(order)
  }
}

// sum adds decimals as the server would.
export const sum = (values) => (values.reduce((s, v) => s + Math.round(Number(v) * 100), 0) / 100).toFixed(2)

// What the checks expect of the rows above.
export const facts = {
  orders: orders.length,
  items: items.length,
  total: sum(orders.map((o) => o.total)),
  byStatus: ['new', 'paid', 'shipped'].map((s) => {
    const of = orders.filter((o) => o.status === s)
    return { status: s, n: of.length, total: sum(of.map((o) => o.total)) }
  }),
  // The three customers that spent most, then by id.
  best: customers
    .map((c) => ({ id: c.id, spent: sum(orders.filter((o) => o.customer_id === c.id).map((o) => o.total)) }))
    .sort((a, b) => Number(b.spent) - Number(a.spent) || a.id - b.id)
    .slice(0, 3),
}
