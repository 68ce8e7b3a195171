#!/bin/sh
# What make examples runs: the application's own migrations, the one for weft, the application.
set -e
export PYTHONDONTWRITEBYTECODE=1
python=${PYTHON:-/usr/bin/python3}
if [ "$TARGET" = plain ]; then
	"$python" manage.py migrate --verbosity 0 projects 0001
else
	"$python" manage.py migrate --verbosity 0
fi
"$python" manage.py demo
