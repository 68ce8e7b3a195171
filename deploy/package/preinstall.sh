#!/bin/sh
# The user that the unit runs weft as, before files of its group are unpacked.
set -e
getent group weft >/dev/null || groupadd --system weft
getent passwd weft >/dev/null || useradd --system --gid weft --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin weft
