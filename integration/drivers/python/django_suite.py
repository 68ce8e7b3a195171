"""Django 3.2: migrations before and after the declaration, the ORM, transactions."""

import datetime
import os
import threading
import uuid
from decimal import Decimal

import django
from django.conf import settings

settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql", "HOST": os.environ["PGHOST"], "PORT": os.environ["PGPORT"], "NAME": os.environ["PGDATABASE"],
            "USER": os.environ["PGUSER"], "PASSWORD": os.environ["PGPASSWORD"], "OPTIONS": {"sslmode": os.environ.get("PGSSLMODE", "prefer")},
            "CONN_MAX_AGE": 60,
        }
    },
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions", "django.contrib.postgres", "shop"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField", USE_TZ=True, SECRET_KEY="none",
)
django.setup()

from django.core.management import call_command
from django.core.paginator import Paginator
from django.db import OperationalError, close_old_connections, connection, transaction
from django.db.models import Avg, Case, Count, Exists, F, Max, OuterRef, Prefetch, Q, Subquery, Sum, Value, When, Window
from django.db.models.functions import Coalesce, Rank, TruncMonth

import app
from check import check, declare, done, eventually, fails, restart, same
from shop.models import Customer, Item, Order, Product, Sample, User


@check("connect")
def _():
    with connection.cursor() as cur:
        cur.execute("select current_user")
        same(cur.fetchone(), (os.environ["PGUSER"],))


@check("migrate")
def _():
    # Until the tables are declared: what comes after 0002 alters sharded ones.
    call_command("migrate", "shop", "0002", verbosity=0)
    call_command("migrate", "auth", verbosity=0)
    call_command("migrate", "sessions", verbosity=0)


@check("declare")
def _():
    declare("products=reference", "customers=id", "orders=customer_id", "items=customer_id", "users=id", "samples=id")


@check("migrate what is sharded")
def _():
    call_command("migrate", verbosity=0)
    call_command("migrate", "shop", "0002", verbosity=0)
    call_command("migrate", verbosity=0)
    call_command("makemigrations", "shop", check_changes=True, dry_run=True, verbosity=0)
    same("vip" in [c.name for c in connection.introspection.get_table_description(connection.cursor(), "customers")], True)
    with open(os.devnull, "w") as out:
        call_command("inspectdb", stdout=out)


made = {}


@check("seed")
def _():
    Product.objects.bulk_create(Product(name=p["name"], price=p["price"]) for p in app.products)
    for c in app.customers:
        made[c["id"]] = Customer.objects.create(name=c["name"], country=c["country"])
    with transaction.atomic():
        orders = [Order.objects.create(customer=made[o["customer_id"]], status=o["status"], total=o["total"]) for o in app.orders]
    products = {p.name: p for p in Product.objects.all()}
    got = Item.objects.bulk_create(
        [
            Item(customer_id=made[i["customer_id"]].id, order=orders[i["order_id"] - 1], product=products["product %d" % i["product_id"]], quantity=i["quantity"], price=i["price"])
            for i in app.items
        ],
        batch_size=20,
    )
    same(len({i.pk for i in got}), len(app.items))
    User.objects.bulk_create(User(**u) for u in app.users)


@check("read")
def _():
    same(Customer.objects.get(pk=made[7].pk).name, "customer 7")
    same(User.objects.get(email="user9@example.com").name, "user 9")
    same(User.objects.filter(email="nobody").first(), None)
    same(Customer.objects.filter(pk__in=[made[1].pk, made[5].pk]).count(), 2)
    same(set(Customer.objects.in_bulk([made[1].pk, made[2].pk])), {made[1].pk, made[2].pk})
    same(Customer.objects.filter(Q(country="de") | Q(pk=made[1].pk)).exclude(name__endswith="20").count(), 10)
    same(Customer.objects.filter(name__icontains="CUSTOMER 1").exists(), True)
    same(list(Customer.objects.order_by("pk").values_list("name", flat=True)[2:4]), ["customer 3", "customer 4"])
    same(Customer.objects.earliest("created_at").name, "customer 1")
    same(Customer.objects.values("country").distinct().count(), 2)
    same(Order.objects.dates("placed_at", "year").count(), 1)


@check("write")
def _():
    c = Customer.objects.create(name="tmp", country="it")
    c.name, c.tags = "changed", ["a", "b"]
    c.save()
    c.refresh_from_db()
    same((c.name, c.tags), ("changed", ["a", "b"]))
    c.save(update_fields=["name"])
    Order.objects.create(customer=c, total=5)
    same(Order.objects.filter(customer=c).update(total=F("total") + 1), 1)
    same(c.orders.get().total, Decimal(6))
    same(c.delete()[0], 2)
    same(Customer.objects.filter(country="de").update(vip=True), 10)
    batch = list(Customer.objects.filter(vip=True))
    for x in batch:
        x.vip = False
    Customer.objects.bulk_update(batch, ["vip"])
    same(Customer.objects.filter(vip=True).count(), 0)
    same(Customer.objects.update(country=Case(When(country="de", then=Value("de")), default=Value("fr"))), 20)


@check("get or create, upsert")
def _():
    same(User.objects.get_or_create(email="user1@example.com", defaults={"name": "never"})[1], False)
    u, fresh = User.objects.get_or_create(email="fresh@example.com", defaults={"name": "fresh"})
    same((u.name, fresh), ("fresh", True))
    u, fresh = User.objects.update_or_create(email="fresh@example.com", defaults={"name": "changed"})
    same((u.name, fresh), ("changed", False))
    u.delete()
    User.objects.bulk_create([User(email="user1@example.com", name="x"), User(email="user2@example.com", name="x")], ignore_conflicts=True)
    Product.objects.bulk_create([Product(name="product 1", price=1)], ignore_conflicts=True)
    same((User.objects.count(), Product.objects.count()), (20, 10))


@check("relations")
def _():
    want = {c["name"]: c["id"] % 4 for c in app.customers}
    got = Customer.objects.prefetch_related(Prefetch("orders", Order.objects.order_by("id")), "orders__items__product")
    same({c.name: len(c.orders.all()) for c in got}, want)
    same(sum(len(o.items.all()) for c in got for o in c.orders.all()), len(app.items))
    joined = Item.objects.select_related("order__customer", "product").order_by("pk")
    same([i.order.customer.name for i in joined], ["customer %d" % i["customer_id"] for i in app.items])
    same(made[3].orders.filter(items__product__price__gt=0).distinct().count(), 3)
    same(Customer.objects.filter(orders__status="shipped").count(), 5)
    same(Customer.objects.filter(orders=None).count(), 5)
    same(Customer.objects.filter(Exists(Order.objects.filter(customer=OuterRef("pk"), status="paid"))).count(), 10)
    newest = Order.objects.filter(customer=OuterRef("pk")).order_by("-pk")
    got = Customer.objects.annotate(last=Subquery(newest.values("status")[:1])).order_by("pk").values_list("last", flat=True)
    same(list(got)[:4], ["new", "paid", "shipped", None])
    a = Customer.objects.filter(name="customer 1").values_list("name")
    same(sorted(a.union(User.objects.filter(email="user2@example.com").values_list("name"))), [("customer 1",), ("user 2",)])


@check("pages and aggregates")
def _():
    pages = Paginator(Customer.objects.order_by("pk"), 6)
    same([c.name for n in pages.page_range for c in pages.page(n)], [c["name"] for c in app.customers])
    same(Order.objects.aggregate(n=Count("pk"), sum=Sum("total"), top=Max("total"))["sum"], app.total)
    same(list(Order.objects.values_list("status").annotate(n=Count("pk"), sum=Sum("total")).order_by("status")), app.by_status)
    best = Customer.objects.annotate(spent=Coalesce(Sum("orders__total"), Decimal(0))).order_by("-spent", "pk")[:3]
    same([(c.name, c.spent) for c in best], [("customer %d" % i, s) for i, s in app.best])
    same(Customer.objects.annotate(n=Count("orders")).filter(n__gt=2).count(), 5)
    same(Customer.objects.annotate(n=Count("orders", filter=Q(orders__status="new"))).aggregate(a=Avg("n"))["a"], 0.75)
    ranked = Order.objects.annotate(r=Window(Rank(), partition_by=F("customer"), order_by=F("total").desc()))
    same(sum(1 for o in ranked if o.r == 1) >= 15, True)
    same(Order.objects.annotate(m=TruncMonth("placed_at")).values("m").annotate(n=Count("pk"))[0]["n"], len(app.orders))
    counted = Customer.objects.annotate(orders_n=Count("orders", distinct=True), items_n=Count("orders__items", distinct=True)).get(pk=made[3].pk)
    same((counted.orders_n, counted.items_n), (3, 6))


@check("transactions")
def _():
    with fails("22012"):
        with transaction.atomic(), connection.cursor() as cur:
            Customer.objects.filter(pk__lte=made[3].pk).update(country="xx")
            cur.execute("select 1/0")
    same(Customer.objects.filter(country="xx").count(), 0)
    ran = []
    with transaction.atomic():
        with fails("23505"):
            with transaction.atomic():
                Customer.objects.update(country="yy")
                User.objects.create(email="user1@example.com", name="twice")
        sid = transaction.savepoint()
        Customer.objects.update(country="zz")
        transaction.savepoint_rollback(sid)
        locked = Customer.objects.select_for_update().filter(pk__in=[made[1].pk, made[2].pk])
        same(len(locked), 2)
        transaction.on_commit(lambda: ran.append(1))
    same((Customer.objects.filter(country__in=["yy", "zz"]).count(), ran), (0, [1]))
    with transaction.atomic():
        Customer.objects.update(country="zz")
        transaction.set_rollback(True)
    same(Customer.objects.filter(country="zz").count(), 0)


@check("server-side cursors")
def _():
    same([i.quantity for i in Item.objects.order_by("pk").iterator(chunk_size=7)], [i["quantity"] for i in app.items])
    with transaction.atomic():
        it = Order.objects.order_by("pk").iterator(chunk_size=5)
        seen = 0
        for o in it:
            seen += 1
            if seen % 10 == 0:
                Customer.objects.filter(pk=o.customer_id).update(vip=True)
        same(seen, len(app.orders))
        transaction.set_rollback(True)


@check("types")
def _():
    row = dict(
        id=uuid.uuid4(), b=True, f8=-2.25, num=Decimal("12345678901234567890.0123456789"), d=datetime.date(2024, 2, 29), slug="s",
        at=datetime.datetime(2024, 2, 29, 12, 0, 0, 123, tzinfo=datetime.timezone.utc), iv=datetime.timedelta(days=1, seconds=2), jb={"k": {"n": [1, None]}}, i4s=[1, 2, 3], ip="10.0.0.1",
    )
    Sample.objects.create(raw=b"\x00\xff", **row)
    got = Sample.objects.get(jb__k__n__0=1, i4s__contains=[2], d__year=2024)
    same({k: getattr(got, k) for k in row}, row)
    same(bytes(got.raw), b"\x00\xff")
    same(Sample.objects.filter(jb__has_key="k", i4s__len=3, at__date=datetime.date(2024, 2, 29)).count(), 1)


@check("errors and timeouts")
def _():
    for code, f in [
        ("23505", lambda: User.objects.create(email="user2@example.com", name="x")), ("23514", lambda: Item.objects.update(quantity=0)),
        ("23503", lambda: Order.objects.create(customer_id=999999)), ("23502", lambda: Customer.objects.filter(pk=made[1].pk).update(name=None)),
    ]:
        with fails(code):
            with transaction.atomic():
                f()
                with connection.cursor() as cur:
                    cur.execute("set constraints all immediate")
    with fails("57014"):
        with transaction.atomic(), connection.cursor() as cur:
            cur.execute("set local statement_timeout = 300")
            cur.execute("select pg_sleep(5)")


@check("deferred foreign keys")
def _():
    # Django's foreign keys are checked at COMMIT.
    with fails("23503"):
        with transaction.atomic():
            Order.objects.create(customer_id=999999)
            same(Order.objects.filter(customer_id=999999).count(), 1)
    same(Order.objects.filter(customer_id=999999).count(), 0)


@check("auth and sessions, at home")
def _():
    from django.contrib.auth.models import Permission
    from django.contrib.auth.models import User as Login
    from django.contrib.sessions.backends.db import SessionStore

    u = Login.objects.create_user("ann", password="pw")
    u.user_permissions.add(*Permission.objects.all()[:2])
    same(u.user_permissions.count(), 2)
    s = SessionStore()
    s["cart"] = [1, 2]
    s.save()
    same(SessionStore(s.session_key)["cart"], [1, 2])


@check("threads")
def _():
    wrong = []

    def work(k):
        try:
            for n in range(10):
                i = (n + k) % 20 + 1
                with transaction.atomic():
                    if Customer.objects.get(pk=made[i].pk).orders.count() != i % 4:
                        wrong.append(i)
        except Exception as e:
            wrong.append(e)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(10)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    same(wrong, [])


@check("flush")
def _():
    Sample.objects.all()._raw_delete(Sample.objects.db)
    same(Sample.objects.count(), 0)


@check("reconnect after a restart")
def _():
    restart()

    def again():
        close_old_connections()
        try:
            for c in made.values():
                same(Customer.objects.get(pk=c.pk).name, c.name)
        except OperationalError:
            connection.close()
            raise

    eventually(again)
    same(Customer.objects.update(tags=["again"]), 20)


done()
