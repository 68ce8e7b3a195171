// node migrate.js           what Drizzle has to migrate
// node migrate.js weft.sql  a file that must not run inside a transaction, as Drizzle's migrations do
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { drizzle } from 'drizzle-orm/node-postgres'
import { migrate } from 'drizzle-orm/node-postgres/migrator'
import pg from 'pg'

const here = dirname(process.argv[1])
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 1 })
const file = process.argv[2]
if (file) await pool.query(readFileSync(join(here, file), 'utf8'))
else await migrate(drizzle(pool), { migrationsFolder: join(here, 'drizzle') })
await pool.end()
