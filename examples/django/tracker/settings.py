import os

SECRET_KEY = "only an example"
INSTALLED_APPS = ["projects"]
# The rest of the connection is read by libpq: PGHOST, PGPORT, PGUSER, PGPASSWORD, PGSSLMODE.
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ.get("PGDATABASE", "app"), "CONN_MAX_AGE": 60}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
