#!/bin/sh
# Builds the suites. Go fetches what go.mod names.
set -e
go build -o "$BUILD/suite" .
