// A day of three tenants. Each step prints one line.
import { and, asc, count, countDistinct, eq, sql, sum } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import pg from 'pg'
import * as schema from './schema.js'

const { tenants, users, projects, tasks } = schema
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 5 })
const db = drizzle(pool, { schema })
const say = (what, answer) => console.log(`ok ${what}: ${JSON.stringify(answer)}`)

const signUp = (name, email, user) =>
  db.transaction(async (tx) => {
    const [t] = await tx.insert(tenants).values({ name }).returning()
    await tx.insert(users).values({ tenantId: t.id, email, name: user })
    return t.id
  })

const startProject = (tenantId, title, ...names) =>
  db.transaction(async (tx) => {
    const owner = await tx.query.users.findFirst({ where: eq(users.tenantId, tenantId) })
    const [p] = await tx.insert(projects).values({ tenantId, title, ownerId: owner.id }).returning()
    await tx.insert(tasks).values(names.map((name) => ({ tenantId, projectId: p.id, title: name })))
    return p.id
  })

const openTasks = async (tenantId) =>
  (await db.select({ title: tasks.title }).from(tasks).where(and(eq(tasks.tenantId, tenantId), eq(tasks.state, 'open'))).orderBy(tasks.title)).map((t) => t.title)

const report = () =>
  db.select({ name: tenants.name, projects: countDistinct(projects.id), tasks: count(tasks.id), hours: sum(tasks.hours) })
    .from(tenants).leftJoin(projects, eq(projects.tenantId, tenants.id)).leftJoin(tasks, and(eq(tasks.tenantId, projects.tenantId), eq(tasks.projectId, projects.id)))
    .groupBy(tenants.id).orderBy(tenants.name)

const acme = await signUp('Acme', 'ada@acme.example', 'Ada')
const bolt = await signUp('Bolt', 'bob@bolt.example', 'Bob')
const cargo = await signUp('Cargo', 'cyd@cargo.example', 'Cyd')
say('sign up', await db.$count(tenants))
await signUp('Another Acme', 'ada@acme.example', 'Ada').catch((e) => say('an e-mail is taken', [(e.cause ?? e).code, (e.cause ?? e).constraint]))

await startProject(acme, 'Roof', 'tiles', 'beams', 'gutter')
await startProject(bolt, 'Wall', 'bricks', 'mortar')
await startProject(cargo, 'Gate', 'hinges')
say('open tasks', await openTasks(acme))

await db.transaction(async (tx) => {
  const [task] = await tx.select().from(tasks).where(and(eq(tasks.tenantId, acme), eq(tasks.state, 'open'))).orderBy(tasks.id).limit(1).for('update', { skipLocked: true })
  await tx.update(tasks).set({ state: 'done', hours: '2.5' }).where(and(eq(tasks.tenantId, acme), eq(tasks.id, task.id)))
})
say('one is done', await openTasks(acme))

const all = await db.query.projects.findMany({ orderBy: asc(projects.title), with: { owner: { columns: { email: true } }, tasks: { columns: { title: true }, orderBy: asc(tasks.title) } }, columns: { title: true } })
say('projects with owners', all)
say('report over all tenants', await report())
const [who] = await db.select({ user: users.name, tenant: tenants.name }).from(users).innerJoin(tenants, eq(tenants.id, users.tenantId)).where(eq(users.email, 'cyd@cargo.example'))
say('login by e-mail', who)
say('hours of all tenants', (await db.update(tasks).set({ hours: sql`${tasks.hours} + 1` })).rowCount)

await db.delete(users).where(eq(users.tenantId, acme))
say('the owner is gone', (await db.query.projects.findFirst({ where: eq(projects.tenantId, acme) })).ownerId)
await db.transaction(async (tx) => {
  await tx.delete(tasks).where(eq(tasks.tenantId, acme))
  await tx.delete(tasks).where(eq(tasks.tenantId, cargo))
  tx.rollback()
}).catch(async (e) => say('rolled back', [e.constructor.name, await db.$count(tasks)]))
await db.delete(tenants).where(eq(tenants.id, bolt))
say('a tenant has left', await report())
await pool.end()
