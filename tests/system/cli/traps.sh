#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests of rota demo traps: each is seen broken and mended, and nothing stays behind.
#
#   traps.sh ROTA [CASE]...
# shellcheck disable=SC2317 # the cases are called by name
set -u
. "$(dirname "$0")/lib.sh"
rota=$(realpath "$1")
shift

test_each_is_seen_broken_and_mended()
{
    mkdir tmp
    TMPDIR=$PWD/tmp expect 0 "$rota" demo traps --json >out 2>err
    same "" "$(cat err)"
    local count
    count=$("$rota" demo traps --list | wc -l)
    [ "$count" -ge 13 ] || fail "$count traps are listed"
    grep -q "\"seen\": $count," out || fail "$(grep -E '"(name|broken|mended)"' out)"
    grep -q '"failed": 0,' out || fail failed
    grep -q '"left_out": 0,' out || fail "some were left out"
    ! grep -q '"broken": false\|"mended": false' out || fail "$(grep -E '"(name|broken|mended)"' out)"
    same "" "$(ls tmp)"
}

test_one_is_told_line_by_line()
{
    expect 0 "$rota" demo traps setnx >out
    grep -q 'A> SETNX lock A .*(integer) 1' out || fail "$(cat out)"
    grep -q 'seen broken, seen mended' out || fail "$(cat out)"
    ! grep -q $'\033' out || fail "colour where no terminal is"
    ! grep -q '^foreign-del' out || fail "another was played too"
}

# What the user's environment says is meant for the user's own servers.
test_passwords_of_other_servers()
{
    ROTA_PASSWORD=x REDISCLI_AUTH=x MYSQL_PWD=x ROTA_TRACE=$PWD/trace expect 0 "$rota" demo traps too-long >out 2>err
    same "" "$(cat err)"
    ! grep -qi 'auth' out || fail "$(cat out)"
    [ ! -e trace ] || fail "traced"
}

# Replaces a program by one that spoils its work; the rest of PATH stays as it is.
spoiled() # PROGRAM LINE
{
    mkdir -p bin
    printf '#!/bin/sh\n%s\n' "$2" >"bin/$1"
    chmod +x "bin/$1"
}

# Exit code 0 takes both: the broken is seen, and the mended.
test_half_of_a_trap_is_a_failure()
{
    local real
    spoiled sh 'exit 1' # by which rota is run
    PATH=$PWD/bin:$PATH expect 1 "$rota" demo traps lost-update >out 2>err
    grep -q 'seen broken, NOT seen mended' out || fail "$(cat out)"
    rm bin/sh
    real=$(type -P redis-cli)
    spoiled redis-cli "'$real' \"\$@\" | sed -u 's/(integer) -1\$/(integer) 1/'"
    PATH=$PWD/bin:$PATH expect 1 "$rota" demo traps setnx >out 2>err
    grep -q 'NOT seen broken, seen mended' out || fail "$(cat out)"
    PATH=$PWD/bin:$PATH expect 1 "$rota" demo traps --json setnx >out 2>err
    same "False True 0 1" "$(json '[d["traps"][0]["broken"], d["traps"][0]["mended"], d["seen"], d["failed"]]' <out)"
}

# Without its programs a trap is left out; one that was asked for says so.
test_what_is_not_installed()
{
    local program
    mkdir bin
    for program in sh sleep echo; do ln -s "$(type -P $program)" bin/$program; done
    PATH=$PWD/bin expect 69 "$rota" demo traps no-index >out 2>err
    same 1 "$(wc -l <err)"
    grep -q 'is not installed' err || fail "$(cat err)"
    PATH=$PWD/bin expect 0 "$rota" demo traps --json >out
    grep -q '"seen": 2,' out && grep -q '"left_out": 11,' out || fail "$(grep -E 'seen|left_out' out)"
}

test_bad_input()
{
    expect 64 "$rota" demo traps nonesuch >out 2>err
    same 1 "$(wc -l <err)"
    grep -q 'traps --list' err || fail "$(cat err)"
    expect 64 "$rota" demo traps setnx more >out 2>err
    expect 64 "$rota" --on file:x demo traps setnx >out 2>err
    same 1 "$(wc -l <err)"
    TMPDIR=/nonexistent expect 69 "$rota" demo traps setnx >out 2>err
    same 1 "$(wc -l <err)"
}

# Stopped in the middle, it leaves no server and no folder.
test_stopped_in_the_middle()
{
    mkdir tmp
    TMPDIR=$PWD/tmp "$rota" demo traps too-long >out 2>err &
    local pid=$!
    until grep -q 'A  holds' out 2>/dev/null; do kill -0 $pid || fail "it ended"; done
    kill -TERM $pid
    wait $pid
    same 143 $?
    same "" "$(ls tmp)"
}

run_cases "$@"
