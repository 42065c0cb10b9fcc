#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fails if src/core reaches for a clock, I/O, the heap or another part of the house.
#
#   scripts/gate-core.sh BUILD-FOLDER
#
# What the compiled core leaves undefined is all it can reach for.
set -eu
cd "$(dirname "$0")/.."

objects=$(ls "$1"/librota.a.p/src_core_*.c.o)
allowed="memcpy memmove memset memcmp strlen strcmp strncmp __memcpy_chk __memmove_chk __memset_chk
    __assert_fail abort __stack_chk_fail _GLOBAL_OFFSET_TABLE_ rt_bug"

defined=$(mktemp)
trap 'rm -f "$defined"' EXIT
{
    # shellcheck disable=SC2086 # lists of words
    nm --defined-only --format=just-symbols $objects
    # shellcheck disable=SC2086
    printf '%s\n' $allowed
} | sed 's/:$//' | sort -u >"$defined"

# shellcheck disable=SC2086
foreign=$(nm --undefined-only --format=just-symbols $objects | grep -v ':$' | grep . | sort -u |
    comm -23 - "$defined")
[ -z "$foreign" ] || { printf 'src/core reaches for:\n%s\n' "$foreign"; exit 1; }
