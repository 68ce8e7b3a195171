#!/bin/sh
# What make examples runs: the application's own migration, the one for weft, the application.
set -e
tracker=${BUILD:-.}/suite
"$tracker" migrate migrations/001_schema.sql
[ "$TARGET" = plain ] || "$tracker" migrate migrations/002_weft.sql
"$tracker" demo
