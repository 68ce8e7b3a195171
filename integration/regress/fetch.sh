#!/bin/sh
# Fetches PostgreSQL's regression scripts into directory $2, from the source
# package of the server of major version $1, and builds the C library that they load.
# A second call finds everything there and does nothing.
set -eu

major=$1
dir=$2
[ -f "$dir/done" ] && exit 0

fail() {
	echo "regress: cannot have PostgreSQL $major's regression scripts: $1" >&2
	echo "regress: put a source tree's src/test/regress into $dir, and an empty file named done" >&2
	exit 1
}

command -v apt-get >/dev/null || fail "they come from Debian's source package, and there is no apt-get"
for tool in dpkg dpkg-source gcc; do
	command -v $tool >/dev/null || fail "$tool is missing (apt-get install dpkg-dev gcc)"
done

mkdir -p "$dir"
tmp=$(mktemp -d "$dir/fetch.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp/lists/partial" "$tmp/cache/archives/partial"

# An apt of our own: neither the machine's list of sources nor its cache of
# package lists is touched.
. /etc/os-release
key=/usr/share/keyrings/debian-archive-keyring.gpg
[ "$ID" = debian ] && [ -f $key ] || fail "this is not Debian"
# The machine's own mirrors, with source packages.
apt-get indextargets --format '$(SITE) $(RELEASE)' 'Created-By: Packages' | sort -u | while read -r site suite; do
	echo "deb-src [signed-by=$key] $site $suite main"
	echo "deb [signed-by=$key] $site $suite main"
done >"$tmp/sources.list"
apt() {
	apt-get -qq -o Dir::Etc::sourcelist="$tmp/sources.list" -o Dir::Etc::sourceparts=- \
		-o Dir::State::lists="$tmp/lists" -o Dir::Cache="$tmp/cache" -o APT::Sandbox::User="$(id -un)" "$@"
}
cd "$tmp"
apt update || fail "apt-get update failed"
# Newer scripts may crash an older server: that is what they are there to show.
version=$(dpkg-query -W -f '${Version}' "postgresql-$major") || fail "package postgresql-$major is not installed"
apt source --download-only "postgresql-$major=$version" || fail "apt-get source failed"
apt download "postgresql-server-dev-$major=$version" || fail "apt-get download failed"

# Only the scripts and their data are unpacked; they stay in the cache.
tar xf postgresql-"$major"_*.orig.tar.* --strip-components=4 --wildcards '*/src/test/regress/*' ||
	fail "the source package is not as expected"
dpkg -x postgresql-server-dev-"$major"_*.deb dev
mkdir lib
gcc -O1 -w -fPIC -shared -I"dev/usr/include/postgresql/$major/server" -o lib/regress.so regress.c ||
	fail "regress.c does not compile"

for part in sql data parallel_schedule lib; do
	rm -rf "${dir:?}/$part"
	mv $part "$dir/"
done
touch "$dir/done"
