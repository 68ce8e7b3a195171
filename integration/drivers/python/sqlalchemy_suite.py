"""SQLAlchemy 1.4 on psycopg2: create_all, ORM, Core, pools. (Its dialect for psycopg 3 came with 2.0.)"""

import datetime
import os
import threading
import uuid
from decimal import Decimal

from sqlalchemy import (
    BigInteger, Boolean, CHAR, CheckConstraint, Column, DateTime, Enum, Float, ForeignKey, ForeignKeyConstraint, Index, Integer, LargeBinary, MetaData, Numeric,
    String, Table, Text, UniqueConstraint, create_engine, func, inspect, select, text, update,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID, insert
from sqlalchemy.orm import Session, declarative_base, joinedload, relationship, selectinload, subqueryload

import app
from check import check, declare, done, eventually, fails, restart, same

Base = declarative_base()


class Product(Base):
    __tablename__ = "products"
    id = Column(Integer, primary_key=True)
    name = Column(Text, nullable=False, unique=True)
    price = Column(Numeric(10, 2), nullable=False)


class Customer(Base):
    __tablename__ = "customers"
    id = Column(BigInteger, primary_key=True)
    name = Column(String(100), nullable=False)
    country = Column(CHAR(2), nullable=False, index=True)
    tags = Column(ARRAY(Text), nullable=False, server_default="{}")
    created_at = Column(DateTime(timezone=True), nullable=False, server_default=func.now())
    orders = relationship("Order", back_populates="customer", order_by="Order.id", cascade="all, delete-orphan", passive_deletes=True)


class Order(Base):
    __tablename__ = "orders"
    id = Column(BigInteger, primary_key=True)
    customer_id = Column(ForeignKey("customers.id", ondelete="CASCADE"), nullable=False)
    status = Column(Enum("new", "paid", "shipped", "cancelled", name="order_status"), nullable=False, server_default="new")
    total = Column(Numeric(12, 2), nullable=False, server_default="0")
    note = Column(JSONB)
    version = Column(Integer, nullable=False)
    customer = relationship(Customer, back_populates="orders")
    items = relationship("Item", back_populates="order", order_by="Item.id", passive_deletes=True)
    __table_args__ = (UniqueConstraint("customer_id", "id"),)
    __mapper_args__ = {"version_id_col": version}


class Item(Base):
    __tablename__ = "items"
    id = Column(BigInteger, primary_key=True)
    customer_id = Column(BigInteger, nullable=False)
    order_id = Column(BigInteger, nullable=False)
    product_id = Column(ForeignKey("products.id"), nullable=False)
    quantity = Column(Integer, CheckConstraint("quantity > 0", name="items_quantity"), nullable=False)
    price = Column(Numeric(10, 2), nullable=False)
    order = relationship(Order, back_populates="items")
    product = relationship(Product)
    __table_args__ = (ForeignKeyConstraint(["customer_id", "order_id"], ["orders.customer_id", "orders.id"], ondelete="CASCADE"),)


class User(Base):
    __tablename__ = "users"
    id = Column(UUID(as_uuid=True), primary_key=True, default=uuid.uuid4)
    email = Column(Text, nullable=False, unique=True)
    name = Column(Text, nullable=False)


class Sample(Base):
    __tablename__ = "samples"
    id = Column(UUID(as_uuid=True), primary_key=True)
    b = Column(Boolean)
    f8 = Column(Float)
    num = Column(Numeric(30, 10))
    raw = Column(LargeBinary)
    at = Column(DateTime(timezone=True))
    jb = Column(JSONB)
    i4s = Column(ARRAY(Integer))
    st = Column(Enum("new", "paid", "shipped", "cancelled", name="order_status"))


url = "postgresql+psycopg2://"
engine = create_engine(url, pool_size=5, pool_pre_ping=True, future=True)


@check("connect")
def _():
    with engine.connect() as c:
        same(c.execute(text("select current_user")).scalar(), os.environ["PGUSER"])


@check("migrate")
def _():
    Base.metadata.create_all(engine)
    Base.metadata.drop_all(engine)
    Base.metadata.create_all(engine)


@check("declare")
def _():
    declare(*app.tables, "samples=id")


@check("seed")
def _():
    with Session(engine) as s, s.begin():
        s.add_all(Product(name=p["name"], price=p["price"]) for p in app.products)
        made = [Customer(name=c["name"], country=c["country"]) for c in app.customers]
        s.add_all(made)
        s.flush()
        same(sorted(c.id for c in made), [c["id"] for c in app.customers])
        s.bulk_insert_mappings(User, [dict(u) for u in app.users])
    with Session(engine) as s, s.begin():
        by_name = {c.name: c for c in s.execute(select(Customer)).scalars()}
        orders = [Order(customer=by_name["customer %d" % o["customer_id"]], status=o["status"], total=o["total"]) for o in app.orders]
        s.add_all(orders)
        s.flush()
        product = {p.name: p for p in s.execute(select(Product)).scalars()}
        for i in app.items:
            s.add(Item(order=orders[i["order_id"] - 1], product=product["product %d" % i["product_id"]], quantity=i["quantity"], price=i["price"]))


@check("migrate what is sharded")
def _():
    Base.metadata.create_all(engine)  # finds everything there
    with engine.begin() as c:
        c.execute(text("alter table customers add vip boolean not null default false"))
        Index("customers_vip", Customer.__table__.c.country, Customer.__table__.c.name).create(c)
    i = inspect(engine)
    same(sorted(i.get_table_names()), ["customers", "items", "orders", "products", "samples", "users"])
    same([c["name"] for c in i.get_columns("customers")][-1], "vip")
    same(i.get_pk_constraint("orders")["constrained_columns"], ["id"])
    same(sorted(f["referred_table"] for f in i.get_foreign_keys("items")), ["orders", "products"])
    same(len(i.get_indexes("customers")), 2)
    same([u["column_names"] for u in i.get_unique_constraints("users")], [["email"]])
    same([e["name"] for e in i.get_enums()], ["order_status"])
    reflected = Table("orders", MetaData(), autoload_with=engine)
    same(len(reflected.columns), 6)


@check("read and write")
def _():
    with Session(engine) as s:
        same(s.get(Customer, 7).country.strip() in ("fr", "de"), True)
        same(s.execute(select(User).where(User.email == "user9@example.com")).scalar_one().name, "user 9")
        same(s.execute(select(Customer.id).where(Customer.id.in_([1, 5, 9])).order_by(Customer.id)).scalars().all(), [1, 5, 9])
        c = Customer(name="tmp", country="it", orders=[Order(status="new"), Order(status="paid")])
        s.add(c)
        s.commit()
        c.name, c.tags = "changed", ["a", "b"]
        c.orders[0].total = 5
        s.commit()
        same((c.name, c.tags, c.orders[0].total, c.orders[0].version), ("changed", ["a", "b"], 5, 2))
        del c.orders[0]
        s.commit()
        same(len(c.orders), 1)
        s.delete(c)
        s.commit()
        same(s.execute(update(Customer).where(Customer.country == "de").values(tags=["x"]).execution_options(synchronize_session=False)).rowcount, 10)
        same(s.query(Customer).filter(Customer.tags.contains(["x"])).update({"tags": []}, synchronize_session="fetch"), 10)
        s.commit()


@check("upsert")
def _():
    with engine.begin() as c:
        q = insert(User).values(id=uuid.uuid4(), email="user1@example.com", name="renamed")
        same(c.execute(q.on_conflict_do_update(index_elements=["email"], set_={"name": q.excluded.name}).returning(User.name)).scalar(), "renamed")
        c.execute(update(User).where(User.email == "user1@example.com").values(name="user 1"))
        same(c.execute(insert(User).values([{"id": uuid.uuid4(), **u} for u in app.users[:3]]).on_conflict_do_nothing()).rowcount, 0)


@check("relations")
def _():
    want = [c["id"] % 4 for c in app.customers]
    for load in (joinedload, selectinload, subqueryload):
        with Session(engine) as s:
            # populate by name: ids of rows made in one statement are in no order
            got = s.execute(select(Customer).options(load(Customer.orders).options(load(Order.items).joinedload(Item.product)))).unique().scalars().all()
            by = {c.name: c for c in got}
            same([len(by[c["name"]].orders) for c in app.customers], want)
            same(sum(len(o.items) for c in got for o in c.orders), len(app.items))
    with Session(engine) as s:
        lazy = s.execute(select(Customer).filter_by(name="customer 3")).scalar_one()
        same(sum(len(o.items) for o in lazy.orders), 6)
        same(lazy.orders[0].items[0].product.name.startswith("product"), True)
        same(s.execute(select(func.count()).select_from(Customer).where(Customer.orders.any(Order.status == "shipped"))).scalar(), 5)
        same(s.execute(select(func.count()).select_from(Customer).where(~Customer.orders.any())).scalar(), 5)
        same(s.execute(select(func.count()).select_from(Item).join(Item.order).join(Order.customer).where(Customer.country == "fr")).scalar() > 0, True)


@check("pages and aggregates")
def _():
    with Session(engine) as s:
        got = []
        for page in range(4):
            got += s.execute(select(Customer.id).order_by(Customer.id).limit(6).offset(page * 6)).scalars().all()
        same(got, [c["id"] for c in app.customers])
        same(tuple(s.execute(select(func.count(), func.sum(Order.total))).one()), (len(app.orders), app.total))
        r = s.execute(select(Order.status, func.count(), func.sum(Order.total)).group_by(Order.status).order_by(Order.status)).all()
        same([tuple(x) for x in r], app.by_status)
        spent = func.coalesce(func.sum(Order.total), 0)
        r = s.execute(select(Customer.name, spent).outerjoin(Customer.orders).group_by(Customer.id).order_by(spent.desc(), Customer.id).limit(3)).all()
        same([x[1] for x in r], [x[1] for x in app.best])
        ranked = select(Order.id, func.rank().over(partition_by=Order.customer_id, order_by=Order.total.desc()).label("r")).subquery()
        same(s.execute(select(func.count()).select_from(ranked).where(ranked.c.r == 1)).scalar() >= 15, True)
        big = select(Order).where(Order.total > 20).cte("big")
        same(s.execute(select(func.count()).select_from(big)).scalar(), sum(1 for o in app.orders if o["total"] > 20))
        page = s.execute(select(Customer).options(joinedload(Customer.orders)).order_by(Customer.id).limit(5)).unique().scalars().all()
        same(len(page), 5)


@check("transactions")
def _():
    with Session(engine) as s:
        with fails("22012"):
            with s.begin():
                s.execute(update(Customer).where(Customer.id.in_([1, 2, 3])).values(country="xx"))
                s.execute(text("select 1/0"))
        same(s.execute(select(func.count()).select_from(Customer).where(Customer.country == "xx")).scalar(), 0)
        s.rollback()
        with s.begin():
            with fails("23505"):
                with s.begin_nested():
                    s.add(User(email="user1@example.com", name="twice"))
                    s.flush()
            with s.begin_nested():
                s.execute(update(Customer).where(Customer.id.in_([1, 2])).values(tags=["t"]))
        same(s.execute(select(Customer.tags).where(Customer.id == 1)).scalar(), ["t"])
        s.rollback()
        with s.begin():
            locked = s.execute(select(Customer).where(Customer.id.in_([1, 2])).with_for_update()).scalars().all()
            same(len(locked), 2)
            with Session(engine) as other:
                same(other.execute(select(Customer.id).where(Customer.id.in_([2, 3])).with_for_update(skip_locked=True)).scalars().all(), [3])
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as c:
        same(c.execute(text("show transaction_isolation")).scalar(), "repeatable read")
        same(c.execute(select(func.count()).select_from(Order)).scalar(), len(app.orders))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as c:
        same(c.execute(update(Customer).values(tags=[])).rowcount, 20)


@check("stale data")
def _():
    with Session(engine) as a, Session(engine) as b:
        x, y = a.get(Order, a.execute(select(func.min(Order.id))).scalar()), None
        y = b.get(Order, x.id)
        x.note = {"by": "a"}
        a.commit()
        y.note = {"by": "b"}
        try:
            b.commit()
            raise AssertionError("no StaleDataError")
        except Exception as e:
            same(type(e).__name__, "StaleDataError")


@check("streaming")
def _():
    with engine.connect() as c:
        r = c.execution_options(stream_results=True, max_row_buffer=7).execute(select(Item.id).order_by(Item.id))
        same(sum(1 for _ in r), len(app.items))
        r = c.execution_options(stream_results=True).execute(select(Order).order_by(Order.id))
        same(sum(len(p) for p in r.partitions(4)), len(app.orders))
    with Session(engine) as s:
        same(sum(1 for _ in s.execute(select(Customer).execution_options(yield_per=6)).scalars()), 20)


@check("types")
def _():
    row = dict(
        id=uuid.uuid4(), b=True, f8=-2.25, num=Decimal("12345678901234567890.0123456789"), raw=b"\x00\xff", at=datetime.datetime(2024, 2, 29, 12, 0, tzinfo=datetime.timezone.utc),
        jb={"k": {"n": 1}}, i4s=[1, 2], st="paid",
    )
    with Session(engine) as s:
        s.add(Sample(**row))
        s.commit()
        got = s.execute(select(Sample).where(Sample.jb["k"]["n"].as_integer() == 1)).scalar_one()
        same({k: getattr(got, k) for k in row}, row)


@check("errors")
def _():
    for code, sql in [
        ("23505", "insert into users (id, email, name) values (gen_random_uuid(), 'user2@example.com', 'x')"), ("23503", "insert into orders (customer_id, version) values (999999, 1)"),
        ("23514", "update items set quantity = 0 where customer_id in (select customer_id from items)"), ("42P01", "select * from nowhere"),
    ]:
        with fails(code), engine.begin() as c:
            c.execute(text(sql))


@check("bulk")
def _():
    fast = create_engine(url, executemany_mode="values_plus_batch", future=True)
    with fast.begin() as c:
        c.execute(User.__table__.insert(), [{"id": uuid.uuid4(), "email": "bulk%d@example.com" % i, "name": "x"} for i in range(1500)])
        c.execute(update(User.__table__).where(User.__table__.c.email == text(":e")).values(name="y"), [{"e": "bulk%d@example.com" % i} for i in range(50)])
        same(c.execute(User.__table__.delete().where(User.email.like("bulk%"))).rowcount, 1500)
    fast.dispose()


@check("threads and a pool")
def _():
    wide = create_engine(url, pool_size=10, max_overflow=10, future=True)
    wrong = []

    def work(k):
        try:
            for n in range(10):
                with Session(wide) as s, s.begin():
                    got = s.execute(select(Customer).options(selectinload(Customer.orders)).filter_by(name="customer %d" % ((n + k) % 20 + 1))).scalar_one()
                    if len(got.orders) != ((n + k) % 20 + 1) % 4:
                        wrong.append(k)
        except Exception as e:
            wrong.append(e)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(15)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    wide.dispose()
    same(wrong, [])


@check("reconnect after a restart")
def _():
    restart()

    def again():
        with Session(engine) as s:
            for c in app.customers:
                same(s.get(Customer, c["id"]) is not None, True)

    eventually(again)
    with engine.begin() as c:
        same(c.execute(update(Customer).values(tags=["again"])).rowcount, 20)


done()
