"""The application's rows, the same for every suite."""

from decimal import Decimal

schema = open("../schema.sql").read()

# The unique email gets a lookup by itself.
tables = ["products=reference", "customers=id", "orders=customer_id", "items=customer_id", "users=id"]

products = [{"id": i, "name": "product %d" % i, "price": Decimal("%d.50" % i)} for i in range(1, 11)]
customers = [{"id": i, "name": "customer %d" % i, "country": "fr" if i % 2 else "de"} for i in range(1, 21)]
users = [{"email": "user%d@example.com" % i, "name": "user %d" % i} for i in range(1, 21)]

# Customer i has i mod 4 orders, order k of them 1 + k items.
orders, items = [], []
for c in customers:
    for k in range(c["id"] % 4):
        order = {"id": len(orders) + 1, "customer_id": c["id"], "status": ["new", "paid", "shipped"][k], "total": Decimal(0)}
        for n in range(k + 1):
            p = products[(c["id"] + n) % 10]
            items.append(
                {"id": len(items) + 1, "customer_id": c["id"], "order_id": order["id"], "product_id": p["id"], "quantity": n + 1, "price": p["price"]}
            )
            order["total"] += (n + 1) * p["price"]
        orders.append(order)

total = sum(o["total"] for o in orders)
by_status = [
    (s, sum(1 for o in orders if o["status"] == s), sum(o["total"] for o in orders if o["status"] == s)) for s in ("new", "paid", "shipped")
]
# The three customers that spent most, then by id.
best = sorted(((c["id"], sum((o["total"] for o in orders if o["customer_id"] == c["id"]), Decimal(0))) for c in customers), key=lambda x: (-x[1], x[0]))[:3]
