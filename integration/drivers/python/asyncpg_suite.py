"""asyncpg: a protocol of its own, binary throughout, statements prepared unasked, types looked up in the catalogs."""

import asyncio
import datetime
import os
import ssl
import uuid
from decimal import Decimal

import asyncpg

import app
from check import check, declare, done, eventually, fails, restart, same

loop = asyncio.new_event_loop()
tls = ssl.create_default_context(cafile=os.environ["PGSSLROOTCERT"])
tls.check_hostname = False
conn = None


def run(f):
    """The decorated coroutine, run at once."""
    return lambda: loop.run_until_complete(f())


# Its questions about types take PostgreSQL's compiler seconds.
settings = {"jit": "off"}


async def connect(server_settings={}, **how):
    return await asyncpg.connect(ssl=tls, server_settings={**settings, **server_settings}, **how)


def tuples(rows):
    return [tuple(r) for r in rows]


class fails_with:
    def __init__(self, kind):
        self.kind = kind

    def __enter__(self):
        return self

    def __exit__(self, kind, e, tb):
        if not isinstance(e, self.kind):
            raise AssertionError("got %r, want %s" % (e, self.kind.__name__))
        return True


async def eventually_async(f):
    try:
        return await f()
    except asyncpg.InvalidCachedStatementError:
        return await f()


@check("connect")
@run
async def _():
    global conn
    conn = await connect()
    same(await conn.fetchval("select current_user"), os.environ["PGUSER"])
    same(conn.get_server_version().major >= 14, True)
    with fails("28P01"):
        await connect(password="wrong")
    with fails("3D000"):
        await connect(database="nowhere")
    c = await connect(server_settings={"application_name": "asy", "search_path": "public"})
    same(await c.fetchval("select current_setting('application_name')"), "asy")
    await c.close()


@check("migrate")
@run
async def _():
    async with conn.transaction():
        await conn.execute(app.schema)


@check("declare")
def _():
    declare(*app.tables, "samples=id", "lookup:users.email")


@check("seed")
@run
async def _():
    await conn.executemany("insert into products (name, price) values ($1, $2)", [(p["name"], p["price"]) for p in app.products])
    got = [await conn.fetchval("insert into customers (name, country) values ($1, $2) returning id", c["name"], c["country"]) for c in app.customers]
    same(got, [c["id"] for c in app.customers])
    async with conn.transaction():
        await conn.executemany(
            "insert into orders (customer_id, status, total) values ($1, $2, $3)", [(o["customer_id"], o["status"], o["total"]) for o in app.orders]
        )
    names = ["customer_id", "order_id", "product_id", "quantity", "price"]
    same(await conn.copy_records_to_table("items", columns=names, records=[tuple(i[n] for n in names) for i in app.items]), "COPY %d" % len(app.items))
    await conn.executemany("insert into users (email, name) values ($1, $2)", [(u["email"], u["name"]) for u in app.users])


@check("read and write")
@run
async def _():
    same(tuple(await conn.fetchrow("select name, country from customers where id = $1", 7)), ("customer 7", "fr"))
    same(await conn.fetchval("select name from users where email = $1", "user9@example.com"), "user 9")
    same(await conn.fetchrow("select name from users where email = $1", "nobody"), None)
    same(len(await conn.fetch("select * from customers where id = any($1)", [1, 5, 9, 1000])), 3)
    same(await conn.execute("update customers set tags = $2 where id = $1", 3, ["a", 'b"c', None]), "UPDATE 1")
    same(await conn.fetchval("select tags from customers where id = 3"), ["a", 'b"c', None])
    same(await conn.execute("update customers set tags = '{}'"), "UPDATE 20")
    row = await conn.fetchrow("insert into users (email, name) values ($1, $2) on conflict (email) do update set name = excluded.name returning name, email", "user1@example.com", "again")
    same(dict(row), {"name": "again", "email": "user1@example.com"})
    await conn.execute("update users set name = 'user 1' where email = 'user1@example.com'")
    same(await conn.execute("insert into users (email, name) values ($1, 'x') on conflict do nothing", "user1@example.com"), "INSERT 0 0")
    id = await conn.fetchval("insert into customers (name, country) values ('gone', 'it') returning id")
    same(await conn.execute("delete from customers where id = $1", id), "DELETE 1")


@check("joins, pages, aggregates")
@run
async def _():
    sql = """select c.id, count(distinct o.id), coalesce(sum(i.quantity * i.price), 0) from customers c
        left join orders o on o.customer_id = c.id left join items i on i.customer_id = o.customer_id and i.order_id = o.id
        group by c.id order by 3 desc, 1 limit $1"""
    same([(r[0], r[2]) for r in await conn.fetch(sql, 3)], app.best)
    same(tuples(await conn.fetch("select status::text, count(*), sum(total) from orders group by 1 order by min(status)")), app.by_status)
    same(await conn.fetchval("select sum(total) from orders"), app.total)
    ids = [c["id"] for c in app.customers]
    for at in range(0, 20, 6):
        same([r["id"] for r in await conn.fetch("select id from customers order by id limit $1 offset $2", 6, at)], ids[at : at + 6])
    same([r["id"] for r in await conn.fetch("select id from customers where id > $1 order by id limit 4", 10)], [11, 12, 13, 14])
    rows = await conn.fetch("select p.name, sum(i.quantity) as n from items i join products p on p.id = i.product_id group by p.name having sum(i.quantity) > $1 order by n desc, 1", 0)
    same(sum(r["n"] for r in rows), sum(i["quantity"] for i in app.items))


@check("transactions")
@run
async def _():
    tx = conn.transaction()
    await tx.start()
    await conn.execute("update customers set country = 'xx'")
    await tx.rollback()
    same(await conn.fetchval("select count(*) from customers where country = 'xx'"), 0)
    async with conn.transaction():
        await conn.execute("update customers set country = 'yy' where id in (1, 2, 3)")
        with fails("23505"):
            async with conn.transaction():  # a savepoint
                await conn.execute("update customers set country = 'zz' where id in (4, 5)")
                await conn.execute("insert into users (email, name) values ('user2@example.com', 'x')")
        same(await conn.fetchval("select count(*) from customers where country in ('yy', 'zz')"), 3)
        await conn.execute("update customers set country = case id % 2 when 1 then 'fr' else 'de' end where id < 4")
    async with conn.transaction(isolation="repeatable_read", readonly=True):
        with fails("25006"):
            async with conn.transaction():
                await conn.execute("update customers set country = 'zz' where id = 4")
        same(await conn.fetchval("select count(*) from orders"), len(app.orders))
    same(tuples(await conn.fetch("select country, count(*) from customers group by 1 order by 1")), [("de", 10), ("fr", 10)])


@check("cursors")
@run
async def _():
    async with conn.transaction():
        got = [r["id"] async for r in conn.cursor("select id from items order by id", prefetch=7)]
        same(got, [i["id"] for i in app.items])
        cur = await conn.cursor("select id from customers where id > $1 order by id", 5)
        same([r[0] for r in await cur.fetch(3)], [6, 7, 8])
        same(await cur.forward(2), 2)
        same((await cur.fetchrow())[0], 11)
    with fails_with(asyncpg.NoActiveSQLTransactionError):
        await conn.cursor("select 1")


@check("prepared statements")
@run
async def _():
    one = await conn.prepare("select name, country from customers where id = $1")
    same([str(p.name) for p in one.get_parameters()], ["int8"])
    same([(a.name, a.type.name) for a in one.get_attributes()], [("name", "varchar"), ("country", "bpchar")])
    many = await conn.prepare("select count(*) from orders where total > $1")
    for n in range(300):
        id = n % 20 + 1
        same((await one.fetchrow(id))["name"], "customer %d" % id)
        if n % 50 == 0:
            same(await many.fetchval(Decimal(0)), len(app.orders))
    # More texts than the client's cache holds: the oldest are closed.
    for n in range(150):
        same(await conn.fetchval("select %d + $1::int" % n, 1), n + 1)
    # A result that changes under a statement.
    await conn.execute("alter table customers add column extra int")
    same(len(await conn.fetchrow("select * from customers where id = $1", 1)), 7)
    await conn.execute("alter table customers drop column extra")
    same(len(await eventually_async(lambda: conn.fetchrow("select * from customers where id = $1", 1))), 6)


@check("types")
@run
async def _():
    address = await conn.fetchval("select row('street', 7, 'city')::address")
    same((address["street"], address["number"], address["city"]), ("street", 7, "city"))
    now = datetime.datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=datetime.timezone.utc)
    values = {
        "id": uuid.UUID(int=5), "b": True, "i2": -2, "i4": 4, "i8": 2**40, "f4": 1.5, "f8": 1e300, "num": Decimal("12345678901234567890.0123456789"),
        "t": "é\n'\"\\", "vc": "vc", "raw": bytes(range(256)), "d": datetime.date(2024, 2, 29), "tm": datetime.time(1, 2, 3, 4), "ts": now.replace(tzinfo=None),
        "tstz": now, "iv": datetime.timedelta(days=3, seconds=4), "j": '{"a": [1, null]}', "jb": '{"a": [1, null]}', "i4s": [[1, 2], [3, None]], "ts_": ["", None, "{}"],
        "nums": [Decimal("1.10"), None], "uuids": [uuid.UUID(int=1)], "st": "paid", "sts": ["new", "cancelled"], "addr": ("a, b", 1, None),
        "ip": "10.0.0.1", "r": asyncpg.Range(1, 5),
    }
    names = list(values)
    await conn.execute("insert into samples (%s) values (%s)" % (", ".join(names), ", ".join("$%d" % (i + 1) for i in range(len(names)))), *values.values())
    got = dict(await conn.fetchrow("select * from samples where id = $1", values["id"]))
    got["ip"], got["addr"] = str(got["ip"]), tuple(got["addr"])
    same(got, values)
    await conn.execute("insert into samples (id) values ($1)", uuid.UUID(int=6))
    same(set(list(dict(await conn.fetchrow("select * from samples where id = $1", uuid.UUID(int=6))).values())[1:]), {None})
    # On several shards at once, with types of the user's.
    rows = await conn.fetch("select st, sts, addr, array_agg(st) over () as all_of from samples order by id")
    same((rows[0]["st"], rows[0]["sts"], rows[0]["addr"]["number"], rows[0]["all_of"].count("paid")), ("paid", ["new", "cancelled"], 1, 1))
    await conn.set_type_codec("jsonb", schema="pg_catalog", encoder=str, decoder=lambda s: ("json", s), format="text")
    same((await conn.fetchval("select jb from samples where id = $1", values["id"]))[0], "json")
    await conn.reset_type_codec("jsonb", schema="pg_catalog")


@check("COPY")
@run
async def _():
    records = [(i, "copied %d" % i, "es") for i in range(1000, 3000)]
    same(await conn.copy_records_to_table("customers", columns=["id", "name", "country"], records=records), "COPY 2000")
    out = []

    async def take(data):
        out.append(data)

    same(await conn.copy_from_query("select id, name from customers where id >= $1 order by id", 1000, output=take, format="csv"), "COPY 2000")
    same(b"".join(out).decode().splitlines()[1999], "2999,copied 2999")
    same(await conn.copy_from_table("customers", columns=["id"], output=take), "COPY 2020")
    with fails("23505"):
        await conn.copy_records_to_table("customers", columns=["id", "name", "country"], records=[(5000, "x", "es"), (1500, "x", "es")])
    same(await conn.execute("delete from customers where id >= 1000"), "DELETE 2000")


@check("errors")
@run
async def _():
    for code, sql in (
        ("42601", "selec 1"), ("42P01", "select * from nothing"), ("42703", "select nothing from customers"), ("22012", "select 1 / 0"),
        ("23502", "insert into customers (name) values ('x')"), ("23503", "insert into orders (customer_id) values (999999)"),
        ("23514", "insert into products (name, price) values ('x', -1)"), ("22P02", "select 'x'::int from customers"),
    ):
        with fails(code):
            await conn.fetch(sql)
    with fails("23505") as f:
        await conn.execute("insert into users (email, name) values ('user3@example.com', 'x')")
    same((f.error.constraint_name, f.error.table_name, f.error.detail), ("users_email_key", "users", "Key (email)=(user3@example.com) already exists."))
    with fails_with(asyncpg.DataError):
        await conn.fetch("select * from customers where id = $1", "seven")
    same(await conn.fetchval("select 1"), 1)


@check("cancel and timeouts")
@run
async def _():
    with fails_with(asyncio.TimeoutError):
        await conn.fetch("select pg_sleep(10), count(*) from customers", timeout=0.3)
    same(await conn.fetchval("select count(*) from customers"), 20)
    task = asyncio.ensure_future(conn.fetch("select pg_sleep(10) from customers where id = 3"))
    await asyncio.sleep(0.3)
    task.cancel()
    with fails_with(asyncio.CancelledError):
        await task
    same(await conn.fetchval("select count(*) from customers"), 20)
    await conn.execute("set statement_timeout = '200ms'")
    with fails("57014"):
        await conn.fetch("select pg_sleep(5) from customers")
    await conn.execute("reset statement_timeout")


@check("LISTEN and NOTIFY")
@run
async def _():
    got = asyncio.Queue()
    other = await connect()
    await other.add_listener("news", lambda c, pid, channel, payload: got.put_nowait((channel, payload)))
    await conn.execute("notify news, 'one'")
    async with conn.transaction():
        await conn.execute("update customers set tags = '{}' where id in (1, 2)")
        await conn.execute("select pg_notify('news', $1)", "two")
    same([await asyncio.wait_for(got.get(), 10) for _ in range(2)], [("news", "one"), ("news", "two")])
    await other.close()


@check("a pool and many tasks")
@run
async def _():
    async with asyncpg.create_pool(ssl=tls, server_settings=settings, min_size=2, max_size=10) as pool:

        async def work(k):
            for n in range(10):
                id = (n + k) % 20 + 1
                async with pool.acquire() as c:
                    same(await c.fetchval("select name from customers where id = $1", id), "customer %d" % id)
                    if n % 5 == 0:
                        async with c.transaction():
                            await c.execute("update customers set tags = array_append(tags, $2) where id = $1", id, "t%d" % k)
                            await c.execute("update customers set tags = array_append(tags, $2) where id = $1", id % 20 + 1, "u%d" % k)

        await asyncio.gather(*(work(k) for k in range(30)))
        same(await pool.fetchval("select sum(cardinality(tags)) from customers"), 30 * 2 * 2)
        await pool.execute("update customers set tags = '{}'")


@check("session state")
@run
async def _():
    await conn.execute("create temp table mine (i int)")
    await conn.executemany("insert into mine values ($1)", [(i,) for i in range(5)])
    same(await conn.fetchval("select count(*) from mine join customers c on c.id = mine.i"), 4)
    await conn.reset()
    same(await conn.fetchval("show application_name"), "")
    same(await conn.fetchval("select count(*) from mine"), 5)
    await conn.execute("drop table mine")


@check("reconnect after a restart")
def _():
    restart()

    async def again():
        global conn
        if conn.is_closed():
            conn = await connect()
        for c in app.customers:
            same(await conn.fetchval("select name from customers where id = $1", c["id"]), c["name"])

    eventually(lambda: loop.run_until_complete(again()))
    same(loop.run_until_complete(conn.execute("update customers set tags = '{again}'")), "UPDATE 20")


done()
