#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fails if clang-tidy (.clang-tidy says which checks) or clang's own warnings find anything in src/.
set -eu
cd "$(dirname "$0")/.."

# Our flags by hand: build/compile_commands.json has some that only gcc knows.
flags="-std=c11 -D_GNU_SOURCE -Isrc -Iinclude -DROTA_VERSION=\"0\" -DROTA_ENGINE_FILE=1
    -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wconversion -Wcast-qual
    -Wvla -Wformat=2 -Wimplicit-fallthrough -Wundef $(pkg-config --cflags libuv sqlite3 jansson)"

[ $# -gt 0 ] || set -- $(scripts/sources.sh src | grep '\.c$')
# shellcheck disable=SC2086 # a list of words
printf '%s\n' "$@" | xargs -P "$(nproc)" -I {} clang-tidy --quiet --warnings-as-errors='*' {} -- $flags \
    2>/dev/null
