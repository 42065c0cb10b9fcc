#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make interop: Go's Mutex, Election, etcd's lock service and etcdctl lock contend with Rota on one name, some are killed.
#
#   scripts/interop.sh [--quick] [one|three] [PAIR...]
#
# 5000 grants and 50 kills per pair; quick: 300 and 4. Ends with 77 if there is no Go: nothing was shown then.
set -u
cd "$(dirname "$0")/.." || exit 1
unset ROTA_URL ROTA_TRACE ROTA_BUG ROTA_PASSWORD
export LC_ALL=C.UTF-8

grants=5000
kills=50
topology=one
pairs=
for arg in "$@"; do
    case $arg in
    --quick) grants=300 kills=4 ;;
    one | three) topology=$arg ;;
    mutex | election | service | etcdctl) pairs="$pairs $arg" ;;
    *) echo "interop.sh: no such argument: $arg" >&2; exit 64 ;;
    esac
done

skip()
{
    echo "interop: SKIPPED, nothing was tested: $1" >&2
    exit 77
}
command -v go >/dev/null || skip "there is no Go (1.23 or later) here"

mkdir -p build-interop
{
    { [ -f build-interop/build.ninja ] || meson setup build-interop -Dtests=enabled; } &&
        ninja -C build-interop tests/interop/etcd/rota-side tests/lib/with-etcd
} >build-interop/build.log 2>&1 || { tail -n 40 build-interop/build.log; exit 1; }
# Modules come from where Go's settings say.
out=$PWD/build-interop/go-side
cd tests/interop/etcd/goside || exit 1
go mod download 2>../../../../build-interop/go.log ||
    { cat ../../../../build-interop/go.log; skip "Go's modules cannot be had"; }
go build -buildvcs=false -o "$out" . || exit 1
cd ../../../.. || exit 1

python3 -B tests/interop/etcd/check_test.py >build-interop/check.log 2>&1 ||
    { cat build-interop/check.log; echo "the checker is not to be trusted"; exit 1; }

passed=0
failed=0
for pair in ${pairs:-mutex election service etcdctl}; do
    if build-interop/tests/lib/with-etcd "$topology" -- python3 -B tests/interop/etcd/contend.py "$pair" \
        --url @URL@ --rota-side build-interop/tests/interop/etcd/rota-side --go-side build-interop/go-side \
        --grants "$grants" --kills "$kills"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
