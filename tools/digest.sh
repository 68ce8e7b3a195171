#!/bin/sh
# Says what failed in the output of go test: tools/digest.sh FILE
# Of each test that failed the first lines that it has printed itself: no logs of servers, and one data race.
set -eu
awk '
/^ *--- (PASS|SKIP): / || /^ok / { shown = 0; next }
/^ *--- FAIL: / { print; shown = 12; logs = 0; next }
/^FAIL\t/ || /^panic: / || /^fatal error: / { print; shown = /^FAIL/ ? 0 : 20; logs = 0; next }
/WARNING: DATA RACE/ { if (!race++) { print; shown = 20; logs = 0 }; next }
shown > 0 && /^ +[A-Za-z0-9_]+\.go:[0-9]+: / { logs = /: log of / }
shown > 0 && !logs && NF { print substr($0, 1, 300); shown-- }
' "$1"
