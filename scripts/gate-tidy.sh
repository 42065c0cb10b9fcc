#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fails if clang-tidy (.clang-tidy says which checks) or clang's own warnings find anything.
#
#   scripts/gate-tidy.sh [FILE.c...]     without files: all of src/
set -eu
cd "$(dirname "$0")/.."

# Headers that are made: of the build of the tests, or of the users'.
build=build-test
[ -e $build/src/engines.h ] || build=build
[ -e $build/src/engines.h ] || {
    echo "gate-tidy.sh: nothing is built yet: make, then try again" >&2
    exit 69
}

files=$(printf '%s\n' "$@")
[ -n "$files" ] || files=$(scripts/sources.sh src | grep '\.c$')

# Our flags by hand: build/compile_commands.json has some that only gcc knows.
# shellcheck disable=SC2046 # a list of words
set -- -std=c11 -O2 -D_FORTIFY_SOURCE=2 -D_GNU_SOURCE '-DROTA_VERSION="0"' -Isrc -I$build/src -Iinclude -Itests \
    -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wconversion \
    -Wcast-qual -Wvla -Wformat=2 -Wimplicit-fallthrough -Wundef \
    $(pkg-config --cflags libuv sqlite3 jansson openssl libpq libcurl libmicrohttpd)

# What it writes to stderr is only how many warnings it left out.
printf '%s\n' "$files" |
    xargs -P "$(nproc)" -I {} clang-tidy --quiet --warnings-as-errors='*' {} -- "$@" 2>/dev/null
