#!/bin/sh
# Stops weft, which drains it, when the package goes; an upgrade ("upgrade" in Debian, 1 in an rpm) does not.
set -e
case ${1:-} in
remove | 0)
	[ ! -d /run/systemd/system ] || systemctl disable --now weft.service
	;;
esac
