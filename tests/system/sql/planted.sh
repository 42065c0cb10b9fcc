#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Planted bugs of the engine on SQL (src/base/bug.h) on real servers: each must be found by the case that is made for it.
# All at once: each is found by waiting in vain.
#
#   planted.sh TEST_SQL_REPLIES ENGINE...
set -u
test=$1
shift

found() # ENGINE BUG CASE
{
    out=$(ROTA_BUG=$2 ROTA_ONLY=$3 "$test" "$1" 2>&1)
    case $?:$out in
    0:*) echo "FAIL  bug $2, $1: not found by $3" ;;
    *"FAILED  ] $3"*) echo "ok    bug $2, $1" ;;
    *) printf 'FAIL  bug %s, %s:\n%s\n' "$2" "$1" "$out" ;;
    esac
}

all=$(
    for engine; do
        found "$engine" 22 a_break_unheard_is_told &
        found "$engine" 23 who_waits_for_the_dead_is_granted &
        found "$engine" 24 what_was_done_unheard_is_found &
    done
    wait
)
printf '%s\n' "$all"
[ "$(printf '%s\n' "$all" | grep -c '^ok')" -eq $((3 * $#)) ]
