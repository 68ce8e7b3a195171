#!/bin/sh
# Installs the pinned packages into $BUILD, and lets the suites' folder be seen from there:
# node looks for packages beside and above the file that asks for them.
set -eu
if ! command -v npm >/dev/null; then
	apt-get -qq update && apt-get -qq -y install nodejs npm >/dev/null
fi
ln -sfn "$PWD" "$BUILD/src"
# npm writes this file last: an interrupted install is repeated.
if cmp -s package-lock.json "$BUILD/package-lock.json" && [ -e "$BUILD/node_modules/.package-lock.json" ]; then
	exit 0
fi
cp package.json package-lock.json "$BUILD"
npm ci --prefix "$BUILD" --silent --no-audit --no-fund
