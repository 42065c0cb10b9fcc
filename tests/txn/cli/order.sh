#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests of rota demo order: every failure it plays, and how it ends.
#
#   order.sh ROTA PTY [CASE]...
# shellcheck disable=SC2317 # the cases are called by name
set -u
. "$(dirname "$0")/../../system/cli/lib.sh"
rota=$(realpath "$1") pty=$(realpath "$2")
shift 2

outcomes='[o["outcome"] for o in d["orders"]]'
taken='[s["taken"] for s in d["services"]]'
said='[s["step"] + ("/" + s["service"] if s["service"] else "") for s in d["steps"] if s["order"] == 1]'

# FAIL OUTCOMES TAKEN AGAIN,EMPTY,LATE: in JSON, which is kept in out. Sums are exact, nothing is reserved or left behind.
plays()
{
    mkdir tmp
    TMPDIR=$PWD/tmp expect 0 "$rota" demo order ${1:+--fail "$1"} --json >out
    same "" "$(ls tmp)"
    same "$2" "$(json "$outcomes" <out)"
    same "$3" "$(json "$taken" <out)"
    same "$4" "$(json 'list(d["fence"].values())' <out)"
    same "True ${1:-None}" "$(json '[d["exact"], d["fail"]]' <out)"
    same "0 0 0" "$(json '[s["reserved"] for s in d["services"]]' <out)"
    same "100 50 300" "$(json '[s["free"] + s["taken"] for s in d["services"]]' <out)"
    same "True" "$(json 'all(s["exact"] for s in d["services"]) and all(o["finished"] and o["expected"] for o in d["orders"])' <out)"
}

test_all_is_well()
{
    plays "" "committed" "1 2 20" "0 0 0"
    same "try/order try/stock try/payment journal confirm/order confirm/stock confirm/payment journal" "$(json "$said" <out)"
}

test_stock_refuses()
{
    plays stock "aborted committed" "1 2 20" "0 1 0"
    same "try/order try/stock journal cancel/stock cancel/order journal" "$(json "$said" <out)"
    same "refused: 50 free" "$(json 'd["steps"][1]["said"]' <out)"
}

test_payment_refuses()
{
    plays payment "aborted committed" "1 2 20" "0 1 0"
    same "try/order try/stock try/payment journal cancel/payment cancel/stock cancel/order journal" "$(json "$said" <out)"
}

# Killed before the decision: recovery gives all of it back. After it: recovery takes the rest, and nothing twice.
test_coordinator_is_killed()
{
    plays coordinator "aborted committed" "1 3 30" "1 0 0"
    same "True True" "$(json '[o["recovered"] for o in d["orders"]]' <out)"
    same "2 True" "$(json '[len([s for s in d["steps"] if "killed with -9" in s["said"]]), d["services"][0]["without_fence"]["taken"] == 2]' <out)"
}

# Each is done once, however often it comes; a try that comes after its cancel reserves nothing.
test_network_loses_doubles_delays()
{
    plays network "committed committed aborted" "2 5 50" "7 1 1"
    same "3 10 70" "$(json '[s["without_fence"]["taken"] for s in d["services"]]' <out)"
}

test_text_is_drawn_without_colour()
{
    expect 0 "$rota" demo order --fail stock >out
    has '^  try  .* refused: 50 free$' out
    has '^  journal  *ABORT: decided, durable$' out
    has '^  stock  *50  *48  *0  *2   exact$' out
    has '^Proven: 1 of 2 orders' out
    ! grep -q $'\033' out || fail "colour where no terminal is"
    [ "$(wc -L <out)" -le 90 ] || fail "a line is $(wc -L <out) columns wide"
}

# At a terminal it is coloured; Ctrl-C ends everything, and removes the folder.
test_interrupted()
{
    mkdir tmp
    unset NO_COLOR
    TMPDIR=$PWD/tmp TERM=xterm expect 130 "$pty" "$rota" demo order --fail coordinator <<'END'
expect killed with -9
expect recovery
send \003
end
END
    same "" "$(ls tmp)"
}

test_bad_words()
{
    refused 64 "--fail 'fire': stock, payment, coordinator or network" "$rota" demo order --fail fire
    refused 64 "needs a value" "$rota" demo order --fail
    refused 64 "unexpected argument 'more'" "$rota" demo order more
    refused 64 "no transaction demo 'orders'" "$rota" txn demo orders
    TMPDIR=/nowhere/at/all refused 69 "cannot make a folder" "$rota" demo order
    expect 0 "$rota" demo order --help >out
    has "^Usage: rota demo order" out
    [ "$(wc -l <out)" -le 24 ] && [ "$(wc -L <out)" -le 80 ] || fail "more than a screen"
}

test_full_output_is_no_success()
{
    expect 1 "$rota" demo order --json >/dev/full 2>err
    same 1 "$(wc -l <err)"
}

run_cases "$@"
