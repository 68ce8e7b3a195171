#!/bin/sh
# Makes sure that a Chromium is on this machine, for the tests of the dashboard: does nothing when one is, installs
# Debian's with the system's package manager when it may, and otherwise says exactly what to type. It prints the program.
set -eu

# installed: prints a program that chromedp can drive, or fails.
installed() {
	for name in "${CHROMIUM:-}" chromium-headless-shell headless-shell chromium chromium-browser google-chrome; do
		[ -n "$name" ] && command -v "$name" && return
	done
	return 1
}

if installed; then
	exit 0
fi

if command -v apt-get >/dev/null; then
	command="apt-get update && { DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium-headless-shell fonts-dejavu-core || DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium fonts-dejavu-core; }"
elif command -v dnf >/dev/null; then
	command="dnf install -y chromium-headless"
elif command -v apk >/dev/null; then
	command="apk add chromium font-dejavu"
elif command -v pacman >/dev/null; then
	command="pacman -S --noconfirm chromium"
else
	echo "Chromium is missing and no package manager was recognised. Install it, or name it: make CHROMIUM=PROGRAM ..." >&2
	exit 1
fi

if [ "$(id -u)" -ne 0 ]; then
	if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
		command="sudo sh -c '$command'"
	else
		echo "Chromium is missing. As root, type:" >&2
		echo "  $command" >&2
		exit 1
	fi
fi

echo "Chromium is missing. Installing it:" >&2
echo "  $command" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! sh -c "$command" >"$log" 2>&1; then
	tail -n 30 "$log" >&2
	echo "That failed. Type it by hand, or install Chromium another way:" >&2
	echo "  $command" >&2
	exit 1
fi
installed || { echo "Installed, but no program of its usual names turned up." >&2; exit 1; }
