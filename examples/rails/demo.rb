# A day of three tenants. Each step prints one line.
require_relative "config/environment"

def say(what, answer)
  puts "ok #{what}: #{answer.inspect}"
end

def report
  Tenant.left_joins(:tasks).group(:id, :name).order(:name).pluck(:name, Arel.sql("count(tasks.id)"), Arel.sql("coalesce(sum(tasks.hours), 0)")).map { |name, n, hours| [name, n, hours.to_s("F")] }
end

acme = Tenant.sign_up("Acme", "ada@acme.example", "Ada")
bolt = Tenant.sign_up("Bolt", "bob@bolt.example", "Bob")
cargo = Tenant.sign_up("Cargo", "cyd@cargo.example", "Cyd")
say "sign up", Tenant.count
begin
  Tenant.sign_up("Another Acme", "ada@acme.example", "Ada")
rescue ActiveRecord::RecordNotUnique => e
  say "an e-mail is taken", e.message.lines.first.strip
end

acme.start_project("Roof", "tiles", "beams", "gutter")
bolt.start_project("Wall", "bricks", "mortar")
cargo.start_project("Gate", "hinges")
say "open tasks", acme.tasks.open.order(:title).pluck(:title)

Task.transaction do
  task = acme.tasks.open.order(:id).lock("FOR UPDATE SKIP LOCKED").first
  task.update!(state: "done", hours: 2.5)
end
say "one is done", acme.tasks.open.order(:title).pluck(:title)

say "projects with owners", Project.includes(:owner, :tasks).order(:title).map { |p| [p.title, p.owner.email, p.tasks.map(&:title).sort] }
say "joined", Task.joins(project: :owner).where(users: { name: "Bob" }).order(:title).pluck(:title)
say "report over all tenants", report
say "login by e-mail", User.includes(:tenant).find_by!(email: "cyd@cargo.example").tenant.name
say "hours of all tenants", Task.update_all("hours = hours + 1")
say "in batches", Task.find_each(batch_size: 2).map(&:title).sort

acme.users.first.destroy!
say "the owner is gone", acme.projects.first.owner
Task.transaction do
  Task.where(tenant: acme).delete_all
  Task.where(tenant: cargo).delete_all
  raise ActiveRecord::Rollback
end
say "rolled back", Task.count
bolt.destroy!
say "a tenant has left", report
