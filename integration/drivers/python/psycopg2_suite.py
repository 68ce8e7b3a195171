"""psycopg2: client-side parameters, named cursors, COPY, notifications, pools."""

import datetime
import io
import select
import threading
import time
import uuid
from decimal import Decimal

import psycopg2
import psycopg2.extensions
import psycopg2.extras
import psycopg2.pool

import app
from check import check, declare, done, eventually, fails, restart, same

psycopg2.extras.register_uuid()
conn = None


def rows(sql, args=None):
    with conn.cursor() as cur:
        cur.execute(sql, args)
        return cur.fetchall() if cur.description else cur.rowcount


class _refused:
    def __enter__(self):
        pass

    def __exit__(self, kind, e, tb):
        same("password authentication failed" in str(e), True)
        return True


@check("connect")
def _():
    global conn
    conn = psycopg2.connect("")
    conn.autocommit = True
    same(conn.info.ssl_in_use, True)
    bound = psycopg2.connect("channel_binding=require")
    bound.close()
    with _refused():
        psycopg2.connect("password=wrong")
    other = psycopg2.connect("application_name=shop options='-c work_mem=7MB'")
    with other.cursor() as cur:
        cur.execute("select current_setting('application_name'), current_setting('work_mem')")
        same(cur.fetchone(), ("shop", "7MB"))
    other.close()


@check("migrate")
def _():
    conn.autocommit = False
    with conn, conn.cursor() as cur:
        cur.execute(app.schema)
    conn.autocommit = True


@check("declare")
def _():
    declare(*app.tables, "samples=id")


order_ids = []


@check("seed")
def _():
    with conn.cursor() as cur:
        cur.executemany("insert into products (name, price) values (%(name)s, %(price)s)", app.products)
        for c in app.customers:
            cur.execute("insert into customers (name, country) values (%(name)s, %(country)s) returning id", c)
            same(cur.fetchone(), (c["id"],))
        psycopg2.extras.execute_batch(cur, "insert into orders (customer_id, status, total) values (%(customer_id)s, %(status)s, %(total)s)", app.orders)
        # Texts of many statements: which number each row gets is the sequence's business.
        cur.execute("select customer_id, status, id from orders")
        ids = {(c, st): id for c, st, id in cur}
        for i in app.items:
            o = app.orders[i["order_id"] - 1]
            i["order_id"] = ids[o["customer_id"], o["status"]]
        order_ids.extend(sorted(ids.values()))
        psycopg2.extras.execute_values(
            cur, "insert into items (customer_id, order_id, product_id, quantity, price) values %s", app.items,
            template="(%(customer_id)s, %(order_id)s, %(product_id)s, %(quantity)s, %(price)s)", page_size=20,
        )
        ids = psycopg2.extras.execute_values(cur, "insert into users (email, name) values %s returning id", [(u["email"], u["name"]) for u in app.users], fetch=True)
        same(len(ids), 20)
    same(rows("select count(*) from items"), [(len(app.items),)])


@check("read and write")
def _():
    same(rows("select name, country from customers where id = %s", (7,)), [("customer 7", "fr")])
    same(rows("select name from users where email = %s", ("user9@example.com",)), [("user 9",)])
    same(rows("select id from customers where id in %s order by id", ((1, 5, 9),)), [(1,), (5,), (9,)])
    same(rows("select count(*) from customers where id = any(%s)", ([1, 2, 99],)), [(2,)])
    id = rows("insert into customers (name, country) values ('tmp', 'it') returning id")[0][0]
    same(rows("update customers set name = %s, tags = %s where id = %s", ("changed", ["a", "b"], id)), 1)
    same(rows("select name, tags from customers where id = %s", (id,)), [("changed", ["a", "b"])])
    same(rows("delete from customers where id = %s", (id,)), 1)
    same(rows("update customers set tags = '{x}' where country = 'de'"), 10)
    same(rows("update customers set tags = '{}'"), 20)


@check("upsert")
def _():
    up = "insert into users (email, name) values (%s, %s) on conflict (email) do update set name = excluded.name returning name"
    same(rows(up, ("user1@example.com", "renamed")), [("renamed",)])
    same(rows(up, ("user1@example.com", "user 1")), [("user 1",)])
    same(rows("insert into products (name, price) values ('product 1', 1) on conflict do nothing"), 0)


@check("joins")
def _():
    r = rows("""select i.id, c.name, p.name from items i join orders o on o.id = i.order_id and o.customer_id = i.customer_id
        join customers c on c.id = o.customer_id join products p on p.id = i.product_id order by i.id""")
    same(len(r), len(app.items))
    same(rows("select c.id from customers c left join orders o on o.customer_id = c.id where o.id is null order by 1"), [(4,), (8,), (12,), (16,), (20,)])


@check("pagination")
def _():
    got = []
    for page in range(4):
        got += rows("select id from customers order by id limit %s offset %s", (6, page * 6))
    same(got, [(c["id"],) for c in app.customers])


@check("aggregates")
def _():
    same(rows("select count(*), sum(total) from orders"), [(len(app.orders), app.total)])
    same(rows("select status, count(*), sum(total) from orders group by status order by status"), app.by_status)
    same(rows("""select c.id, coalesce(sum(o.total), 0) from customers c left join orders o on o.customer_id = c.id
        group by c.id order by 2 desc, 1 limit 3"""), app.best)
    same(rows("select country, array_agg(id order by id) from customers where id < 6 group by rollup (country) order by 1"), [("de", [2, 4]), ("fr", [1, 3, 5]), (None, [1, 2, 3, 4, 5])])


@check("transactions")
def _():
    c = psycopg2.connect("")
    try:
        with fails("22012"):
            with c, c.cursor() as cur:
                cur.execute("update customers set country = 'xx' where id in (1, 2, 3)")
                cur.execute("select 1/0")
        same(rows("select count(*) from customers where country = 'xx'"), [(0,)])
        c.set_session(isolation_level="REPEATABLE READ", readonly=True)
        with fails("25006"):
            with c, c.cursor() as cur:
                cur.execute("delete from customers where id = 1")
        c.set_session(isolation_level="REPEATABLE READ", readonly=False)
        with c, c.cursor() as cur:
            cur.execute("savepoint a")
            with fails("23505"):
                cur.execute("insert into users (email, name) values ('user1@example.com', 'twice')")
            same(c.get_transaction_status(), psycopg2.extensions.TRANSACTION_STATUS_INERROR)
            cur.execute("rollback to a")
            cur.execute("update customers set tags = '{t}' where id in (1, 2, 3)")
        same(rows("select count(*) from customers where tags = '{t}'"), [(3,)])
        with c, c.cursor() as cur:
            cur.execute("select id from customers where id in (1, 2) for update")
            with fails("55P03"):
                rows("select id from customers where id = 2 for update nowait")
    finally:
        c.close()


@check("named cursors")
def _():
    c = psycopg2.connect("")
    try:
        with c, c.cursor("items_cursor") as cur:
            cur.itersize = 7
            cur.execute("select id from items order by id")
            same(len([r[0] for r in cur]), len(app.items))
        with c, c.cursor("scrolling", scrollable=True) as cur:
            cur.execute("select id from orders order by id")
            same(cur.fetchmany(3), [(id,) for id in order_ids[:3]])
            cur.scroll(-2)
            same(cur.fetchone(), (order_ids[1],))
            cur.scroll(5, mode="absolute")
            same(cur.fetchone(), (order_ids[5],))
        with c.cursor("held", withhold=True) as cur:
            cur.execute("select id from orders order by id")
            c.commit()
            same(len(cur.fetchall()), len(app.orders))
    finally:
        c.close()


@check("many executions")
def _():
    with conn.cursor() as cur:
        cur.execute("prepare by_id (bigint) as select name from customers where id = $1")
        for n in range(100):
            id = n % 20 + 1
            cur.execute("execute by_id (%s)", (id,))
            same(cur.fetchone(), ("customer %d" % id,))
            cur.execute("select count(*) from orders where customer_id = %s", (id,))
            same(cur.fetchone(), (id % 4,))
        cur.execute("deallocate by_id")


@check("types")
def _():
    psycopg2.extras.register_composite("address", conn)
    psycopg2.extras.register_default_jsonb(conn)
    row = {
        "id": uuid.uuid4(), "b": True, "i2": -2, "i4": 42, "i8": 2**53 + 1, "f4": 1.5, "f8": -2.25, "num": Decimal("12345678901234567890.0123456789"),
        "t": "é 'quote' \\ %\n", "vc": "short", "raw": b"\x00\x01\xff", "d": datetime.date(2024, 2, 29), "tm": datetime.time(23, 59, 58, 123000),
        "ts": datetime.datetime(2024, 2, 29, 12, 0), "tstz": datetime.datetime(2024, 2, 29, 12, 0, 0, 123, tzinfo=datetime.timezone.utc),
        "iv": datetime.timedelta(days=1, hours=2), "jb": {"k": "v", "n": 1.5}, "i4s": [1, None, 3], "ts_": ["a", "b,c", '"q"', None],
        "nums": [Decimal("1.10"), Decimal(2)], "uuids": [uuid.uuid4()], "st": "paid", "addr": ("Main, St", 5, "Bern"),
        "r": psycopg2.extras.NumericRange(1, 5),
    }
    args = dict(row, jb=psycopg2.extras.Json(row["jb"]))
    cols = list(row)
    rows("insert into samples (%s) values (%s)" % (", ".join(cols), ", ".join("%%(%s)s%s" % (c, {"uuids": "::uuid[]", "addr": "::address"}.get(c, "")) for c in cols)), args)
    with conn.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cur:
        cur.execute("select %s from samples where id = %%s" % ", ".join(cols), (row["id"],))
        got = dict(cur.fetchone())
    got["raw"], got["addr"] = bytes(got["raw"]), tuple(got["addr"])
    same(got, row)


@check("errors")
def _():
    with fails("23505") as f:
        rows("insert into users (email, name) values ('user2@example.com', 'x')")
    same(type(f.error), psycopg2.errors.UniqueViolation)
    same((f.error.diag.table_name, f.error.diag.constraint_name), ("users", "users_email_key"))
    for code, sql in [
        ("23503", "insert into orders (customer_id) values (999999)"), ("23502", "insert into customers (country) values ('de')"),
        ("23514", "update items set quantity = 0 where customer_id = 3"), ("42P01", "select * from nowhere"), ("42703", "select nothing from customers"),
        ("42601", "selec 1"), ("22P02", "select * from customers where id = 'abc'"), ("23503", "delete from products where id = 1"),
    ]:
        with fails(code):
            rows(sql)


@check("cancel and timeouts")
def _():
    with conn.cursor() as cur:
        cur.execute("set statement_timeout = 300")
        for sql in ("select pg_sleep(5)", "select id, pg_sleep(5) from customers"):
            with fails("57014"):
                cur.execute(sql)
        cur.execute("reset statement_timeout")
    for sql in ("select pg_sleep(20)", "select id, pg_sleep(20) from customers"):
        over = threading.Event()

        def cancel():
            while not over.wait(0.3):
                conn.cancel()

        t = threading.Thread(target=cancel)
        t.start()
        try:
            with fails("57014"):
                rows(sql)
        finally:
            over.set()
            t.join()
        eventually(lambda: same(rows("select 1"), [(1,)]), 5)


@check("LISTEN and NOTIFY")
def _():
    c = psycopg2.connect("")
    c.autocommit = True
    with c.cursor() as cur:
        cur.execute("listen news")
        rows("notify news, 'one'")
        rows("select pg_notify('news', 'two')")
        got = []
        end = time.time() + 10
        while len(got) < 2 and time.time() < end:
            if select.select([c], [], [], 1)[0]:
                c.poll()
                while c.notifies:
                    n = c.notifies.pop(0)
                    got.append((n.channel, n.payload, n.pid == conn.info.backend_pid))
        same(got, [("news", "one", True), ("news", "two", True)])
    c.close()


@check("COPY")
def _():
    with conn.cursor() as cur:
        cur.copy_expert("copy users (email, name) from stdin with (format csv)", io.StringIO("".join("copied%d@example.com,name %d\n" % (i, i) for i in range(2000))))
        same(cur.rowcount, 2000)
        cur.copy_from(io.StringIO("copied9000@example.com\tx\n"), "users", columns=("email", "name"))
        out = io.StringIO()
        cur.copy_expert("copy (select email from users where email like 'copied1%' order by 1) to stdout", out)
        same(len(out.getvalue().splitlines()), 1111)
        out = io.BytesIO()
        cur.copy_expert("copy users to stdout with (format binary)", out)
        same(out.getvalue()[:6], b"PGCOPY")
        with fails("23505"):
            cur.copy_expert("copy users (email, name) from stdin", io.StringIO("fresh@example.com\tx\nuser3@example.com\tx\n"))
        same(rows("delete from users where email like 'copied%' or email like 'fresh%'"), 2001)


@check("several statements in one text")
def _():
    same(rows("select 1; update customers set name = name where id = 4; select name from customers where id = 3"), [("customer 3",)])


@check("threads and a pool")
def _():
    pool = psycopg2.pool.ThreadedConnectionPool(1, 10, "")
    wrong = []

    def work(k):
        c = pool.getconn()
        try:
            for n in range(20):
                id = (n + k) % 20 + 1
                with c, c.cursor() as cur:
                    cur.execute("select c.name, count(o.id) from customers c left join orders o on o.customer_id = c.id where c.id = %s group by 1", (id,))
                    if cur.fetchall() != [("customer %d" % id, id % 4)]:
                        wrong.append(id)
        except Exception as e:
            wrong.append(e)
        finally:
            pool.putconn(c)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(10)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    pool.closeall()
    same(wrong, [])


@check("reconnect after a restart")
def _():
    restart()

    def again():
        global conn
        if conn.closed:
            conn = psycopg2.connect("")
            conn.autocommit = True
        for c in app.customers:
            same(rows("select name from customers where id = %s", (c["id"],)), [(c["name"],)])

    eventually(again)
    same(rows("update customers set tags = '{again}'"), 20)


done()
