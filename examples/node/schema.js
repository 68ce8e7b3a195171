import { relations } from 'drizzle-orm'
import { bigint, bigserial, numeric, pgTable, text } from 'drizzle-orm/pg-core'

const id = () => bigserial({ mode: 'number' }).primaryKey()
const tenantId = () => bigint('tenant_id', { mode: 'number' }).notNull().references(() => tenants.id, { onDelete: 'cascade' })

export const tenants = pgTable('tenants', { id: id(), name: text().notNull() })
export const users = pgTable('users', { id: id(), tenantId: tenantId(), email: text().notNull().unique(), name: text().notNull() })
export const projects = pgTable('projects', {
  id: id(),
  tenantId: tenantId(),
  title: text().notNull(),
  ownerId: bigint('owner_id', { mode: 'number' }).references(() => users.id, { onDelete: 'set null' }),
})
export const tasks = pgTable('tasks', {
  id: id(),
  tenantId: tenantId(),
  projectId: bigint('project_id', { mode: 'number' }).notNull().references(() => projects.id, { onDelete: 'cascade' }),
  title: text().notNull(),
  state: text().notNull().default('open'),
  hours: numeric({ precision: 6, scale: 2 }).notNull().default('0'),
})

export const projectsRelations = relations(projects, ({ one, many }) => ({
  owner: one(users, { fields: [projects.tenantId, projects.ownerId], references: [users.tenantId, users.id] }),
  tasks: many(tasks),
}))
export const tasksRelations = relations(tasks, ({ one }) => ({
  project: one(projects, { fields: [tasks.tenantId, tasks.projectId], references: [projects.tenantId, projects.id] }),
}))
