#!/bin/sh
# psql, pgbench and pg_dump come with the server, which make has installed.
