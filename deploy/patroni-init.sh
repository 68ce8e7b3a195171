#!/bin/sh
# Run once by Patroni on the first server of each shard: the application's role and database. $1 is a connection of the superuser.
set -eu
psql -v ON_ERROR_STOP=1 -v password="$APP_PASSWORD" "$1" <<'SQL'
CREATE ROLE app LOGIN PASSWORD :'password';
CREATE DATABASE app OWNER app;
SQL
