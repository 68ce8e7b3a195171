#!/bin/sh
# What make examples runs: the application's own migrations, the one for weft, the application.
set -e
ruby=${RUBY:-/usr/bin/ruby}
if [ "$TARGET" = plain ]; then
	"$ruby" migrate.rb 20240101000000
else
	"$ruby" migrate.rb
fi
"$ruby" demo.rb
