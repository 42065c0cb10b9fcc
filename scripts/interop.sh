#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make interop: Go's Mutex, Election, etcd's lock service and etcdctl lock contend with Rota on one name, some are killed;
# and the whole conformance suite on current versions of etcd.
#
#   scripts/interop.sh [--quick] [one|three] [PART...]     parts: mutex election service etcdctl current
#
# 5000 grants and 50 kills per pair; quick: 300 and 4, and no current etcd. The pairs run on the etcd that is installed, or
# on $ROTA_TEST_ETCD. Ends with 77 if there is no Go: nothing was shown then.
set -u
cd "$(dirname "$0")/.." || exit 1
unset ROTA_URL ROTA_TRACE ROTA_BUG ROTA_PASSWORD
export LC_ALL=C.UTF-8

grants=5000
kills=50
topology=one
all="mutex election service etcdctl current"
parts=
for arg in "$@"; do
    case $arg in
    --quick) grants=300 kills=4 all="mutex election service etcdctl" ;;
    one | three) topology=$arg ;;
    mutex | election | service | etcdctl | current) parts="$parts $arg" ;;
    *) echo "interop.sh: no such argument: $arg" >&2; exit 64 ;;
    esac
done
parts=${parts:-$all}

skip()
{
    echo "interop: SKIPPED, nothing was tested: $1" >&2
    exit 77
}
command -v go >/dev/null || skip "there is no Go here"

out=$PWD/build-interop
mkdir -p "$out"
{
    { [ -f "$out/build.ninja" ] || meson setup "$out" -Dtests=enabled; } &&
        ninja -C "$out" rota tests/interop/etcd/rota-side tests/lib/with-etcd tests/conformance/conformance \
            tests/system/cli/take_locks tests/system/etcd/test_etcd_regress tests/system/etcd/test_etcd_regress_three
} >"$out/build.log" 2>&1 || { tail -n 40 "$out/build.log"; exit 1; }

build_pairs()
{
    # Modules come from where Go's settings say.
    cd tests/interop/etcd/goside || exit 1
    go mod download 2>"$out/go.log" || { cat "$out/go.log"; skip "Go's modules cannot be had"; }
    go build -buildvcs=false -o "$out/go-side" . || exit 1
    cd ../../../.. || exit 1
    python3 -B tests/interop/etcd/check_test.py >"$out/check.log" 2>&1 ||
        { cat "$out/check.log"; echo "the checker is not to be trusted"; exit 1; }
}

build_current()
{
    echo "building current versions of etcd: the first time it takes a while"
    for version in 3.6 3.7; do
        scripts/etcd-current.sh "$out/etcd-$version" $version >"$out/etcd-current.log" 2>&1
        code=$?
        [ $code -eq 0 ] || cat "$out/etcd-current.log"
        [ $code -ne 77 ] || skip "a current etcd cannot be built"
        [ $code -eq 0 ] || exit 1
        "$out/etcd-$version" --version | head -n 1
    done
}

pair() # NAME
{
    "$out/tests/lib/with-etcd" "$topology" -- python3 -B tests/interop/etcd/contend.py "$1" \
        --url @URL@ --rota-side "$out/tests/interop/etcd/rota-side" --go-side "$out/go-side" \
        --grants "$grants" --kills "$kills"
}

on_current() # TOPOLOGY COMMAND...: on that of $version
{
    on=$1
    shift
    "$out/tests/lib/with-etcd" "$on" --etcd "$out/etcd-$version" -- "$@"
}

conforms() # TOPOLOGY [--strict]
{
    log=$out/conformance-$version-$(echo "$*" | tr -d ' ').log
    if on_current "$1" "$out/tests/conformance/conformance" --ttl=1s ${2:+"$2"} @URL@ >"$log" 2>&1; then
        printf '%s conformance %s: %s\n' "$version" "$*" "$(grep '^\[  PASSED  \]' "$log")"
    else
        grep -v '^\[\( RUN      \|       OK \)\]' "$log"
        return 1
    fi
}

# Nothing is broken there, and the version has no known bugs.
doctor() # TOPOLOGY
{
    on_current "$1" "$out/rota" --on @URL@ doctor >"$out/doctor.log" &&
        grep -q '^kept *version' "$out/doctor.log" && grep '^kept *version' "$out/doctor.log" && return
    cat "$out/doctor.log"
    return 1
}

commands()
{
    on_current one tests/system/cli/etcd.sh "$out/rota" @URL@ >"$out/commands.log" 2>&1 &&
        on_current user tests/system/cli/etcd.sh "$out/rota" @URL@ >>"$out/commands.log" 2>&1 &&
        on_current one env ROTA_TEST_URL=@URL@ tests/system/cli/commands.sh "$out/rota" \
            "$out/tests/system/cli/take_locks" >>"$out/commands.log" 2>&1 &&
        echo "$version commands: $(grep -c '^\[       OK \]' "$out/commands.log") cases" && return
    cat "$out/commands.log"
    return 1
}

# Bugs of other clients, played again.
regress()
{
    for how in regress regress_three; do
        ROTA_TEST_ETCD=$out/etcd-$version "$out/tests/system/etcd/test_etcd_$how" >"$out/$how.log" 2>&1 ||
            { cat "$out/$how.log"; return 1; }
        printf '%s %s: %s\n' "$version" "$how" "$(grep '^\[  PASSED  \]' "$out/$how.log")"
    done
}

passed=0
failed=0
try()
{
    if "$@"; then
        passed=$((passed + 1))
    else
        echo "FAILED: $*"
        failed=$((failed + 1))
    fi
}

# All is built before anything runs: who skips has shown nothing.
[ "$parts" = " current" ] || build_pairs
case $parts in *current*) build_current ;; esac
for part in $parts; do
    if [ "$part" != current ]; then
        try pair "$part"
        continue
    fi
    for version in 3.6 3.7; do
        for on in one three user tls tls-three; do
            try doctor "$on"
        done
        try commands
        try regress
        try conforms one --strict
        try conforms tls
    done
    version=3.6
    try conforms three
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
