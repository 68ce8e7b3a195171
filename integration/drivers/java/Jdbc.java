import java.io.ByteArrayOutputStream;
import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.Savepoint;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicBoolean;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.postgresql.copy.CopyManager;
import org.postgresql.util.PGobject;
import org.postgresql.util.PSQLException;

/** pgjdbc: prepare threshold, batches, fetch size, COPY, generated keys, metadata, timeouts. */
public final class Jdbc {
    static Connection c;
    static final List<Long> orderIds = new ArrayList<>();

    static Connection connect(String... options) throws SQLException {
        Properties p = new Properties();
        p.put("user", System.getenv("PGUSER"));
        p.put("password", System.getenv("PGPASSWORD"));
        p.put("sslmode", System.getenv().getOrDefault("PGSSLMODE", "prefer"));
        if (System.getenv("PGSSLROOTCERT") != null) {
            p.put("sslrootcert", System.getenv("PGSSLROOTCERT"));
        }
        for (int i = 0; i < options.length; i += 2) {
            p.put(options[i], options[i + 1]);
        }
        return DriverManager.getConnection("jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE"), p);
    }

    /** All rows, as lists. */
    static List<List<Object>> rows(Connection on, String sql, Object... args) throws SQLException {
        try (PreparedStatement s = on.prepareStatement(sql)) {
            for (int i = 0; i < args.length; i++) {
                s.setObject(i + 1, args[i]);
            }
            List<List<Object>> out = new ArrayList<>();
            if (!s.execute()) {
                out.add(Arrays.asList(s.getUpdateCount()));
                return out;
            }
            try (ResultSet r = s.getResultSet()) {
                while (r.next()) {
                    List<Object> row = new ArrayList<>();
                    for (int i = 1; i <= r.getMetaData().getColumnCount(); i++) {
                        row.add(r.getObject(i));
                    }
                    out.add(row);
                }
            }
            return out;
        }
    }

    static Object one(Connection on, String sql, Object... args) throws SQLException {
        return rows(on, sql, args).get(0).get(0);
    }

    static Object one(String sql, Object... args) throws SQLException {
        return one(c, sql, args);
    }

    public static void main(String[] argv) {
        schema();
        reading();
        writing();
        protocol();
        types();
        rest();
        Check.done();
    }

    static void schema() {
        Check.check("connect", () -> {
            c = connect("ApplicationName", "shop");
            Check.same(one("select current_setting('application_name')"), "shop");
            Check.fails("28P01", () -> connect("password", "wrong"));
        });
        Check.check("migrate", () -> {
            c.setAutoCommit(false);
            try (Statement s = c.createStatement()) {
                s.execute(App.schema());
            }
            c.commit();
            c.setAutoCommit(true);
        });
        Check.check("declare", () -> Check.shell("DECLARE", App.TABLES));
        Check.check("generated keys", () -> {
            try (PreparedStatement s = c.prepareStatement("insert into customers (name, country) values (?, ?)", Statement.RETURN_GENERATED_KEYS)) {
                for (int i = 1; i <= 20; i++) {
                    s.setString(1, "customer " + i);
                    s.setString(2, i % 2 == 0 ? "de" : "fr");
                    Check.same(s.executeUpdate(), 1);
                    try (ResultSet r = s.getGeneratedKeys()) {
                        r.next();
                        Check.same(r.getLong("id"), (long) i);
                    }
                }
            }
        });
        Check.check("batches", () -> {
            try (PreparedStatement s = c.prepareStatement("insert into products (name, price) values (?, ?)")) {
                for (int i = 1; i <= 10; i++) {
                    s.setString(1, "product " + i);
                    s.setBigDecimal(2, App.price(i));
                    s.addBatch();
                }
                Check.same(s.executeBatch(), new int[] {1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
            }
            c.setAutoCommit(false);
            try (PreparedStatement s = c.prepareStatement("insert into orders (customer_id, status, total) values (?, ?::order_status, ?)", new String[] {"id"})) {
                for (App.Order o : App.orders) {
                    s.setLong(1, o.customer());
                    s.setString(2, o.status());
                    s.setBigDecimal(3, o.total());
                    s.addBatch();
                }
                s.executeBatch();
                try (ResultSet r = s.getGeneratedKeys()) {
                    while (r.next()) {
                        orderIds.add(r.getLong(1));
                    }
                }
            }
            c.commit();
            c.setAutoCommit(true);
            Check.same(new TreeSet<>(orderIds).size(), App.orders.size());
        });
        Check.check("batches, rewritten", () -> {
            try (Connection d = connect("reWriteBatchedInserts", "true")) {
                try (PreparedStatement s = d.prepareStatement("insert into items (customer_id, order_id, product_id, quantity, price) values (?, ?, ?, ?, ?)")) {
                    for (App.Item i : App.items) {
                        s.setLong(1, i.customer());
                        s.setLong(2, orderIds.get(i.order()));
                        s.setInt(3, i.product());
                        s.setInt(4, i.quantity());
                        s.setBigDecimal(5, i.price());
                        s.addBatch();
                    }
                    Check.same(s.executeBatch().length, App.items.size());
                }
                try (PreparedStatement s = d.prepareStatement("insert into users (email, name) values (?, ?)")) {
                    for (int i = 1; i <= 20; i++) {
                        s.setString(1, "user" + i + "@example.com");
                        s.setString(2, "user " + i);
                        s.addBatch();
                    }
                    s.executeLargeBatch();
                }
            }
            Check.same(one("select count(*) from items"), (long) App.items.size());
            Check.same(one("select count(*) from users"), 20L);
        });
        Check.check("batches that fail", () -> {
            try (PreparedStatement s = c.prepareStatement("insert into users (email, name) values (?, 'x')")) {
                for (String e : new String[] {"b1@example.com", "user1@example.com", "b2@example.com"}) {
                    s.setString(1, e);
                    s.addBatch();
                }
                SQLException e = Check.fails("23505", s::executeBatch);
                Check.same(((BatchUpdateException) e).getUpdateCounts().length, 3);
            }
            Check.same(one("delete from users where email like 'b_@example.com'"), 0);
            try (Statement s = c.createStatement()) {
                s.addBatch("update customers set name = name where id = 1");
                s.addBatch("update customers set name = name where country = 'de'");
                s.addBatch("delete from users where email = 'nobody'");
                Check.same(s.executeBatch(), new int[] {1, 10, 0});
            }
        });
    }

    static void reading() {
        Check.check("read", () -> {
            Check.same(one("select name from customers where id = ?", 7L), "customer 7");
            Check.same(one("select name from users where email = ?", "user9@example.com"), "user 9");
            Check.same(rows(c, "select id from customers where id = any(?) order by id", c.createArrayOf("int8", new Long[] {1L, 5L, 9L})).size(), 3);
            Check.same(rows(c, "select i.id from items i join orders o on o.id = i.order_id and o.customer_id = i.customer_id join customers c on c.id = o.customer_id"
                + " join products p on p.id = i.product_id where c.id = ? order by i.id", 3L).size(), 6);
            Check.same(rows(c, "select i.id from items i join orders o on o.id = i.order_id").size(), App.items.size());
        });
        Check.check("pages and aggregates", () -> {
            List<Object> ids = new ArrayList<>();
            for (int page = 0; page < 4; page++) {
                for (List<Object> r : rows(c, "select id from customers order by id limit ? offset ?", 6, page * 6)) {
                    ids.add(r.get(0));
                }
            }
            Check.same(ids.size(), 20);
            Check.same(ids.get(19), 20L);
            Check.same(one("select sum(total) from orders"), App.total);
            Check.same(rows(c, "select status::text, count(*) from orders group by status order by status").toString(), "[[new, 15], [paid, 10], [shipped, 5]]");
        });
        Check.check("fetch size", () -> {
            c.setAutoCommit(false);
            try (PreparedStatement s = c.prepareStatement("select id from items where customer_id > ? order by id")) {
                s.setFetchSize(7);
                s.setLong(1, 0);
                try (ResultSet r = s.executeQuery()) {
                    long last = 0;
                    int n = 0;
                    while (r.next()) {
                        Check.same(r.getLong(1) > last, true);
                        last = r.getLong(1);
                        n++;
                        if (n % 10 == 0) { // another statement while the portal is open
                            Check.same(one("select count(*) from customers where id = ?", (long) n / 10), 1L);
                        }
                    }
                    Check.same(n, App.items.size());
                }
                s.setMaxRows(5);
                try (ResultSet r = s.executeQuery()) {
                    int n = 0;
                    while (r.next()) {
                        n++;
                    }
                    Check.same(n, 5);
                }
            }
            c.commit();
            c.setAutoCommit(true);
        });
        Check.check("scrollable and updatable results", () -> {
            try (Statement s = c.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE);
                 ResultSet r = s.executeQuery("select id, name, country from customers where id = 2")) {
                r.last();
                Check.same(r.getRow(), 1);
                r.first();
                r.updateString("name", "updated");
                r.updateRow();
            }
            Check.same(one("select name from customers where id = 2"), "updated");
            Check.same(one("update customers set name = 'customer 2' where id = 2"), 1);
        });
    }

    static void writing() {
        Check.check("upsert", () -> {
            String up = "insert into users (email, name) values (?, ?) on conflict (email) do update set name = excluded.name returning name";
            Check.same(one(up, "user1@example.com", "renamed"), "renamed");
            Check.same(one(up, "user1@example.com", "user 1"), "user 1");
            Check.same(one("insert into products (name, price) values ('product 1', 1) on conflict do nothing"), 0);
        });
        Check.check("transactions", () -> {
            c.setAutoCommit(false);
            one("update customers set country = 'xx' where id in (1, 2, 3)");
            Check.same(one("select count(*) from customers where country = 'xx'"), 3L);
            c.rollback();
            Check.same(one("select count(*) from customers where country = 'xx'"), 0L);
            Savepoint a = c.setSavepoint("a");
            Check.fails("23505", () -> one("insert into users (email, name) values ('user1@example.com', 'twice')"));
            Check.fails("25P02", () -> one("select 1"));
            c.rollback(a);
            Savepoint b = c.setSavepoint();
            one("update customers set tags = '{t}' where id in (1, 2, 3)");
            c.releaseSavepoint(b);
            c.commit();
            c.setAutoCommit(true);
            Check.same(one("update customers set tags = '{}' where tags = '{t}'"), 3);
            try (Connection d = connect()) {
                d.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
                d.setReadOnly(true);
                d.setAutoCommit(false);
                Check.same(one(d, "select count(*) from customers"), 20L);
                Check.fails("25006", () -> one(d, "delete from customers where id = 1"));
                d.rollback();
            }
        });
        Check.check("autosave", () -> {
            for (String mode : new String[] {"always", "conservative"}) {
                try (Connection d = connect("autosave", mode)) {
                    d.setAutoCommit(false);
                    for (int i = 0; i < 10; i++) {
                        one(d, "update customers set tags = ? where id = ?", d.createArrayOf("text", new String[] {mode}), (long) i + 1);
                        if (mode.equals("always")) {
                            Check.fails("23505", () -> one(d, "insert into users (email, name) values ('user1@example.com', 'twice')"));
                        }
                    }
                    d.commit();
                    // A changed result: the driver goes back to its savepoint and prepares again.
                    for (int i = 0; i < 7; i++) {
                        rows(d, "select * from products where id = ?", 1);
                    }
                    d.commit();
                    one(c, "alter table products add extra_" + mode + " int");
                    rows(d, "select * from products where id = ?", 1);
                    d.commit();
                    one(c, "alter table products drop extra_" + mode);
                }
                Check.same(one("update customers set tags = '{}' where tags = ?", c.createArrayOf("text", new String[] {mode})), 10);
            }
        });
        Check.check("locks", () -> {
            c.setAutoCommit(false);
            Check.same(rows(c, "select id from customers where id in (1, 2) for update").size(), 2);
            try (Connection d = connect()) {
                Check.fails("55P03", () -> one(d, "select id from customers where id = 2 for update nowait"));
                Check.same(rows(d, "select id from customers where id in (2, 3) for update skip locked").toString(), "[[3]]");
            }
            c.rollback();
            c.setAutoCommit(true);
        });
    }

    static void protocol() {
        Check.check("prepare threshold", () -> {
            for (String threshold : new String[] {"0", "1", "3", "-1"}) {
                try (Connection d = connect("prepareThreshold", threshold, "preparedStatementCacheQueries", "5")) {
                    for (int n = 0; n < 40; n++) {
                        long id = n % 20 + 1;
                        Check.same(one(d, "select name from customers where id = ?", id), "customer " + id);
                        Check.same(one(d, "select count(*) from orders where customer_id = any(?)", d.createArrayOf("int8", new Long[] {id})), id % 4);
                        Check.same(one(d, "select count(*) from customers where id <= ? and " + n + " = " + n, id), id); // goes out of the cache
                    }
                }
            }
        });
        Check.check("query modes", () -> {
            for (String mode : new String[] {"simple", "extended", "extendedForPrepared", "extendedCacheEverything"}) {
                try (Connection d = connect("preferQueryMode", mode)) {
                    for (long id = 1; id <= 10; id++) {
                        Check.same(one(d, "select name from customers where id = ?", id), "customer " + id);
                    }
                    try (Statement s = d.createStatement()) {
                        s.execute("select 1; update customers set name = name where id = 4; select name from customers where id = 3");
                        s.getMoreResults();
                        Check.same(s.getUpdateCount(), 1);
                        s.getMoreResults();
                        s.getResultSet().next();
                        Check.same(s.getResultSet().getString(1), "customer 3");
                    }
                }
            }
        });
        Check.check("metadata", () -> {
            DatabaseMetaData m = c.getMetaData();
            try (ResultSet r = m.getTables(null, "public", "%", new String[] {"TABLE"})) {
                List<String> names = new ArrayList<>();
                while (r.next()) {
                    names.add(r.getString("TABLE_NAME"));
                }
                Check.same(names.toString(), "[customers, items, orders, products, samples, users]");
            }
            try (ResultSet r = m.getColumns(null, "public", "orders", "%")) {
                List<String> got = new ArrayList<>();
                while (r.next()) {
                    got.add(r.getString("COLUMN_NAME") + " " + r.getString("TYPE_NAME") + " " + r.getString("IS_AUTOINCREMENT"));
                }
                Check.same(got.toString(), "[id bigserial YES, customer_id int8 NO, status order_status NO, total numeric NO, note jsonb NO, placed_at timestamptz NO]");
            }
            try (ResultSet r = m.getPrimaryKeys(null, "public", "users")) {
                r.next();
                Check.same(r.getString("COLUMN_NAME"), "id");
            }
            try (ResultSet r = m.getImportedKeys(null, "public", "items")) {
                int n = 0;
                while (r.next()) {
                    n++;
                }
                Check.same(n, 3);
            }
            try (ResultSet r = m.getIndexInfo(null, "public", "orders", false, false)) {
                int n = 0;
                while (r.next()) {
                    n++;
                }
                Check.same(n, 4);
            }
            try (PreparedStatement s = c.prepareStatement("select o.id, o.status, c.name as customer from orders o join customers c on c.id = o.customer_id where o.total > ?")) {
                ResultSetMetaData r = s.getMetaData();
                Check.same(r.getColumnTypeName(1) + " " + r.getColumnTypeName(2) + " " + r.getColumnLabel(3), "bigserial order_status customer");
                Check.same(((org.postgresql.PGResultSetMetaData) r).getBaseTableName(1), "orders");
                Check.same(s.getParameterMetaData().getParameterTypeName(1), "numeric");
            }
        });
        Check.check("COPY", () -> {
            CopyManager copy = c.unwrap(PGConnection.class).getCopyAPI();
            StringBuilder in = new StringBuilder();
            for (int i = 0; i < 2000; i++) {
                in.append("copied").append(i).append("@example.com,name ").append(i).append('\n');
            }
            Check.same(copy.copyIn("copy users (email, name) from stdin with (format csv)", new StringReader(in.toString())), 2000L);
            StringWriter out = new StringWriter();
            Check.same(copy.copyOut("copy (select email from users where email like 'copied1%' order by 1) to stdout", out), 1111L);
            Check.same(out.toString().split("\n").length, 1111);
            ByteArrayOutputStream bin = new ByteArrayOutputStream();
            copy.copyOut("copy users to stdout with (format binary)", bin);
            Check.same(bin.toByteArray()[0], (byte) 'P');
            Check.fails("23505", () -> copy.copyIn("copy users (email, name) from stdin", new StringReader("fresh@example.com\tx\nuser3@example.com\tx\n")));
            Check.same(one("delete from users where email like 'copied%' or email like 'fresh%'"), 2000);
        });
    }

    static void types() {
        Check.check("types, text and binary", () -> {
            for (boolean binary : new boolean[] {false, true}) {
                try (Connection d = connect("binaryTransfer", String.valueOf(binary), "prepareThreshold", binary ? "-1" : "5")) {
                    UUID id = UUID.randomUUID();
                    UUID[] uuids = {UUID.randomUUID()};
                    OffsetDateTime at = OffsetDateTime.of(2024, 2, 29, 12, 0, 0, 123_000, ZoneOffset.UTC);
                    PGobject json = new PGobject();
                    json.setType("jsonb");
                    json.setValue("{\"k\": \"v\"}");
                    one(d, "insert into samples (id, b, i2, i4, i8, f4, f8, num, t, raw, d, ts, tstz, jb, i4s, ts_, nums, uuids, st, sts, addr)"
                        + " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?::order_status, ?::order_status[], ?::address)",
                        id, true, (short) -2, 42, 9007199254740993L, 1.5f, -2.25, new BigDecimal("12345678901234567890.0123456789"), "é 'quote' \\ \n", new byte[] {0, 1, -1},
                        LocalDate.of(2024, 2, 29), LocalDateTime.of(2024, 2, 29, 12, 0), at, json, d.createArrayOf("int4", new Integer[] {1, null, 3}),
                        d.createArrayOf("text", new String[] {"a", "b,c", "\"q\"", null}), d.createArrayOf("numeric", new BigDecimal[] {new BigDecimal("1.10")}),
                        d.createArrayOf("uuid", uuids), "paid", "{new,shipped}", "(\"Main, St\",5,Bern)");
                    for (String where : new String[] {"where id = ?", "where id in (select id from samples where id = ?)"}) {
                        try (PreparedStatement s = d.prepareStatement("select * from samples " + where)) {
                            s.setObject(1, id);
                            ResultSet r = s.executeQuery();
                            r.next();
                            Check.same(r.getObject("id"), id);
                            Check.same(r.getBoolean("b"), true);
                            Check.same(r.getShort("i2"), (short) -2);
                            Check.same(r.getInt("i4"), 42);
                            Check.same(r.getLong("i8"), 9007199254740993L);
                            Check.same(r.getFloat("f4"), 1.5f);
                            Check.same(r.getDouble("f8"), -2.25);
                            Check.same(r.getBigDecimal("num"), new BigDecimal("12345678901234567890.0123456789"));
                            Check.same(r.getString("t"), "é 'quote' \\ \n");
                            Check.same(r.getBytes("raw"), new byte[] {0, 1, -1});
                            Check.same(r.getObject("d", LocalDate.class), LocalDate.of(2024, 2, 29));
                            Check.same(r.getObject("ts", LocalDateTime.class), LocalDateTime.of(2024, 2, 29, 12, 0));
                            Check.same(r.getObject("tstz", OffsetDateTime.class), at);
                            Check.same(r.getString("jb"), "{\"k\": \"v\"}");
                            Check.same(r.getArray("i4s").getArray(), new Integer[] {1, null, 3});
                            Check.same(r.getArray("ts_").getArray(), new String[] {"a", "b,c", "\"q\"", null});
                            Check.same(r.getArray("uuids").getArray(), uuids);
                            Check.same(r.getString("st"), "paid");
                            Check.same(r.getArray("sts").getArray(), new String[] {"new", "shipped"});
                            Check.same(((PGobject) r.getObject("addr")).getType() + r.getString("addr"), "address(\"Main, St\",5,Bern)");
                        }
                    }
                }
            }
        });
        Check.check("NULLs and unknown types", () -> {
            try (PreparedStatement s = c.prepareStatement("update orders set note = ? where id = ? and ? is null")) {
                s.setNull(1, Types.OTHER);
                s.setLong(2, orderIds.get(0));
                s.setNull(3, Types.VARCHAR);
                Check.same(s.executeUpdate(), 1);
            }
            Check.same(one("select name from customers where id = ?::bigint", "3"), "customer 3");
        });
    }

    static void rest() {
        Check.check("errors", () -> {
            PSQLException e = (PSQLException) Check.fails("23505", () -> one("insert into users (email, name) values (?, 'x')", "user2@example.com"));
            Check.same(e.getServerErrorMessage().getConstraint(), "users_email_key");
            Check.fails("23503", () -> one("insert into orders (customer_id) values (?)", 999999L));
            Check.fails("23502", () -> one("insert into customers (country) values ('de')"));
            Check.fails("23514", () -> one("update items set quantity = 0 where customer_id = ?", 3L));
            Check.fails("42P01", () -> one("select * from nowhere"));
            Check.fails("42703", () -> one("select nothing from customers"));
            Check.fails("42601", () -> one("selec 1"));
            Check.fails("22P02", () -> one("select * from customers where id = ?::bigint", "abc"));
        });
        Check.check("timeout and cancel", () -> {
            try (Statement s = c.createStatement()) {
                s.setQueryTimeout(1);
                for (String sql : new String[] {"select pg_sleep(20)", "select id, pg_sleep(20) from customers", "select pg_sleep(20) from customers where id = 3"}) {
                    Check.fails("57014", () -> s.executeQuery(sql));
                }
            }
            try (Statement s = c.createStatement()) {
                AtomicBoolean over = new AtomicBoolean();
                Thread t = new Thread(() -> {
                    while (!over.get()) {
                        try {
                            Thread.sleep(300);
                            if (!over.get()) {
                                s.cancel();
                            }
                        } catch (Exception e) {
                            return;
                        }
                    }
                });
                t.start();
                Check.fails("57014", () -> s.executeQuery("select id, pg_sleep(20) from customers"));
                over.set(true);
                t.join();
            }
            Check.eventually(() -> Check.same(one("select 1"), 1));
        });
        Check.check("LISTEN and NOTIFY", () -> {
            try (Connection d = connect()) {
                one(d, "listen news");
                one("notify news, 'one'");
                one("select pg_notify('news', ?)", "two");
                List<String> got = new ArrayList<>();
                for (int i = 0; i < 50 && got.size() < 2; i++) {
                    PGNotification[] n = d.unwrap(PGConnection.class).getNotifications(200);
                    for (int k = 0; n != null && k < n.length; k++) {
                        got.add(n[k].getName() + " " + n[k].getParameter());
                    }
                }
                Check.same(got.toString(), "[news one, news two]");
            }
        });
        Check.check("threads", () -> {
            List<String> wrong = Collections.synchronizedList(new ArrayList<>());
            List<Thread> threads = new ArrayList<>();
            for (int k = 0; k < 15; k++) {
                final int first = k;
                Thread t = new Thread(() -> {
                    try (Connection d = connect()) {
                        for (int n = 0; n < 20; n++) {
                            long id = (n + first) % 20 + 1;
                            Object got = one(d, "select count(o.id) from customers c left join orders o on o.customer_id = c.id where c.id = ?", id);
                            if (!got.equals(id % 4)) {
                                wrong.add(id + ": " + got);
                            }
                        }
                    } catch (SQLException e) {
                        wrong.add(e.toString());
                    }
                });
                threads.add(t);
                t.start();
            }
            for (Thread t : threads) {
                t.join();
            }
            Check.same(wrong.toString(), "[]");
        });
        Check.check("reconnect after a restart", () -> {
            Check.shell("RESTART", "");
            Check.eventually(() -> {
                if (!c.isValid(5)) {
                    c = connect();
                }
                for (long id = 1; id <= 20; id++) {
                    Check.same(one("select name from customers where id = ?", id), "customer " + id);
                }
            });
            Check.same(one("update customers set tags = '{again}'"), 20);
        });
    }
}
