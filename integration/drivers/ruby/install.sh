#!/bin/sh
# The suites run on Debian's Ruby with Debian's packages.
set -eu
if ! /usr/bin/ruby -e 'require "pg"; require "active_record"' 2>/dev/null; then
	apt-get -qq update
	apt-get -qq -y install ruby ruby-pg ruby-activerecord >/dev/null
fi
