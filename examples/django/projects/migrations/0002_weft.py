from django.db import migrations


class Migration(migrations.Migration):
    """Spreads the tables by tenant. Django's foreign keys have one column each: they get the tenant."""

    atomic = False
    dependencies = [("projects", "0001_initial")]
    operations = [
        migrations.RunSQL(
            "select weft.shard_tables('projects_tenant.id, projects_user.tenant_id, projects_project.tenant_id, projects_task.tenant_id', foreign_keys => 'shard')",
            migrations.RunSQL.noop,
        )
    ]
