#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The command on etcd, as somebody who has one uses it (servers.sh has what all servers share): beside etcdctl lock,
# with revoked leases, and what it says when something is wrong.
#
#   with-etcd one|user -- etcd.sh ROTA @URL@ [CASE]...
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
ROTA_TEST_URL=${given%%\?*} ROTA_TEST_URL=${ROTA_TEST_URL%/}
account="$ROTA_TEST_URL?prefix=rota-"
port=${ROTA_TEST_URL##*:}
export rota ROTA_TEST_URL ETCDCTL_API=3

ctl()
{
    etcdctl --endpoints="127.0.0.1:$port" --command-timeout=15s "$@"
}

left()
{
    ctl get --prefix "$(spelled "")" --keys-only | grep -c /
}

number_of()
{
    ctl get --prefix "$(spelled "$1")/" -w json | json 'min(k["create_revision"] for k in d["kvs"])'
}

url_at()
{
    echo "etcd://$1"
}

elected() # as Go's Election would read it
{
    same "$2" "$(ctl get --prefix "$(spelled "$1")/" --print-value-only)"
}

test_lease_revoked_by_hand()
{
    local lease
    begin -- sh -c 'echo >up; exec sleep 1000'
    lease=$(ctl get --prefix "$(spelled a)/" --keys-only | sed -n 's|.*/\([0-9a-f]*\)-.*|\1|p')
    ctl lease revoke "$lease" >answer
    expect 76 wait "$holder"
    await_gone
    has "^rota: the lock 'a' is lost" err
    expect 0 "$rota" run -n a true
}

# ---- Beside etcdctl

test_etcdctl_waits_for_rota()
{
    hold a
    ctl lock "$(spelled a)" touch granted &
    local other=$!
    await_waiters a 1
    [ ! -e granted ] || fail "both hold"
    let_go
    expect 0 wait $other
    [ -e granted ] || fail "not granted"
}

test_rota_waits_for_etcdctl()
{
    mkfifo up down
    ctl lock "$(spelled a)" -- sh -c 'echo >up; read -r _ <down' &
    local other=$!
    await up
    expect 75 "$rota" run -n a true
    "$rota" show a >out
    has '^1 +holds ' out
    "$rota" run a -- touch granted &
    local waiter=$!
    await_waiters a 1
    [ ! -e granted ] || fail "both hold"
    echo >down
    expect 0 wait $waiter
    [ -e granted ] || fail "not granted"
    wait $other
}

# More than an answer may hold, beside the locks and in the line of one; with 3.7, keys alone have no lease.
test_among_data_of_others()
{
    local i base
    base=$(spelled "")
    head -c 900000 /dev/zero | tr '\0' x >big
    for i in 1 2 3; do
        ctl put "${base}data/$i" <big >out
        ctl put "${base}orders/4711-$i" <big >out
    done
    hold a
    "$rota" ls >out
    has '^a +1 +0 ' out
    has '^orders +1 +2 ' out
    same "a data orders" "$("$rota" top -1 --json | json '" ".join(sorted(l["name"] for l in d["lines"]))')"
    expect 0 "$rota" metrics >out
    expect 0 "$rota" show orders >out
    has '^3 +waits ' out
    expect 0 "$rota" why orders >out
    expect 0 "$rota" watch -1 orders >out
    expect 75 "$rota" run -n orders true
    expect 75 "$rota" run -w 0.5 orders true
    "$rota" doctor >out
    has 'nothing stays.* 6 keys without a lease' out
    let_go
    same 6 "$(ctl get --prefix "$base" --keys-only | grep -c /)"
    ctl del --prefix "$base" >out
}

test_a_later_layout()
{
    ctl put "$(spelled a)/1a-s1" "rota2 something" >out
    refused 64 "later layout: upgrade" "$rota" run a true
    "$rota" show a >out
    has 'later layout: upgrade' out
    ctl del --prefix "$(spelled a)/" >out
}

# What another program holds: nobody knows since when, and it is not told when it is broken.
test_ticket_of_etcdctl()
{
    mkfifo up down
    ctl lock "$(spelled a)" -- sh -c 'echo >up; read -r _ <down' &
    local other=$!
    await up
    "$rota" show a >out
    has '^1 +holds +[0-9]+ +exclusive +- +[0-9]' out
    same "None" "$("$rota" show a --json | json 'd["tickets"][0]["since_ms"]')"
    same "None" "$("$rota" ls --json | json 'd["lines"][0]["since_ms"]')"
    same "None" "$("$rota" top -1 --json | json 'd["lines"][0]["held_ms"]')"
    "$rota" why a >out
    has '^    exclusive, fence' out
    "$rota" break a --fence "$(fence_of a)" >out
    has "another program's, which may not notice" out
    echo >down
    wait $other
}

# ---- Errors: one line, the reason in it

test_it_speaks_no_tls()
{
    unset ROTA_URL
    refused 69 "127.0.0.1:$port" "$rota" --on "etcds://127.0.0.1:$port" ls
}

test_wrong_urls()
{
    unset ROTA_URL
    refused 64 'has no path' "$rota" --on "$ROTA_TEST_URL/x" ls
    refused 64 "no parameter 'tls'" "$rota" --on "$ROTA_TEST_URL?tls=1" ls
    refused 64 'are for etcds://' "$rota" --on "$ROTA_TEST_URL?ca=x" ls
    refused 64 'cannot be read' "$rota" --on "etcds://127.0.0.1:$port?ca=/nonexistent" ls
    refused 64 'without a password' "$rota" --on "etcd://ada@127.0.0.1:$port" ls
}

test_doctor()
{
    expect 0 "$rota" doctor >out
    has '^(kept|limited) +one holder at a time' out
    has '^limited +users +no user: anybody who reaches it may take, break and revoke$' out
    has '^limited +outages survived +1 of 1 members vote' out
    same "0 0" "$("$rota" doctor --json | json '[d["broken"], len([v for v in d["verdicts"] if v["verdict"] != "kept" and not v["remedy"]])]')"
    same "" "$(ctl get --prefix "${ROTA_URL##*prefix=}" --keys-only)" # nothing is left of it
}

# ---- With users

user_password_is_secret()
{
    password_is_secret
}

user_wrong_password()
{
    local url=$account
    unset ROTA_URL
    refused 64 'without a password' "$rota" --on "$url" ls
    ROTA_PASSWORD=wrong-7 refused 69 "refuses the user 'rota' or the password" "$rota" --on "$url" ls
    ! grep -q wrong-7 refused.err || fail "$(cat refused.err)"
    ROTA_PASSWORD=wrong-7 refused 69 "refuses the user 'ada' or the password" "$rota" --on "${url/rota@/ada@}" run a true
    refused 69 'wants a user' "$rota" --on "${url/rota@/}" ls
}

change_password() # WORD
{
    ctl user passwd rota --interactive=false <<<"$1" >answer || fail "$(cat answer)"
}

# What can no longer be given back: why, and until when.
user_password_changed_under_run()
{
    local secret
    unset ROTA_URL
    secret=$(secret_of "$given")
    mkfifo up down
    "$rota" --on "$given&ttl=15s" run a -- sh -c 'echo >up; read -r _ <down' 2>err &
    local holder=$!
    await up
    change_password other-7
    echo >down
    expect 0 wait $holder
    change_password "$secret"
    same 1 "$(wc -l <err)"
    has "^rota: the lock 'a' was not given back \\(.*\\): it is free after at most 15.0 s" err
    ! grep -q 'could not be confirmed' err || fail "$(cat err)"
}

user_rights_end_with_the_prefix()
{
    local other=${given/prefix=rota-/prefix=other-}
    unset ROTA_URL
    expect 0 "$rota" --on "$given" run a true
    refused 69 "permission denied: the user 'rota' needs readwrite on the keys that begin with 'other-'" "$rota" --on "$other" run a true
    expect 0 "$rota" --on "$given" doctor >out
    has '^kept +rights' out
    ! grep -q 'no user' out || fail "$(cat out)"
}

# shellcheck disable=SC2046 # names
run_cases "${@:-$(declare -F | sed -n "s/^declare -f \(${kind}_.*\)/\1/p")}"
