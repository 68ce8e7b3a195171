from django.db import models


class Tenant(models.Model):
    name = models.CharField(max_length=100)


class User(models.Model):
    tenant = models.ForeignKey(Tenant, models.CASCADE)
    email = models.EmailField(unique=True)
    name = models.CharField(max_length=100)


class Project(models.Model):
    tenant = models.ForeignKey(Tenant, models.CASCADE)
    title = models.CharField(max_length=200)
    owner = models.ForeignKey(User, models.SET_NULL, null=True)


class Task(models.Model):
    tenant = models.ForeignKey(Tenant, models.CASCADE)
    project = models.ForeignKey(Project, models.CASCADE, related_name="tasks")
    title = models.CharField(max_length=200)
    state = models.CharField(max_length=10, default="open")
    hours = models.DecimalField(max_digits=6, decimal_places=2, default=0)
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["tenant", "state"])]
