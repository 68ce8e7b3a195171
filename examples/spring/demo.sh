#!/bin/sh
# What make examples runs: the application's own migration, the one for weft, the application.
set -e
jars=/usr/share/java
path="${BUILD:-.}:$jars/postgresql.jar:$jars/spring3-jdbc.jar:$jars/spring3-transaction.jar:$jars/spring3-core.jar:$jars/spring3-beans.jar:$jars/commons-logging.jar"
java -cp "$path" Demo migrate migrations/V1__schema.sql
[ "$TARGET" = plain ] || java -cp "$path" Demo migrate migrations/V2__weft.sql
java -cp "$path" Demo
