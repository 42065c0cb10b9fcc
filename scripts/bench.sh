#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the benches into build/ and runs them one after the other, their reports on the terminal.
#
#   scripts/bench.sh [--quick] [BENCH...]     as rota-bench: without words, all of them
set -eu
cd "$(dirname "$0")/.."
make -s build/build.ninja
meson configure build -Dbench=true
ninja -C build
code=0
meson test -C build --benchmark --no-rebuild --verbose --num-processes 1 --test-args="$*" || code=$?
[ $# -eq 0 ] || exit $code

# What a command costs at the start, in one run beside flock(1).
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
ROTA_URL=file:$room/rota
export ROTA_URL
build/rota run start -- true
hyperfine -N --warmup 10 --runs 200 --export-csv "$room/start.csv" \
    "flock $room/flock true" "build/rota run start -- true"
awk -F, 'NR == 2 { flock = $4 } NR == 3 { rota = $4 } END {
    more = (rota - flock) * 1000
    printf "  rota run NAME -- true: %.2f ms more than flock (medians), goal <= 3: %s\n", more,
           more <= 3 ? "met" : "MISSED"
    exit more > 3 }' "$room/start.csv" || code=1
exit $code
