# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by etcd.sh, sql.sh and zookeeper.sh after lib.sh: what somebody does with the command on any server. They say
#
#   left                how many keys or rows there are of this case
#   number_of NAME      the number of its first ticket, as the server has it
#   url_at HOSTS        a URL of such servers
#   elected NAME VALUE  if they like: the leader's value, as the server has it
#   $given, $account    the URL with everything that lets us in, and the one without the password
# shellcheck disable=SC2016 # single quotes: for the inner shell
# shellcheck disable=SC2317 # the cases are called by name
# shellcheck disable=SC2154 # holder: of lib.sh

# A machine that stalls for a while must cost nobody its lock; cases that wait for an end set their own ttl.
export ROTA_TEST_TTL=15s

spelled() # NAME: as it stands in the server
{
    echo "${ROTA_URL##*prefix=}$1"
}

secret_of() # URL: what is in its password_file; nothing without one
{
    local file
    file=$(sed -n 's/.*password_file=\([^&]*\).*/\1/p' <<<"$1")
    [ -z "$file" ] || cat "$file"
}

# ---- Locks

test_run_try_shared()
{
    hold a
    expect 75 "$rota" run -n a touch ran
    expect 75 "$rota" run -w 0.1 a touch ran
    expect 75 "$rota" run -n -s a touch ran
    expect 9 "$rota" run -n -E 9 a touch ran
    let_go
    hold -s a
    expect 0 "$rota" run -n -s a touch shared
    expect 75 "$rota" run -n a touch ran
    let_go
    hold --take 2 --of 3 p
    expect 0 "$rota" run -n --take 1 --of 3 p touch permit
    expect 75 "$rota" run -n --take 2 --of 3 p touch ran
    let_go
    [ -e shared ] || fail "two do not share"
    [ -e permit ] || fail "1 of 3 was not free"
    [ ! -e ran ] || fail "two hold"
    expect 3 "$rota" run a -- sh -c 'exit 3'
    same 0 "$(left)"
}

test_fences_grow_over_processes()
{
    local last=0 i
    for i in 1 2 3 4; do
        "$rota" run a -- sh -c 'echo $ROTA_FENCE' >fence
        [ "$(cat fence)" -gt "$last" ] || fail "$(cat fence) after $last in round $i"
        last=$(cat fence)
    done
}

test_hand_over()
{
    hold a
    "$rota" run a -- sh -c 'echo $ROTA_FENCE >fence' &
    local waiter=$!
    await_waiters a 1
    same "$(fence_of a)" "$(number_of a)"
    let_go
    expect 0 wait $waiter
    [ -s fence ] || fail "not granted"
}

elected() { :; }

test_elect_once_watch()
{
    mkfifo up down
    "$rota" elect --value "here I am; it's me" e -- sh -c 'echo >up; read -r _ <down' &
    local leader=$!
    await up
    same "here I am; it's me" "$("$rota" watch -1 e --json | json 'd["value"]')"
    elected e "here I am; it's me"
    echo >down
    expect 0 wait $leader
    expect 0 "$rota" once o -- touch ran
    expect 0 "$rota" once o -- touch again
    [ -e ran ] && [ ! -e again ] || fail "$(ls)"
}

test_ls_show_top_why_break()
{
    begin -- sh -c 'echo >up; exec sleep 1000'
    "$rota" run a true &
    local waiter=$!
    await_waiters a 1
    "$rota" ls >out
    has '^a +1 +1 ' out
    same "1 1" "$("$rota" top -1 --json | json '[d["lines"][0]["holders"], d["lines"][0]["waiters"]]')"
    "$rota" show a >out
    has '^1 +holds ' out
    has '^2 +waits ' out
    "$rota" why a >out
    has 'exclusive, fence' out
    expect 0 "$rota" break a --fence "$(fence_of a)" >out
    expect 76 wait "$holder"
    await_gone
    has "^rota: the lock 'a' is lost" err
    expect 0 wait $waiter
    "$rota" run gone true
    same "" "$("$rota" ls | grep gone)"
}

# ---- Holders that end otherwise

test_killed_holder()
{
    ROTA_URL=${ROTA_URL/ttl=15s/ttl=3s}
    begin -- sh -c 'echo $ROTA_FENCE >first; echo >up; exec sleep 1000'
    killed "$holder"
    expect 0 "$rota" run -w 30 a -- sh -c 'echo $ROTA_FENCE >fence'
    await_gone
    [ "$(cat fence)" -gt "$(cat first)" ] || fail "fence $(cat fence) after $(cat first)"
}

# ---- Errors: one line, the reason in it

# Each tries until its time is over, so they run side by side.
test_nobody_is_there()
{
    local asked=() pid
    beside() # CASE CODE PATTERN COMMAND...
    {
        (mkdir "$1" && cd "$1" && refused "${@:2}") &
        asked+=($!)
    }
    unset ROTA_URL
    beside 1 69 '127.0.0.1:1.*refused' "$rota" --on "$(url_at 127.0.0.1:1)" ls
    beside 2 69 '127.0.0.1:1.*refused' "$rota" --on "$(url_at 127.0.0.1:1,127.0.0.1:1)" run a true
    beside 3 69 'no.such.host.invalid' "$rota" --on "$(url_at no.such.host.invalid)" ls
    for pid in "${asked[@]}"; do
        expect 0 wait "$pid"
    done
}

# Everything that may show a secret goes to the file shown.
password_is_secret()
{
    local secret
    secret=$(secret_of "$given")
    [ ${#secret} -ge 8 ] || fail "no password in $given"
    unset ROTA_URL ROTA_PASSWORD
    ROTA_PASSWORD=$secret expect 0 "$rota" --on "$account" run a -- sh -c 'tr "\0" " " </proc/$PPID/cmdline; ps -ef' >shown
    ROTA_TRACE=1 ROTA_PASSWORD=$secret expect 0 "$rota" --on "$account" run a true >>shown 2>&1
    ROTA_TRACE=1 expect 0 "$rota" --on "$given" ls >>shown 2>&1
    mkdir -p .config/rota
    echo "prod = ${account/rota@/rota:$secret@}" >.config/rota/config
    ROTA_TRACE=1 expect 0 "$rota" --on prod run a true >>shown 2>&1
    "$rota" --on prod doctor --json >>shown
    "$rota" --on prod top --json -1 >>shown
    [ "$(wc -l <shown)" -gt 5 ] || fail "nothing was shown"
    ! grep -qF "$secret" shown || fail "the password shows"
}
