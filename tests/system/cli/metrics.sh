#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rota metrics, and rota run --metrics: the format, what is counted, files whole or not at all.
set -u
rota=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"

samples() # FILE: each of them, checked
{
    python3 "$here/check_metrics.py" <"$1" || fail "not the format: $1"
}

has() # FILE SAMPLE...: exactly these lines among the samples
{
    local file=$1 sample
    samples "$file" >seen
    shift
    for sample; do
        grep -Fxq -- "$sample" seen || fail "no '$sample' in: $(cat seen)"
    done
}

test_an_empty_engine_has_zeroes()
{
    expect 0 "$rota" metrics >out
    has out 'rota_up{} 1' 'rota_lines{} 0' 'rota_tickets{state=holding} 0' \
        'rota_oldest_wait_seconds{} 0' 'rota_acquires_total{} 0' 'rota_op_seconds_count{op=list} 1'
}

test_holders_and_waiters_are_counted()
{
    hold stock
    "$rota" run stock -- true &
    local waiter=$!
    until "$rota" show stock | grep -q waits; do :; done
    expect 0 "$rota" metrics >out
    has out 'rota_lines{} 1' 'rota_tickets{state=holding} 1' 'rota_tickets{state=waiting} 1'
    grep -q stock out && fail "names without --lines"
    expect 0 "$rota" metrics --lines >out
    has out 'rota_line_tickets{line=stock,state=holding} 1' \
        'rota_line_tickets{line=stock,state=waiting} 1'
    let_go
    expect 0 wait "$waiter"
}

test_keys_are_not_holders()
{
    expect 0 "$rota" once key -- true
    expect 0 "$rota" metrics >out
    has out 'rota_tickets{state=durable} 1' 'rota_tickets{state=holding} 0' \
        'rota_oldest_hold_seconds{} 0'
}

test_hostile_names_are_escaped()
{
    local name='a "b" \c {d="e"} é'
    hold "$name"
    expect 0 "$rota" metrics --lines >out
    has out "rota_line_tickets{line=$name,state=holding} 1"
    let_go
}

test_run_writes_what_it_counted()
{
    expect 3 "$rota" run --metrics m.prom x -- sh -c 'exit 3'
    has m.prom 'rota_acquires_total{} 1' 'rota_releases_total{result=released} 1' \
        'rota_wait_seconds_count{} 1' 'rota_hold_seconds_count{} 1' 'rota_holding{} 0' \
        'rota_losses_total{reason=lost} 0' 'rota_op_seconds_count{op=join} 1'
    hold x
    expect 75 "$rota" run -n --metrics m.prom x -- true
    has m.prom 'rota_acquires_total{} 0' 'rota_refusals_total{reason=busy} 1'
    let_go
    same "m.prom" "$(ls m.prom*)"
}

test_a_file_that_cannot_be_written()
{
    refused 74 "cannot write '/dev/full'.*No space left" "$rota" run --metrics /dev/full x -- true
    refused 74 "cannot write '/proc/none/m'" "$rota" run --metrics /proc/none/m x -- true
    # What the command says comes first.
    expect 3 "$rota" run --metrics /dev/full x -- sh -c 'exit 3' 2>err
    same 1 "$(wc -l <err)"
}

test_links_are_followed_and_modes_are_usual()
{
    (umask 022 && "$rota" run --metrics real.prom x -- true)
    same 644 "$(stat -c %a real.prom)"
    ln -s real.prom link.prom
    expect 0 "$rota" run --metrics link.prom x -- true
    [ -L link.prom ] || fail "the link is gone"
}

test_wrong_usage()
{
    refused 64 "takes no operand: 'x'" "$rota" metrics x
    refused 64 "'--line-s'" "$rota" metrics --line-s
    refused 64 "mem:" "$rota" --on mem:x metrics
    refused 69 "" "$rota" --on file:/proc/nowhere metrics
    expect 0 "$rota" metrics --help >out
    [ "$(wc -l <out)" -le 24 ] || fail "the help does not fit a screen"
    expect 1 "$rota" metrics >/dev/full 2>err
    same 1 "$(wc -l <err)"
}

test_run_wants_a_file()
{
    refused 64 '--metrics wants a file' "$rota" run --metrics - a true
    [ ! -e - ] || fail "a file named -"
}

run_cases "${@:2}"
