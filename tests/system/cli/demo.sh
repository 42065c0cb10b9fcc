#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests of rota demo, of the help, and of what the README shows.
#
#   demo.sh ROTA SOURCE [CASE]...
# shellcheck disable=SC2317 # the cases are called by name
set -u
. "$(dirname "$0")/lib.sh"
rota=$(realpath "$1") source=$(realpath "$2")
shift 2

field() # NAME FILE...: of rota demo --json, in order
{
    local name=$1
    shift
    sed -n "s/^ *\"$name\": \([^,]*\),*$/\1/p" "$@" | tr '\n' ' '
}

test_demo_oversells_only_without_a_lock()
{
    unset ROTA_URL
    TMPDIR=$PWD expect 0 "$rota" demo --json >out
    local sold
    read -r -a sold <<<"$(field sold out)"
    [ "${sold[0]}" -gt 100 ] || fail "without a lock ${sold[0]} of 100 were sold"
    same 100 "${sold[1]}"
    same "false true " "$(field exact out)"
    same out "$(ls)" # the temporary folder has gone
}

test_demo_on_a_chosen_engine()
{
    expect 0 "$rota" --on "file:$PWD/mine" demo --buyers 4 --stock 20 >out
    grep -q "exactly 20 sold" out || fail "$(cat out)"
    [ -d mine ] || fail "the engine was not used"
    ! grep -q $'\033' out || fail "colour where no terminal is"
}

test_demo_fails_where_the_engine_fails()
{
    unset ROTA_URL
    touch plain
    expect 69 "$rota" --on "file:$PWD/plain/rota" demo --buyers 2 --stock 2 >out 2>err
    same 1 "$(wc -l <err)"
    expect 64 "$rota" --on mem:x demo >out 2>err
    same 1 "$(wc -l <err)"
}

test_demo_cleans_up_when_its_reader_goes()
{
    unset ROTA_URL
    mkdir tmp
    TMPDIR=$PWD/tmp "$rota" demo --buyers 2 --stock 20 2>err | head -1 >out
    same "" "$(ls tmp)"
}

test_full_output_is_no_success()
{
    expect 1 "$rota" --help >/dev/full 2>err
    same 1 "$(wc -l <err)"
}

test_help_fits_a_screen()
{
    local command
    for command in "" run once elect ls show why watch break doctor bench top metrics demo help; do
        # shellcheck disable=SC2086 # none or one word
        expect 0 "$rota" $command --help >out
        [ "$(wc -l <out)" -le 24 ] || fail "help of '$command': $(wc -l <out) lines"
        ! grep -E '.{81,}' out || fail "help of '$command' is too wide"
        [ "$command" = help ] || grep -Eq -- '--on URL\|NAME(, |$| )' out || fail "help of '$command' does not name --on"
        [ "$command" = help ] || grep -q -- '--system' out || fail "help of '$command' does not name --system"
    done
    same "$("$rota" run --help)" "$("$rota" help run)"
    "$rota" --version | grep -Eq '^rota [0-9]+\.[0-9]+\.[0-9]+' || fail "--version"
}

test_readme_shows_the_example()
{
    awk '/^```c$/ { on = 1; next } /^```/ { if (on) exit } on' "$source/README.md" >block.c
    cmp block.c "$source/examples/first_lock.c" || fail "README.md and examples/first_lock.c differ"
}

run_cases "$@"
