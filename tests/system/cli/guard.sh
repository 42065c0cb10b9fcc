#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests of what ends the command of rota run: the guardian, a loss, a stop.
#
#   guard.sh ROTA BREAK_LOCK KILL_STORM LATE_KILL [CASE]...
# shellcheck disable=SC2016 # single quotes: for the inner shell
# shellcheck disable=SC2317 # the cases are called by name
set -u
. "$(dirname "$0")/lib.sh"
rota=$(realpath "$1") break_lock=$(realpath "$2") kill_storm=$(realpath "$3") late_kill=$(realpath "$4")
shift 4

# ---- rota killed

test_200_kills_never_two_at_once()
{
    "$kill_storm" "$rota" 200 "$RANDOM" || fail "see above"
    expect 0 "$rota" run -w 30 storm true
}

test_kills_where_nobody_reaps()
{
    "$kill_storm" "$rota" 12 "$RANDOM" lazy || fail "see above"
}

test_killed_before_all_of_the_group()
{
    begin -- sh -c 'trap "touch told; exit" TERM; sleep 1000 & echo >up; wait'
    killed $holder
    await_gone
    [ -e told ] || fail "the command was not told by SIGTERM"
    expect 0 "$rota" run -w 30 a true
}

test_a_bus_error_is_told()
{
    begin -- sh -c 'echo >up; sleep 1000'
    kill -BUS $holder
    expect 69 wait $holder
    await_gone
    has 'bus error: was a file .* truncated' err
    expect 0 "$rota" run -w 30 a true
}

test_the_session_lasts_until_the_group_has_gone()
{
    begin --on-lost ignore -- sh -c 'echo >up; read -r _ <down; touch finished'
    killed $holder
    expect 75 "$rota" run -n a true
    [ ! -e finished ] || fail "it was ended"
    echo >down
    await_gone
    [ -e finished ] || fail "it was killed"
    expect 0 "$rota" run -w 30 a true
}

test_a_killed_guardian_is_replaced()
{
    local first
    begin -- sh -c 'echo >up; exec sleep 1000'
    first=$(guardian_of $holder)
    kill -9 "$first"
    until [ "$(guardian_of $holder)" != "$first" ]; do :; done
    # Whether it already knows the group cannot be seen; the second line is there as well.
    killed $holder
    await_gone
    expect 0 "$rota" run -w 30 a true
}

test_the_last_guardian_is_killed()
{
    local i guardian last=
    begin -- sh -c 'echo >up; read -r _ <down'
    for i in 1 2 3 4 5 6 7 8; do
        until guardian=$(guardian_of $holder) && [ "$guardian" != "$last" ]; do :; done
        [ ! -s err ] || fail "said before number $i: $(cat err)"
        kill -9 "$guardian"
        last=$guardian
    done
    until [ -s err ]; do kill -0 $holder || fail "rota ended"; done
    kill -CHLD $holder # another look: it is said once
    echo >down
    expect 0 wait $holder
    same 1 "$(wc -l <err)"
    grep -q "8 guardians were started, none is left.* the lock 'a'" err || fail "$(cat err)"
}

test_guardian_and_rota_killed_together()
{
    begin -- sh -c 'echo >up; exec sleep 1000'
    kill -9 "$(guardian_of $holder)" $holder
    await_gone
    expect 0 "$rota" run -w 30 a true
}

test_commands_of_once_and_elect()
{
    mkfifo up alive
    exec 4<>alive 5<alive
    "$rota" once k -- sh -c 'echo >up; exec sleep 1000' 3>alive 4>&- 5<&- &
    local once=$!
    await up
    "$rota" elect e -- sh -c 'echo >up; exec sleep 1000' 3>alive 4>&- 5<&- &
    exec 4>&-
    await up
    killed $once
    killed $!
    await_gone
    expect 0 "$rota" run -w 30 e true
    expect 3 "$rota" once -E 3 k true # nobody knows how far it came
}

test_guardian_has_nothing_open()
{
    local guardian
    begin -- sh -c 'echo >up; read -r _ <down'
    guardian=$(guardian_of $holder)
    await_state "$guardian" S
    same 2 "$(find "/proc/$guardian/fd" -mindepth 1 | wc -l)"
    same / "$(readlink "/proc/$guardian/cwd")"
    # Neither a terminal's signals nor a service manager's end it before its time.
    kill -TERM "$guardian"
    kill -HUP "$guardian"
    echo >down
    expect 0 wait $holder
    kill -0 "$guardian" 2>/dev/null && fail "it was left behind"
    return 0
}

# A guardian that dies slowly keeps the session's file open: rota must not take that for a command that goes on.
test_an_orderly_end_leaves_no_session()
{
    expect 3 env ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" LD_PRELOAD="$late_kill" \
        "$rota" run a -- env -u LD_PRELOAD sh -c 'exit 3'
    same "" "$(ls rota/s)"
    expect 0 "$rota" elect a -- true
    expect 0 "$rota" once a -- true
    same "" "$(ls rota/s)"
}

# ---- What the command leaves behind is its own, as long as nothing was lost

test_members_that_stay()
{
    local member
    member=$("$rota" run a -- sh -c 'sleep 1000 >/dev/null 2>&1 & echo $!')
    kill -0 "$member" || fail "it was ended"
    expect 0 "$rota" run -n a true
    kill -9 "$member"
}

# ---- Losses

test_lost_takes_all_of_the_group()
{
    begin -- sh -c '(trap "" TERM; while :; do sleep 1000; done) &
        trap "touch told; exit 0" TERM; echo >up; wait'
    expect 0 "$break_lock" a
    expect 76 wait $holder
    await_gone
    [ -e told ] || fail "it was not told"
    same 1 "$(wc -l <err)"
}

test_lost_and_killed()
{
    begin --on-lost kill -- sh -c 'trap "touch told; exit 0" TERM; sleep 1000 & echo >up; wait'
    expect 0 "$break_lock" a
    expect 76 wait $holder
    await_gone
    [ ! -e told ] || fail "it was told first"
}

test_lost_and_ignored()
{
    begin --on-lost ignore -- sh -c 'trap "touch told" TERM; echo >up; read -r _ <down; touch finished'
    expect 0 "$break_lock" a
    until [ -s err ]; do kill -0 $holder || fail "it ended"; done
    echo >down
    expect 76 wait $holder
    [ -e finished ] || fail "it was killed"
    [ ! -e told ] || fail "it was told"
    same 1 "$(wc -l <err)"
    refused 64 "term, kill or ignore" "$rota" run --on-lost cry a true
}

test_lost_with_nobody_to_tell()
{
    mkfifo up complaints
    exec 7<>complaints
    "$rota" run a -- sh -c 'trap "touch told; exit 0" TERM; sleep 1000 >/dev/null & echo >up; wait' \
        2>complaints 7>&- &
    await up
    exec 7>&- # what rota says now goes to nobody
    expect 0 "$break_lock" a
    expect 76 wait $!
    [ -e told ] || fail "it was not told"
}

# ---- Stops without a terminal, and pipes that close

test_stop_and_go_without_a_terminal()
{
    local child
    mkfifo up down
    setsid "$rota" run a -- sh -c 'echo $$ >up; read -r _ <down' &
    local holder=$!
    read -r child <up
    kill -TSTP $holder
    await_state "$child" T
    kill -CONT $holder
    await_state "$child" '[SR]'
    # Stopped by somebody else, rota goes on.
    kill -STOP "$child"
    await_state "$child" T
    await_state "$holder" '[SR]'
    kill -CONT "$child"
    echo >down
    expect 0 wait $holder
}

test_reader_that_has_gone()
{
    same "y 141" "$({ "$rota" run a -- yes 2>err; echo $? >code; } | head -n 1) $(cat code)"
    [ ! -s err ] || fail "it said: $(cat err)"
    expect 0 "$rota" run -n a true
}

run_cases "$@"
