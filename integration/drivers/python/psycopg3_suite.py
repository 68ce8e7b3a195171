"""psycopg 3: server-side parameters, pipeline mode, binary, COPY, server cursors, async."""

import asyncio
import datetime
import threading
import time
import uuid
from decimal import Decimal
from ipaddress import ip_address

import psycopg
from psycopg.rows import dict_row, namedtuple_row
from psycopg.types.composite import CompositeInfo, register_composite
from psycopg.types.enum import EnumInfo, register_enum
from psycopg.types.json import Jsonb
from psycopg.types.range import Range

import app
from check import check, declare, done, eventually, fails, restart, same

conn = None


def rows(sql, args=None, **how):
    cur = conn.execute(sql, args, **how)
    return cur.fetchall() if cur.description else cur.rowcount


@check("connect")
def _():
    global conn
    conn = psycopg.connect("channel_binding=require", autocommit=True)
    same(conn.pgconn.ssl_in_use, True)
    same(rows("select current_user"), [(conn.info.user,)])


@check("migrate")
def _():
    with conn.transaction():
        conn.execute(app.schema)


@check("declare")
def _():
    declare(*app.tables, "samples=id")


@check("seed")
def _():
    with conn.cursor() as cur:
        cur.executemany("insert into products (name, price) values (%(name)s, %(price)s)", app.products)
        cur.executemany("insert into customers (name, country) values (%(name)s, %(country)s) returning id", app.customers, returning=True)
        got = []
        while True:
            got.append(cur.fetchone()[0])
            if not cur.nextset():
                break
        same(got, [c["id"] for c in app.customers])
        with conn.transaction():
            cur.executemany("insert into orders (customer_id, status, total) values (%(customer_id)s, %(status)s, %(total)s)", app.orders)
        same(cur.rowcount, len(app.orders))
        with cur.copy("copy items (customer_id, order_id, product_id, quantity, price) from stdin") as copy:
            for i in app.items:
                copy.write_row((i["customer_id"], i["order_id"], i["product_id"], i["quantity"], i["price"]))
        cur.execute("insert into users (email, name) select * from unnest(%s::text[], %s::text[])", ([u["email"] for u in app.users], [u["name"] for u in app.users]))
        same(cur.rowcount, 20)


@check("read and write")
def _():
    same(rows("select name, country from customers where id = %s", (7,)), [("customer 7", "fr")])
    same(rows("select name from users where email = %s", ("user9@example.com",)), [("user 9",)])
    same(rows("select id from customers where id = any(%s) order by id", ([1, 5, 9],)), [(1,), (5,), (9,)])
    id = rows("insert into customers (name, country) values ('tmp', 'it') returning id")[0][0]
    same(rows("update customers set name = %s, tags = %s where id = %s", ("changed", ["a", "b"], id)), 1)
    same(rows("select name, tags from customers where id = %s", (id,)), [("changed", ["a", "b"])])
    same(rows("delete from customers where id = %s", (id,)), 1)
    same(rows("update customers set tags = %s where country = %s", (["x"], "de")), 10)
    same(rows("update customers set tags = '{}'"), 20)
    up = "insert into users (email, name) values (%s, %s) on conflict (email) do update set name = excluded.name returning name"
    same(rows(up, ("user1@example.com", "renamed")), [("renamed",)])
    same(rows(up, ("user1@example.com", "user 1")), [("user 1",)])


@check("joins, pages, aggregates")
def _():
    r = rows("""select i.id from items i join orders o on o.id = i.order_id and o.customer_id = i.customer_id
        join customers c on c.id = o.customer_id join products p on p.id = i.product_id where p.price > %s order by i.id""", (Decimal(0),))
    same(len(r), len(app.items))
    got = []
    for page in range(4):
        got += rows("select id from customers order by id limit %s offset %s", (6, page * 6))
    same(got, [(c["id"],) for c in app.customers])
    same(rows("select count(*), sum(total) from orders", binary=True), [(len(app.orders), app.total)])
    same(rows("select status::text, count(*), sum(total) from orders group by status order by status"), app.by_status)
    same(rows("select c.id, coalesce(sum(o.total), 0) from customers c left join orders o on o.customer_id = c.id group by c.id order by 2 desc, 1 limit %s", (3,), binary=True), app.best)


@check("rows as people like them")
def _():
    with conn.cursor(row_factory=dict_row) as cur:
        same(cur.execute("select id, name from customers where id = 3").fetchone(), {"id": 3, "name": "customer 3"})
    with conn.cursor(row_factory=namedtuple_row) as cur:
        same(cur.execute("select id, name from customers where id = 3").fetchone().name, "customer 3")


@check("transactions")
def _():
    with fails("22012"):
        with conn.transaction():
            conn.execute("update customers set country = 'xx' where id in (1, 2, 3)")
            conn.execute("select 1/0")
    same(rows("select count(*) from customers where country = 'xx'"), [(0,)])
    with conn.transaction():
        with fails("23505"):
            with conn.transaction():
                conn.execute("update customers set country = 'yy' where id in (5, 6)")
                conn.execute("insert into users (email, name) values ('user1@example.com', 'twice')")
        with conn.transaction("named"):
            conn.execute("update customers set tags = '{t}' where id in (1, 2, 3)")
        with conn.transaction():
            conn.execute("update customers set tags = '{u}'")
            raise psycopg.Rollback
    same(rows("select count(*) from customers where tags = '{t}'"), [(3,)])
    with psycopg.connect() as c:
        c.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        c.read_only = True
        same(c.execute("select count(*) from customers").fetchone(), (20,))
        with fails("25006"):
            c.execute("delete from customers where id = 1")
        c.rollback()


@check("server cursors")
def _():
    with conn.transaction(), conn.cursor("items_cursor") as cur:
        cur.itersize = 7
        same([r[0] for r in cur.execute("select id from items order by id")], [i["id"] for i in app.items])
    with conn.transaction(), conn.cursor("bin", binary=True, scrollable=True) as cur:
        cur.execute("select id, total from orders where total > %s order by id", (Decimal(0),))
        same(len(cur.fetchmany(5)), 5)
        cur.scroll(-3)
        same(cur.fetchone()[0], app.orders[2]["id"])
        cur.scroll(0, mode="absolute")
        same(len(cur.fetchall()), len(app.orders))
    with conn.cursor() as cur:
        same(len(list(cur.stream("select * from items where customer_id > %s", (0,)))), len(app.items))


@check("prepared statements")
def _():
    # After five executions psycopg prepares by itself; prepare=True at once.
    for n in range(100):
        id = n % 20 + 1
        same(rows("select name from customers where id = %s", (id,)), [("customer %d" % id,)])
        same(rows("select count(*) from orders where customer_id = any(%s)", ([id],), prepare=True, binary=n % 2 == 0), [(id % 4,)])
    conn.execute("alter table customers add extra int")
    same(len(rows("select * from customers where id = %s", (1,), prepare=True)[0]), 7)
    conn.execute("alter table customers drop extra")
    with psycopg.connect(autocommit=True, prepare_threshold=0) as c:
        for u in app.users:
            same(c.execute("select name from users where email = %s", (u["email"],)).fetchone(), (u["name"],))


@check("pipeline mode")
def _():
    with conn.pipeline() as p:
        curs = [conn.execute("select name from customers where id = %s", (c["id"],)) for c in app.customers]
        n = conn.execute("select count(*) from orders")
        p.sync()
        same([c.fetchone()[0] for c in curs], [c["name"] for c in app.customers])
        same(n.fetchone(), (len(app.orders),))
    with conn.pipeline():
        with conn.transaction():
            for id in (1, 2, 3):
                conn.execute("update customers set tags = %s where id = %s", (["p"], id))
    same(rows("select count(*) from customers where tags = '{p}'"), [(3,)])
    # An error ends what was sent up to the sync, all of it.
    with fails("22012"):
        with conn.pipeline() as p:
            conn.execute("update customers set tags = '{q}' where id = 1")
            conn.execute("update customers set tags = '{q}' where id = 2")
            conn.execute("select 1/0")
            conn.execute("select 1")
            p.sync()
    same(rows("select count(*) from customers where tags = '{q}'"), [(0,)])
    with conn.pipeline(), conn.cursor() as cur:
        cur.executemany("update customers set tags = %s where id = %s", [(["m"], c["id"]) for c in app.customers])
    same(rows("update customers set tags = '{}' where tags = '{m}'"), 20)


@check("types, text and binary")
def _():
    register_composite(CompositeInfo.fetch(conn, "address"), conn)
    info = EnumInfo.fetch(conn, "order_status")
    register_enum(info, conn)
    address = CompositeInfo.fetch(conn, "address")
    register_composite(address, conn)
    for binary in (False, True):
        row = {
            "id": uuid.uuid4(), "b": True, "i2": -2, "i4": 42, "i8": 2**53 + 1, "f4": 1.5, "f8": -2.25, "num": Decimal("12345678901234567890.0123456789"),
            "t": "é 'quote' \\ %\n", "vc": "short", "raw": b"\x00\x01\xff", "d": datetime.date(2024, 2, 29), "tm": datetime.time(23, 59, 58, 123000),
            "ts": datetime.datetime(2024, 2, 29, 12, 0), "tstz": datetime.datetime(2024, 2, 29, 12, 0, 0, 123, tzinfo=datetime.timezone.utc),
            "iv": datetime.timedelta(days=1, hours=2), "jb": {"k": "v", "n": 1.5}, "i4s": [1, None, 3], "ts_": ["a", "b,c", '"q"', None],
            "nums": [Decimal("1.10"), Decimal(2)], "uuids": [uuid.uuid4()], "st": info.enum["paid"], "sts": [info.enum["new"], info.enum["shipped"]],
            "addr": address.python_type("Main, St", 5, "Bern"), "ip": ip_address("10.0.0.1"), "r": Range(1, 5),
        }
        args = dict(row, jb=Jsonb(row["jb"]))
        cols = list(row)
        mark = "%%(%s)b" if binary else "%%(%s)t"
        conn.execute("insert into samples (%s) values (%s)" % (", ".join(cols), ", ".join(mark % c for c in cols)), args)
        for out in (False, True):
            with conn.cursor(row_factory=dict_row, binary=out) as cur:
                same(cur.execute("select %s from samples where id = %%s" % ", ".join(cols), (row["id"],)).fetchone(), row)
                # The same through a query over all shards.
                got = [r for r in cur.execute("select %s from samples order by id" % ", ".join(cols)).fetchall() if r["id"] == row["id"]]
                same(got, [row])


@check("COPY, text and binary")
def _():
    with conn.cursor() as cur:
        with cur.copy("copy users (email, name) from stdin (format binary)") as copy:
            copy.set_types(["text", "text"])
            for i in range(2000):
                copy.write_row(("copied%d@example.com" % i, "name %d" % i))
        same(cur.rowcount, 2000)
        with cur.copy("copy (select email, id from users where email like 'copied1%') to stdout (format binary)") as copy:
            copy.set_types(["text", "uuid"])
            got = list(copy.rows())
        same((len(got), type(got[0][1])), (1111, uuid.UUID))
        with cur.copy("copy users to stdout") as copy:
            same(sum(1 for _ in copy.rows()), 2020)
        with fails("23505"):
            with cur.copy("copy users (email, name) from stdin") as copy:
                copy.write_row(("fresh@example.com", "x"))
                copy.write_row(("user3@example.com", "x"))
        with fails("57014"):  # the client changes its mind
            with cur.copy("copy users (email, name) from stdin") as copy:
                copy.write_row(("fresh@example.com", "x"))
                raise KeyError("enough")
    same(rows("delete from users where email like 'copied%' or email like 'fresh%'"), 2000)


@check("errors")
def _():
    with fails("23505") as f:
        rows("insert into users (email, name) values (%s, 'x')", ("user2@example.com",))
    same((type(f.error), f.error.diag.constraint_name), (psycopg.errors.UniqueViolation, "users_email_key"))
    for code, sql in [
        ("23503", "insert into orders (customer_id) values (%s)"), ("23514", "update items set quantity = 0 where customer_id = 3 and %s > 0"),
        ("42P01", "select * from nowhere where id = %s"), ("42703", "select nothing from customers where id = %s"), ("42601", "selec %s"),
    ]:
        with fails(code):
            rows(sql, (999999,))
    with fails("22P02"):
        rows("select * from customers where id = %s", ("abc",))


@check("cancel and timeouts")
def _():
    conn.execute("set statement_timeout = 300")
    for sql in ("select pg_sleep(5)", "select id, pg_sleep(5) from customers"):
        with fails("57014"):
            conn.execute(sql)
    conn.execute("reset statement_timeout")
    over = threading.Event()

    def cancel():
        while not over.wait(0.3):
            conn.cancel()

    t = threading.Thread(target=cancel)
    t.start()
    try:
        with fails("57014"):
            conn.execute("select id, pg_sleep(20) from customers where id > %s", (0,))
    finally:
        over.set()
        t.join()
    eventually(lambda: same(rows("select 1"), [(1,)]), 5)


@check("LISTEN and NOTIFY")
def _():
    with psycopg.connect(autocommit=True) as c:
        got = []
        c.add_notify_handler(lambda n: got.append((n.channel, n.payload, n.pid == conn.info.backend_pid)))
        c.execute("listen news")
        conn.execute("notify news, 'one'")
        conn.execute("select pg_notify('news', %s)", ("two",))
        end = time.time() + 10
        while len(got) < 2 and time.time() < end:
            c.execute("select 1")
            time.sleep(0.05)
        same(got, [("news", "one", True), ("news", "two", True)])


@check("async connections")
def _():
    async def one(k):
        async with await psycopg.AsyncConnection.connect(autocommit=True) as c:
            for n in range(10):
                id = (n + k) % 20 + 1
                cur = await c.execute("select name from customers where id = %s", (id,))
                same(await cur.fetchone(), ("customer %d" % id,))

    async def main():
        await asyncio.gather(*(one(k) for k in range(20)))

    asyncio.run(main())


@check("async, the rest of it")
def _():
    async def main():
        async with await psycopg.AsyncConnection.connect(autocommit=True) as c:
            async with c.transaction():
                await c.execute("update customers set tags = '{async}'")
                with fails("23505"):
                    async with c.transaction():  # a savepoint
                        await c.execute("insert into users (email, name) values ('user1@example.com', 'x')")
                async with c.cursor("ids") as cur:
                    await cur.execute("select id from customers order by id")
                    same([r[0] for r in await cur.fetchmany(3)], [1, 2, 3])
                    same(len(await cur.fetchall()), 17)
            async with c.pipeline():
                curs = [await c.execute("select name from customers where id = %s", (i,)) for i in range(1, 21)]
                counted = await c.execute("select count(*) from customers where tags = '{async}'")
            same([await cur.fetchone() for cur in curs], [("customer %d" % i,) for i in range(1, 21)])
            same(await counted.fetchone(), (20,))
            async with c.cursor() as cur:
                async with cur.copy("copy customers (id, name, country) from stdin") as copy:
                    for i in range(7000, 7100):
                        await copy.write_row((i, "copied", "es"))
                async with cur.copy("copy (select id from customers where id >= 7000) to stdout") as copy:
                    same(len([r async for r in copy.rows()]), 100)
                await cur.execute("delete from customers where id >= 7000")
                same(cur.rowcount, 100)
                await cur.executemany("update customers set tags = %s where id = %s", [([], i) for i in range(1, 21)])
                same(cur.rowcount, 20)
            task = asyncio.ensure_future(c.execute("select pg_sleep(10) from customers"))
            await asyncio.sleep(0.3)
            c.cancel()
            with fails("57014"):
                await task
            await c.execute("listen async_news")
            rows("select pg_notify('async_news', 'x')")  # by another connection
            async for n in c.notifies():
                same((n.channel, n.payload), ("async_news", "x"))
                break

    asyncio.run(main())


@check("reconnect after a restart")
def _():
    restart()

    def again():
        global conn
        if conn.closed:
            conn = psycopg.connect(autocommit=True)
        for c in app.customers:
            same(rows("select name from customers where id = %s", (c["id"],)), [(c["name"],)])

    eventually(again)
    same(rows("update customers set tags = '{again}'"), 20)


done()
