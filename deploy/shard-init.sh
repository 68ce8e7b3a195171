#!/bin/sh
# Run once by the image of each shard: the application's role and database.
set -eu
psql -v ON_ERROR_STOP=1 -v password="$APP_PASSWORD" --username "$POSTGRES_USER" <<'SQL'
CREATE ROLE app LOGIN PASSWORD :'password';
CREATE DATABASE app OWNER app;
SQL
