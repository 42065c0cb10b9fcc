#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the benches into build-bench/ and runs them one after the other, their reports on the terminal. Databases and brokers are
# started by the tests' own code, so that is there, too.
#
#   scripts/bench.sh [--quick] [BENCH...]     as rota-bench: without words, all of them
set -eu
cd "$(dirname "$0")/.."
[ -f build-bench/build.ninja ] || meson setup build-bench -Dtests=enabled -Dbench=true
# The commands, the benches, and the programs of peers that they are compared with.
programs=$(ninja -C build-bench -t targets all | sed -n 's/^\(rota\(-[a-z]*\)\{0,1\}\|bench\/[a-z]*-\(peer\|bench\)\):.*/\1/p')
# shellcheck disable=SC2086 # a list of words
ninja -C build-bench $programs
code=0
meson test -C build-bench --benchmark --no-rebuild --verbose --num-processes 1 --test-args="$*" || code=$?
[ $# -eq 0 ] || exit $code

# What a command costs at the start, in one run beside flock(1).
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
ROTA_URL=file:$room/rota
export ROTA_URL
build-bench/rota run start -- true
hyperfine -N --warmup 10 --runs 200 --export-csv "$room/start.csv" \
    "flock $room/flock true" "build-bench/rota run start -- true"
awk -F, 'NR == 2 { flock = $4 } NR == 3 { rota = $4 } END {
    more = (rota - flock) * 1000
    printf "  rota run NAME -- true: %.2f ms more than flock (medians), goal <= 3: %s\n", more,
           more <= 3 ? "met" : "MISSED"
    exit more > 3 }' "$room/start.csv" || code=1
exit $code
