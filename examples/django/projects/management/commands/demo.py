from decimal import Decimal

from django.core.management.base import BaseCommand
from django.db import IntegrityError, transaction
from django.db.models import Count, F, Sum
from django.db.models.functions import Coalesce

from projects.models import Project, Task, Tenant, User


class Command(BaseCommand):
    help = "A day of three tenants. Each step prints one line."

    def say(self, what, answer):
        self.stdout.write("ok %s: %s" % (what, answer))

    def handle(self, *args, **options):
        acme = sign_up("Acme", "ada@acme.example", "Ada")
        bolt = sign_up("Bolt", "bob@bolt.example", "Bob")
        cargo = sign_up("Cargo", "cyd@cargo.example", "Cyd")
        self.say("sign up", Tenant.objects.count())
        try:
            sign_up("Another Acme", "ada@acme.example", "Ada")
        except IntegrityError as e:
            self.say("an e-mail is taken", e.__cause__.diag.message_primary.split('"')[0])

        start_project(acme, "Roof", "tiles", "beams", "gutter")
        start_project(bolt, "Wall", "bricks", "mortar")
        start_project(cargo, "Gate", "hinges")
        self.say("open tasks", open_tasks(acme))

        with transaction.atomic():
            task = Task.objects.select_for_update(skip_locked=True).filter(tenant=acme, state="open").order_by("id").first()
            task.state, task.hours = "done", Decimal("2.5")
            task.save()
        self.say("one is done", open_tasks(acme))

        self.say("projects with owners", [
            (p.title, p.owner.email, sorted(t.title for t in p.tasks.all()))
            for p in Project.objects.select_related("owner").prefetch_related("tasks").order_by("title")
        ])
        self.say("report over all tenants", report())
        self.say("login by e-mail", User.objects.select_related("tenant").get(email="cyd@cargo.example").tenant.name)
        self.say("hours of all tenants", Task.objects.update(hours=F("hours") + 1))

        User.objects.get(tenant=acme).delete()
        self.say("the owner is gone", Project.objects.get(tenant=acme).owner)
        try:
            with transaction.atomic():
                Task.objects.filter(tenant=acme).delete()
                Task.objects.filter(tenant=cargo).delete()
                raise ValueError("no")
        except ValueError:
            self.say("rolled back", Task.objects.count())
        bolt.delete()
        self.say("a tenant has left", report())


@transaction.atomic
def sign_up(tenant, email, name):
    made = Tenant.objects.create(name=tenant)
    User.objects.create(tenant=made, email=email, name=name)
    return made


@transaction.atomic
def start_project(tenant, title, *tasks):
    project = Project.objects.create(tenant=tenant, title=title, owner=tenant.user_set.first())
    Task.objects.bulk_create(Task(tenant=tenant, project=project, title=t) for t in tasks)


def open_tasks(tenant):
    return list(Task.objects.filter(tenant=tenant, state="open").order_by("title").values_list("project__title", "title"))


def report():
    rows = Tenant.objects.annotate(tasks=Count("task"), hours=Coalesce(Sum("task__hours"), Decimal(0))).order_by("name")
    return [(t.name, t.tasks, "%.2f" % t.hours) for t in rows]
