#!/bin/sh
# The suites run on Debian's Python with Debian's packages.
set -eu
if ! /usr/bin/python3 -c 'import psycopg2, psycopg, asyncpg, sqlalchemy, django' 2>/dev/null; then
	apt-get -qq update
	apt-get -qq -y install python3-psycopg2 python3-psycopg python3-asyncpg python3-sqlalchemy python3-django >/dev/null
fi
