#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make torture: the fault programme, many rounds of each, and one report of what was checked.
#
#   scripts/torture.sh [FACTOR [SUITE]]     17: among others 51 failovers by Sentinel, 204 leaders of etcd killed
#                                           SUITE: redis, etcd, sql, zookeeper, txn; else all. And relay, which is
#                                           on request only: 100,000 events on each database and broker
set -u
cd "$(dirname "$0")/.." || exit 1
unset ROTA_URL ROTA_TRACE ROTA_BUG ROTA_PASSWORD
export LC_ALL=C.UTF-8
ROTA_TORTURE=${1:-17}
suite=torture${2:+-$2}
case ${2:-} in
'' | redis | etcd | sql | zookeeper | txn | relay) ;;
*) echo "torture.sh: SUITE is redis, etcd, sql, zookeeper, txn or relay, not '$2'" >&2; exit 64 ;;
esac
ROTA_REPORT=$PWD/build-torture/report.tsv
export ROTA_TORTURE ROTA_REPORT

mkdir -p build-torture
[ -f build-torture/build.ninja ] || meson setup build-torture -Dtests=enabled >build-torture/build.log 2>&1 ||
    { tail -n 40 build-torture/build.log; exit 1; }
ninja -C build-torture >build-torture/build.log 2>&1 || { tail -n 40 build-torture/build.log; exit 1; }
rm -f "$ROTA_REPORT"
# One after the other: what is measured is not the load of the neighbour.
meson test -C build-torture --no-rebuild --print-errorlogs --num-processes 1 --suite "$suite"
status=$?
case ${2:-} in txn | relay) exit $status ;; esac # its tests say themselves what they saw

[ -f "$ROTA_REPORT" ] || { echo "no report"; exit 1; }
awk -F '\t' '
BEGIN {
    printf "\n%-34s %9s %8s %7s | %7s %6s %8s | %8s | %24s | %s\n", "scenario", "ops", "grants", "faults",
        "losses", "late", "starved", "refused", "to next grant, ms", "findings"
}
{
    printf "%-34s %9d %8d %7d | %7d %6d %8d | %8d | %7.1f %7.1f %8.1f | %d\n", $1, $2, $3, $4, $5, $6, $7, $8,
        $10, $11, $12, $13
    ops += $2; grants += $3; faults += $4; before += $5; late += $6; starved += $7; refused += $8; findings += $13
}
END {
    printf "%-34s %9d %8d %7d | %7d %6d %8d | %8d | %24s | %d\n", "all", ops, grants, faults, before, late, starved,
        refused, "least, median, most", findings
    print "losses: told before the deadline; late: after it; starved: after it, in a process that had not run"
}' "$ROTA_REPORT"

# And what becomes of holders and waiters while a server is away, at the times that people have.
echo
engines=${2:-redis etcd postgres mysql zookeeper}
[ "$engines" != sql ] || engines='postgres mysql'
# shellcheck disable=SC2086 # several words
OUTAGE_TTL=10 OUTAGE_LIMIT=90 OUTAGES='3 30 300' tests/system/cli/outage.sh build-torture/rota $engines || status=1
exit $status
