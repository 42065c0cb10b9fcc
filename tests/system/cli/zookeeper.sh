#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The command on ZooKeeper, as somebody who has one uses it (servers.sh has what all servers share): beside nodes that
# others make with ZooKeeper's own client, and what it says when something is wrong.
#
#   with-zookeeper one|digest -- zookeeper.sh ROTA @URL@ [CASE]...
#
# With a user in the URL the cases user_*, else test_*. What the commands print on any engine is in commands.sh.
# shellcheck disable=SC2016 # single quotes: for the inner shell
# shellcheck disable=SC2317 # the cases are called by name
# shellcheck disable=SC2154 # holder: of lib.sh
set -u
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/servers.sh"
rota=$(realpath "$1")
given=$2
shift 2
unset ROTA_PASSWORD
kind="test"
[[ $given != *@* ]] || kind=user
ROTA_TEST_URL=${given%%\?*}
account="$ROTA_TEST_URL?tick_ms=200"
port=${ROTA_TEST_URL##*:} port=${port%%/*}
export rota ROTA_TEST_URL

# ZooKeeper's own client: WORDS... is one command of its shell. What it answers is on stdout, among other things.
zk() # WORDS...
{
    java -Xmx64m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp /usr/share/java/zookeeper.jar:/usr/share/java/commons-cli.jar org.apache.zookeeper.ZooKeeperMain \
        -server "127.0.0.1:$port" "$@" 2>zk.err
}

line() # NAME: its path
{
    echo "/rota/$(spelled "$1")"
}

left()
{
    "$rota" top -1 --json | json 'sum(l["holders"] + l["waiters"] for l in d["lines"])'
}

number_of()
{
    local node
    node=$(zk ls "$(line "$1")" | sed -n 's/^\[\([^,]*\).*\]$/\1/p')
    printf '%d\n' "$(zk stat "$(line "$1")/$node" | sed -n 's/^cZxid = //p')"
}

url_at()
{
    echo "zk://$1/rota"
}

# ---- Beside nodes of others

test_a_node_made_by_hand()
{
    "$rota" run a true # there is a line
    zk create "$(line a)/by-hand" >out
    expect 75 "$rota" run -n a true
    "$rota" show a >out
    has '^1 +holds ' out
    "$rota" run a -- touch granted &
    local waiter=$!
    await_waiters a 1
    [ ! -e granted ] || fail "both hold"
    zk delete "$(line a)/by-hand" >out
    expect 0 wait $waiter
    [ -e granted ] || fail "not granted"
}

test_a_ticket_deleted_by_hand()
{
    local node
    begin -- sh -c 'echo >up; exec sleep 1000'
    node=$(zk ls "$(line a)" | sed -n 's/^\[\(.*\)\]$/\1/p')
    zk delete "$(line a)/$node" >out
    expect 76 wait "$holder"
    await_gone
    has "^rota: the lock 'a' is lost" err
    expect 0 "$rota" run -n a true
}

# ---- Errors: one line, the reason in it

test_it_speaks_no_tls()
{
    unset ROTA_URL
    refused 69 "127.0.0.1:$port" "$rota" --on "zks://127.0.0.1:$port/rota" ls
}

test_wrong_urls()
{
    unset ROTA_URL
    refused 64 'is no path' "$rota" --on "zk://127.0.0.1:$port/a//b" ls
    refused 64 "no parameter 'tls'" "$rota" --on "$ROTA_TEST_URL?tls=1" ls
    refused 64 'are for zks://' "$rota" --on "$ROTA_TEST_URL?ca=x" ls
    refused 64 "no dialect 'vienna'" "$rota" --on "$ROTA_TEST_URL?dialect=vienna" ls
    refused 64 'cannot be read' "$rota" --on "zks://127.0.0.1:$port/rota?ca=/nonexistent" ls
    refused 64 'without a password' "$rota" --on "zk://ada@127.0.0.1:$port/rota" ls
}

test_doctor()
{
    expect 0 "$rota" doctor >out
    has '^(kept|limited) +one holder at a time' out
    same "0 0" "$("$rota" doctor --json | json '[d["broken"], len([v for v in d["verdicts"] if v["verdict"] != "kept" and not v["remedy"]])]')"
    same 0 "$(left)"
}

# ---- With users

user_password_is_secret()
{
    password_is_secret
}

user_wrong_password()
{
    unset ROTA_URL
    expect 0 "$rota" --on "$given" run a true # what is there is the user's
    refused 64 'without a password' "$rota" --on "$account" ls
    ROTA_PASSWORD=wrong-7 refused 69 "the user 'rota' may not do that there" "$rota" --on "$account" ls
    ! grep -q wrong-7 refused.err || fail "$(cat refused.err)"
    ROTA_PASSWORD=wrong-7 refused 69 "the user 'ada' may not" "$rota" --on "${account/rota@/ada@}" run a true
    refused 69 'wants a user' "$rota" --on "${account/rota@/}" ls
    expect 0 "$rota" --on "$given" doctor >out
    ! grep -q '^broken' out || fail "$(cat out)"
    has '^kept +outages survived .*standalone [0-9]' out # each server was asked
}

# shellcheck disable=SC2046 # names
run_cases "${@:-$(declare -F | sed -n "s/^declare -f \(${kind}_.*\)/\1/p")}"
