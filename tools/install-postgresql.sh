#!/bin/sh
# Makes sure that the PostgreSQL server programs are on this machine: does nothing
# when they are, installs them with the system's package manager when it may, and
# otherwise says exactly what to type. It looks where weft itself looks.
set -eu

MIN_MAJOR=15

# usable DIR: does DIR hold a server that is new enough?
usable() {
	[ -x "$1/initdb" ] && [ -x "$1/postgres" ] || return 1
	major=$("$1/postgres" --version 2>/dev/null | sed -n 's/^postgres (PostgreSQL) \([0-9]*\).*/\1/p')
	[ -n "$major" ] && [ "$major" -ge "$MIN_MAJOR" ]
}

# installed: prints the directory of a usable server, or fails.
installed() {
	if [ -n "${PG_BIN:-}" ]; then
		usable "$PG_BIN" && echo "$PG_BIN"
		return
	fi
	old_ifs=$IFS
	IFS=:
	for dir in $PATH; do
		[ -x "$dir/initdb" ] || continue
		dir=$(dirname "$(readlink -f "$dir/initdb" 2>/dev/null || echo "$dir/initdb")")
		if usable "$dir"; then
			IFS=$old_ifs
			echo "$dir"
			return
		fi
	done
	IFS=$old_ifs
	for dir in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/libexec/postgresql* /usr/lib/postgresql*/bin \
		/opt/homebrew/opt/postgresql*/bin /usr/local/opt/postgresql*/bin /home/linuxbrew/.linuxbrew/opt/postgresql*/bin \
		/Applications/Postgres.app/Contents/Versions/*/bin /opt/local/lib/postgresql*/bin \
		/usr/local/pgsql/bin /usr/local/bin; do
		if usable "$dir"; then
			echo "$dir"
			return
		fi
	done
	return 1
}

if bin=$(installed); then
	[ "${1:-}" = --quiet ] || echo "PostgreSQL: $("$bin/postgres" --version) in $bin"
	exit 0
fi
if [ -n "${PG_BIN:-}" ]; then
	echo "PG_BIN=$PG_BIN holds no PostgreSQL server of version $MIN_MAJOR or newer" >&2
	exit 1
fi

# What to type here.
if command -v apt-get >/dev/null; then
	command="apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends postgresql"
elif command -v dnf >/dev/null; then
	command="dnf install -y postgresql-server postgresql-contrib"
elif command -v zypper >/dev/null; then
	command="zypper --non-interactive install postgresql-server postgresql-contrib"
elif command -v apk >/dev/null; then
	command="apk add postgresql postgresql-contrib"
elif command -v pacman >/dev/null; then
	command="pacman -S --noconfirm postgresql"
elif command -v brew >/dev/null; then
	command="brew install postgresql@17"
else
	echo "PostgreSQL $MIN_MAJOR or newer is missing and no package manager was recognised." >&2
	echo "Install its server programs (initdb and postgres), or name their directory: make PG_BIN=DIR ..." >&2
	exit 1
fi

case $command in
brew*) ;; # refuses root
*)
	if [ "$(id -u)" -ne 0 ]; then
		if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
			command="sudo sh -c '$command'"
		else
			echo "PostgreSQL $MIN_MAJOR or newer is missing. As root, type:" >&2
			echo "  $command" >&2
			exit 1
		fi
	fi
	;;
esac

echo "PostgreSQL $MIN_MAJOR or newer is missing. Installing it:"
echo "  $command"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! sh -c "$command" >"$log" 2>&1; then
	tail -n 30 "$log" >&2
	echo "That failed. Type it by hand, or install PostgreSQL $MIN_MAJOR or newer another way:" >&2
	echo "  $command" >&2
	exit 1
fi
if ! bin=$(installed); then
	echo "Installed, but no server of version $MIN_MAJOR or newer turned up: see https://www.postgresql.org/download/" >&2
	exit 1
fi
echo "PostgreSQL: $("$bin/postgres" --version) in $bin"
