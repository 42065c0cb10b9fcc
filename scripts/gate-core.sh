#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fails if src/core, src/txn/core or src/txn/three's machines reach for a clock, I/O, the heap or another part of the house.
#
#   scripts/gate-core.sh BUILD-FOLDER
#
# What the compiled core leaves undefined is all it can reach for.
set -eu
cd "$(dirname "$0")/.."

build=$1
allowed="memcpy memmove memset memcmp strlen strcmp strncmp __memcpy_chk __memmove_chk __memset_chk
    __assert_fail abort __stack_chk_fail _GLOBAL_OFFSET_TABLE_ rt_bug"

defined=$(mktemp)
trap 'rm -f "$defined"' EXIT

pure() # FOLDER OBJECT...
{
    folder=$1
    shift
    [ -e "$1" ] || { echo "$folder: there is no $1"; exit 1; }
    {
        nm --defined-only --format=just-symbols "$@"
        # shellcheck disable=SC2086 # a list of words
        printf '%s\n' $allowed
    } | sed 's/:$//' | sort -u >"$defined"
    foreign=$(nm --undefined-only --format=just-symbols "$@" | grep -v ':$' | grep . | sort -u | comm -23 - "$defined")
    [ -z "$foreign" ] || { printf '%s reaches for:\n%s\n' "$folder" "$foreign"; exit 1; }
}

pure src/core "$build"/librota.a.p/src_core_*.c.o
pure "src/txn/core, src/txn/three" "$build"/librota_txn_core.a.p/src_txn_*.c.o
