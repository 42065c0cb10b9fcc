#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests of rota demo outbox: what it says at the end, and how it ends.
#
#   outbox.sh ROTA PTY [CASE]...
# shellcheck disable=SC2317 # the cases are called by name
set -u
. "$(dirname "$0")/../../system/cli/lib.sh"
rota=$(realpath "$1") pty=$(realpath "$2")
shift 2

# By hand the shop loses each order if it dies right after the COMMIT; with the outbox nothing is lost or sent twice.
test_the_sums()
{
    mkdir tmp
    TMPDIR=$PWD/tmp expect 0 "$rota" demo outbox --orders 30 --json >out
    same "" "$(ls tmp)"
    same "30 27 3 0" "$(json '[d["by_hand"][k] for k in ["orders", "mails", "lost", "twice"]]' <out)"
    same "30 30 0 0" "$(json '[d["outbox"][k] for k in ["orders", "mails", "lost", "twice"]]' <out)"
    same "3 3 1 2" "$(json 'list(d["outbox"]["killed"].values())' <out)"
    same "True" "$(json 'd["exact"]' <out)"
}

# At a terminal the events go through their states; Ctrl-C ends everything, and removes the folder.
test_interrupted()
{
    mkdir tmp
    unset NO_COLOR
    TMPDIR=$PWD/tmp TERM=xterm expect 130 "$pty" "$rota" demo outbox --orders 30 <<'END'
expect By hand
expect 3 lost
expect the relay is killed
send \003
end
END
    same "" "$(ls tmp)"
}

test_bad_words()
{
    refused 64 "unexpected argument 'more'" "$rota" demo outbox more
    refused 64 "'--orders' needs a value" "$rota" demo outbox --orders
    refused 64 "--orders 'few' is not a number" "$rota" demo outbox --orders few
    refused 64 "--to 'nats://h': the mail service reads from Redis only" "$rota" demo outbox --to nats://h
    TMPDIR=/nowhere/at/all refused 69 "cannot make a folder" "$rota" demo outbox
    expect 0 "$rota" demo outbox --help >out
    has "^Usage: rota demo outbox" out
    [ "$(wc -l <out)" -le 24 ] && [ "$(wc -L <out)" -le 82 ] || fail "more than a screen"
}

run_cases "$@"
