# Spreads the tables by tenant. The foreign keys of Rails have one column each: they get the tenant.
class Weft < ActiveRecord::Migration[6.1]
  disable_ddl_transaction!

  def up
    execute "select weft.shard_tables('tenants.id, users.tenant_id, projects.tenant_id, tasks.tenant_id', foreign_keys => 'shard')"
  end
end
