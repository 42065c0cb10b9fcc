#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Planted bugs of the engine on SQL and of its dialects (src/base/bug.h) on real servers: the case made for each bug
# must find it. All at once: most are found by waiting in vain.
#
#   planted.sh TEST_SQL_REPLIES TEST_SQL_LEASE ENGINE...
set -u
replies=$1
lease=$2
shift 2

found() # BUG CASE TEST ENGINE [DIALECT]
{
    bug=$1
    name=$2
    shift 2
    out=$(ROTA_BUG=$bug ROTA_ONLY=$name "$@" 2>&1)
    code=$?
    shift
    case $code:$out in
    0:*) echo "FAIL  bug $bug, $*: not found by $name" ;;
    *"FAILED  ] $name"*) echo "ok    bug $bug, $*" ;;
    *) printf 'FAIL  bug %s, %s:\n%s\n' "$bug" "$*" "$out" ;;
    esac
}

all=$(
    for engine; do
        found 22 a_break_unheard_is_told "$replies" "$engine" &
        found 23 who_waits_for_the_dead_is_granted "$replies" "$engine" &
        found 24 what_was_done_unheard_is_found "$replies" "$engine" &
        found 74 what_another_has_is_not_released "$lease" "$engine" row &
        found 75 what_another_has_is_lost "$lease" "$engine" shedlock &
        found 76 the_servers_clock_decides "$lease" "$engine" version &
    done
    wait
)
printf '%s\n' "$all"
passed=$(printf '%s\n' "$all" | grep -c '^ok')
echo "$passed passed, $((6 * $# - passed)) failed"
[ "$passed" -eq $((6 * $#)) ]
