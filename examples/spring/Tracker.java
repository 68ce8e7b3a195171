import java.util.List;
import javax.sql.DataSource;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/** What the application does with the database. It knows nothing of shards. */
final class Tracker {
    private final JdbcTemplate db;
    private final TransactionTemplate inTransaction;

    Tracker(DataSource source) {
        db = new JdbcTemplate(source);
        inTransaction = new TransactionTemplate(new DataSourceTransactionManager(source));
    }

    long signUp(String tenant, String email, String name) {
        return inTransaction.execute(status -> {
            long id = db.queryForObject("insert into tenants (name) values (?) returning id", Long.class, tenant);
            db.update("insert into users (tenant_id, email, name) values (?, ?, ?)", id, email, name);
            return id;
        });
    }

    long startProject(long tenant, String title, List<String> tasks) {
        return inTransaction.execute(status -> {
            long id = db.queryForObject("insert into projects (tenant_id, title, owner_id) select ?, ?, min(id) from users where tenant_id = ? returning id",
                Long.class, tenant, title, tenant);
            db.batchUpdate("insert into tasks (tenant_id, project_id, title) values (?, ?, ?)", tasks, 100, (s, task) -> {
                s.setLong(1, tenant);
                s.setLong(2, id);
                s.setString(3, task);
            });
            return id;
        });
    }

    List<String> openTasks(long tenant) {
        return db.queryForList("select p.title || ': ' || t.title from tasks t join projects p on p.tenant_id = t.tenant_id and p.id = t.project_id"
            + " where t.tenant_id = ? and t.state = 'open' order by t.title", String.class, tenant);
    }

    /** Takes an open task that no other worker has, and finishes it. */
    void work(long tenant, double hours) {
        inTransaction.execute(status -> {
            long id = db.queryForObject("select id from tasks where tenant_id = ? and state = 'open' order by id limit 1 for update skip locked", Long.class, tenant);
            return db.update("update tasks set state = 'done', hours = ? where tenant_id = ? and id = ?", hours, tenant, id);
        });
    }

    /** For the operator of the tracker, who sees all tenants. */
    List<String> report() {
        return db.query("select t.name, count(distinct p.id), count(k.id), coalesce(sum(k.hours), 0) from tenants t left join projects p on p.tenant_id = t.id"
            + " left join tasks k on k.tenant_id = p.tenant_id and k.project_id = p.id group by t.id, t.name order by t.name",
            (row, n) -> row.getString(1) + " has " + row.getInt(2) + " projects with " + row.getInt(3) + " tasks and " + row.getBigDecimal(4) + " hours");
    }

    String login(String email) {
        return db.queryForObject("select u.name || ' of ' || t.name from users u join tenants t on t.id = u.tenant_id where u.email = ?", String.class, email);
    }

    int raiseHours() {
        return db.update("update tasks set hours = hours + 1");
    }

    /** Deletes tasks of two tenants, and changes its mind. */
    int notReally(long one, long other) {
        inTransaction.execute(status -> {
            db.update("delete from tasks where tenant_id = ?", one);
            db.update("delete from tasks where tenant_id = ?", other);
            status.setRollbackOnly();
            return null;
        });
        return db.queryForObject("select count(*) from tasks", Integer.class);
    }

    void leave(long tenant) {
        db.update("delete from tenants where id = ?", tenant);
    }
}
