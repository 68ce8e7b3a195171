#!/bin/sh
# Writes a release into dist: tools/release.sh v0.1.0
#   archives   weft-0.1.0-linux-amd64.tar.gz
#   packages   .deb and .rpm, by nfpm
#   SHA256SUMS
# The same commit gives the same archives: times are the commit's, and nothing names this machine.
# PostgreSQL's parser is C, so each architecture needs a C compiler for it; those without one
# are named at the end.
set -eu
cd "$(dirname "$0")/.."

nfpm=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0

number=${1#v}
case $number in
[0-9]*.[0-9]*.[0-9]*) ;;
*)
	echo "usage: make release VERSION=v1.2.3" >&2
	exit 1
	;;
esac

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
native=$(${GO:-go} env GOHOSTARCH)
skipped=""

rm -rf dist
mkdir -p dist/common/completions
work=$PWD/dist/build
mkdir -p "$work"

# compiler prints the C compiler for an architecture, if there is one.
compiler() {
	case $1 in
	"$native") echo "${CC:-gcc}" ;;
	amd64) command -v x86_64-linux-gnu-gcc ;;
	arm64) command -v aarch64-linux-gnu-gcc ;;
	esac
}

build() {
	CGO_ENABLED=1 GOOS=linux GOARCH=$1 CC=$2 ${GO:-go} build -trimpath -buildvcs=false \
		-ldflags "-s -w -X main.version=v$number" -o "$work/$1/weft" ./cmd/weft
}

# What does not depend on the architecture; the binary of this one writes most of it.
common() {
	at=dist/common
	"$work/$native/weft" manual $at/man
	gzip -9n $at/man/*.1
	"$work/$native/weft" completion bash >$at/completions/weft.bash
	"$work/$native/weft" completion zsh >$at/completions/_weft
	"$work/$native/weft" completion fish >$at/completions/weft.fish
	${GO:-go} run ./tools/notice -texts $at/LICENSES
	cp LICENSE NOTICE README.md CHANGELOG.md ARCHITECTURE.md $at/
	cp config/example.yaml $at/weft.yaml
	cp deploy/cluster.yaml $at/cluster.yaml
	mkdir -p $at/docs
	cp docs/*.md $at/docs/
	cp -r docs/decisions $at/docs/
	cp deploy/weft.service $at/
	# A package has its binary elsewhere, and needs no words about installing.
	sed -e 's|/usr/local/bin/|/usr/bin/|' -e '/^# A proxy under systemd/,/^\[Unit\]/{/^#/d}' deploy/weft.service >"$work/weft.service"
}

archive() {
	name=weft-$number-linux-$1
	cp -r dist/common "$work/$name"
	cp "$work/$1/weft" "$work/$name/"
	chmod -R u=rwX,go=rX "$work/$name"
	tar -C "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
		--format=ustar -cf - "$name" | gzip -9n >"dist/$name.tar.gz"
}

package() {
	# The oldest glibc that has what the binary calls.
	glibc=$(readelf -V "$work/$1/weft" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1)
	for format in deb rpm; do
		BINARY="$work/$1/weft" UNIT="$work/weft.service" ARCH=$1 NUMBER=$number GLIBC=${glibc#GLIBC_} \
			GOFLAGS='' ${GO:-go} run $nfpm package --config deploy/nfpm.yaml --packager $format --target dist/
	done
}

# This machine's own architecture first: its binary writes the manual.
for arch in "$native" amd64 arm64; do
	[ ! -e "$work/$arch" ] || continue
	cc=$(compiler $arch || true)
	if [ -z "$cc" ]; then
		skipped="$skipped linux/$arch"
		continue
	fi
	build "$arch" "$cc"
	[ "$arch" != "$native" ] || common
	archive "$arch"
	package "$arch"
done

rm -rf "$work" dist/common
(cd dist && sha256sum -- * >SHA256SUMS)
echo
(cd dist && ls -l)
for target in $skipped; do
	echo "left out: $target, because no C compiler for it is installed (Debian: gcc-aarch64-linux-gnu, gcc-x86-64-linux-gnu)"
done
