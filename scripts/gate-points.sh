#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fails unless the table of crash points (src/txn/point.c) and the calls of rt_point in the sources, and in the services
# of the bank, name the same.
set -eu
cd "$(dirname "$0")/.."

table=$(sed -n 's/^    {"\([a-z-]*\)", .*/\1/p' src/txn/point.c | sort)
called=$(grep -rhoE 'rt_point\("[a-z-]*"\)' src tests/txn/bank/ledger.c --include='*.[ch]' | sed 's/.*"\(.*\)".*/\1/' | sort -u)
[ -n "$table" ] || { echo "no table of crash points"; exit 1; }
[ "$table" = "$(printf '%s\n' "$table" | uniq)" ] || { echo "a crash point stands twice in the table"; exit 1; }
[ "$table" = "$called" ] || {
    echo "crash points that stand in the table or in the sources only:"
    printf '%s\n%s\n' "$table" "$called" | sort | uniq -u
    exit 1
}
