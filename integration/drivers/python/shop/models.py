"""The application's models."""

import uuid

from django.contrib.postgres.fields import ArrayField
from django.db import models


class Product(models.Model):
    id = models.AutoField(primary_key=True)
    name = models.TextField(unique=True)
    price = models.DecimalField(max_digits=10, decimal_places=2)

    class Meta:
        db_table = "products"


class Customer(models.Model):
    name = models.CharField(max_length=100)
    country = models.CharField(max_length=2, db_index=True)
    tags = ArrayField(models.TextField(), default=list)
    created_at = models.DateTimeField(auto_now_add=True)
    vip = models.BooleanField(default=False)

    class Meta:
        db_table = "customers"
        indexes = [models.Index(fields=["country", "vip"], name="customers_vip")]


class Order(models.Model):
    customer = models.ForeignKey(Customer, models.CASCADE, related_name="orders")
    status = models.CharField(max_length=10, default="new")
    total = models.DecimalField(max_digits=12, decimal_places=2, default=0)
    note = models.JSONField(null=True)
    placed_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "orders"
        indexes = [models.Index(fields=["placed_at"])]


class Item(models.Model):
    # Django knows no foreign keys of two columns: the order has no constraint.
    customer = models.ForeignKey(Customer, models.CASCADE, related_name="items")
    order = models.ForeignKey(Order, models.CASCADE, related_name="items", db_constraint=False)
    product = models.ForeignKey(Product, models.PROTECT)
    quantity = models.IntegerField()
    price = models.DecimalField(max_digits=10, decimal_places=2)

    class Meta:
        db_table = "items"
        constraints = [models.CheckConstraint(check=models.Q(quantity__gt=0), name="items_quantity")]


class User(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    email = models.TextField(unique=True)
    name = models.TextField()

    class Meta:
        db_table = "users"


class Sample(models.Model):
    id = models.UUIDField(primary_key=True)
    b = models.BooleanField()
    f8 = models.FloatField()
    num = models.DecimalField(max_digits=30, decimal_places=10)
    raw = models.BinaryField()
    d = models.DateField()
    at = models.DateTimeField()
    iv = models.DurationField()
    jb = models.JSONField()
    i4s = ArrayField(models.IntegerField())
    ip = models.GenericIPAddressField()
    slug = models.SlugField()

    class Meta:
        db_table = "samples"
