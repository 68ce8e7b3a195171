#!/bin/sh
# What make examples runs: the application's own migrations, the one for weft, the application. BUILD is where its packages are.
set -e
# node-postgres takes the certificate that libpq would read from the environment from here.
export NODE_EXTRA_CA_CERTS="${PGSSLROOTCERT:-}"
run() {
	file=$1
	shift
	node --preserve-symlinks --preserve-symlinks-main "${BUILD:+$BUILD/src/}$file" "$@"
}
run migrate.js
[ "$TARGET" = plain ] || run migrate.js weft.sql
run demo.js
