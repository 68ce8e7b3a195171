select weft.shard_tables('tenants.id, users.tenant_id, projects.tenant_id, tasks.tenant_id', foreign_keys => 'shard');
