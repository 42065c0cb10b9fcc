#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The command on PostgreSQL and MariaDB, as somebody uses it who has one: beside psql and mariadb, with holders that die and
# connections that are ended, with an account that may little, and what it says when something is wrong.
#
#   with-postgres one|limited -- sql.sh ROTA @URL@ [CASE]...         the same by with-mysql
#
# With `limited` (a user "rota" that may only use the tables) the cases limited_*, else test_*. What the commands print on any
# engine is in commands.sh.
# shellcheck disable=SC2016 # single quotes: for the inner shell
# shellcheck disable=SC2317 # the cases are called by name
# shellcheck disable=SC2154 # holder: of lib.sh
set -u
. "$(dirname "$0")/lib.sh"
rota=$(realpath "$1")
topology=$2 given=$3
shift 3
engine=${given%%:*}
unset ROTA_PASSWORD
kind="test"
[ "$topology" != limited ] || kind=limited
ROTA_TEST_URL=${given%%\?*}
file=$(sed -n 's/.*password_file=\([^&]*\).*/\1/p' <<<"$given")
secret=
if [ -n "$file" ]; then
    secret=$(cat "$file")
    export ROTA_PASSWORD=$secret
fi
port=${ROTA_TEST_URL##*:} port=${port%%/*}
# A machine that stands still for a while shall cost nobody its lock; who waits for an end says so.
ROTA_TEST_TTL=15s
export rota ROTA_TEST_URL

sql() # STATEMENT...: what it answers, without ornaments
{
    if [ "$engine" = postgres ]; then
        PGPASSWORD=$secret psql -XqAt -h 127.0.0.1 -p "$port" -U "${user:-postgres}" postgres -c "$*"
    else
        MYSQL_PWD=$secret mariadb --no-defaults -NB -h 127.0.0.1 -P "$port" -u rota locks -e "$*"
    fi
}

spelled() # NAME: as it stands in the tables
{
    echo "${ROTA_URL##*prefix=}$1"
}

left() # tickets and holds of this case
{
    sql "select (select count(*) from rota_ticket where name like '$(spelled '%')')
        + (select count(*) from rota_line where session is not null and name like '$(spelled '%')')"
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
    same "$(fence_of a)" "$(sql "select min(number) from rota_ticket where name = '$(spelled a)'")"
    let_go
    expect 0 wait $waiter
    [ -s fence ] || fail "not granted"
}

test_elect_once_watch()
{
    mkfifo up down
    "$rota" elect --value 'here I am; it'\''s me' e -- sh -c 'echo >up; read -r _ <down' &
    local leader=$!
    await up
    same "here I am; it's me" "$("$rota" watch -1 e --json | json 'd["value"]')"
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
}

# ---- Holders and connections that end otherwise

test_killed_holder()
{
    ROTA_URL=${ROTA_URL/ttl=15s/ttl=3s}
    begin -- sh -c 'echo $ROTA_FENCE >first; echo >up; exec sleep 1000'
    killed "$holder"
    expect 0 "$rota" run -w 30 a -- sh -c 'echo $ROTA_FENCE >fence'
    await_gone
    [ "$(cat fence)" -gt "$(cat first)" ] || fail "fence $(cat fence) after $(cat first)"
}

end_connections()
{
    local id
    if [ "$engine" = postgres ]; then
        sql "select pg_terminate_backend(pid) from pg_stat_activity where backend_type = 'client backend'
            and pid <> pg_backend_pid()" >ended
    else
        for id in $(sql "select id from information_schema.processlist where user = 'rota' and id <> connection_id()"); do
            sql "kill $id" && echo "$id" >>ended
        done
    fi
    [ -s ended ] || fail "no connection was there"
}

# A broken connection frees nothing.
test_connections_ended_by_hand()
{
    hold a
    "$rota" run a -- touch granted &
    local waiter=$!
    await_waiters a 1
    end_connections
    expect 75 "$rota" run -n a touch ran
    [ ! -e ran ] && [ ! -e granted ] || fail "two hold"
    let_go
    expect 0 wait $waiter
    [ -e granted ] || fail "not granted"
}

# ---- Errors: one line, the reason in it

# Tried until the time is over: side by side.
test_nobody_is_there()
{
    local asked=() pid
    beside() # CASE CODE PATTERN COMMAND...
    {
        (mkdir "$1" && cd "$1" && refused "${@:2}") &
        asked+=($!)
    }
    unset ROTA_URL
    beside 1 69 '127.0.0.1:1.*refused' "$rota" --on "$engine://x@127.0.0.1:1/x" ls
    beside 2 69 '127.0.0.1:1.*refused' "$rota" --on "$engine://x@127.0.0.1:1,127.0.0.1:1/x" run a true
    beside 3 69 'no.such.host.invalid' "$rota" --on "$engine://x@no.such.host.invalid/x" ls
    for pid in "${asked[@]}"; do
        expect 0 wait "$pid"
    done
}

test_wrong_urls()
{
    unset ROTA_URL
    refused 64 "no parameter 'colour'" "$rota" --on "$ROTA_TEST_URL?colour=1" ls
    refused 64 "no-such-file" "$rota" --on "$ROTA_TEST_URL?password_file=/no-such-file" ls
}

test_doctor()
{
    "$rota" run a true
    expect 0 "$rota" doctor >out
    has '^(kept|limited) +one holder at a time' out
    same "0 0" "$("$rota" doctor --json | json '[d["broken"], len([v for v in d["verdicts"] if v["verdict"] != "kept" and not v["remedy"]])]')"
    same 0 "$(left)"
}

# What it prints makes the tables, once and again.
test_doctor_ddl()
{
    sql "drop table rota_ticket; drop table rota_line; drop table rota_session; drop table rota_meta"
    expect 0 "$rota" doctor --ddl >ddl
    sql "$(cat ddl)" || fail "$(cat ddl)"
    sql "$(cat ddl)" || fail "twice: $(cat ddl)"
    same 1.0 "$(sql "select v from rota_meta where k = 'layout'")"
    expect 0 "$rota" run a true
}

# ---- An account that may only read and write the tables

limited_works()
{
    hold a
    expect 75 "$rota" run -n a touch ran
    "$rota" run a true &
    local waiter=$!
    await_waiters a 1
    let_go
    expect 0 wait $waiter
    expect 0 "$rota" doctor >out
    ! grep -q '^broken' out || fail "$(cat out)"
    expect 0 "$rota" doctor --ddl >ddl
    has 'rota_ticket' ddl
}

# All that may show a secret goes to the file shown.
limited_password_is_secret()
{
    [ ${#secret} -ge 8 ] || fail "no password in $given"
    expect 0 "$rota" run a -- sh -c 'tr "\0" " " </proc/$PPID/cmdline; ps -ef' >shown
    ROTA_TRACE=1 expect 0 "$rota" run a true >>shown 2>&1
    unset ROTA_URL ROTA_PASSWORD
    ROTA_TRACE=1 expect 0 "$rota" --on "$given" ls >>shown 2>&1
    mkdir -p .config/rota
    echo "prod = ${ROTA_TEST_URL/rota@/rota:$secret@}" >.config/rota/config
    ROTA_TRACE=1 expect 0 "$rota" --on prod run a true >>shown 2>&1
    "$rota" --on prod doctor --json >>shown
    "$rota" --on prod top --json -1 >>shown
    [ "$(wc -l <shown)" -gt 5 ] || fail "nothing was shown"
    ! grep -qF "$secret" shown || fail "the password shows"
}

limited_wrong_password()
{
    unset ROTA_URL
    ROTA_PASSWORD=wrong-7 refused 69 "rota" "$rota" --on "$ROTA_TEST_URL" ls
    ! grep -q wrong-7 refused.err || fail "$(cat refused.err)"
    ROTA_PASSWORD=wrong-7 refused 69 "ada" "$rota" --on "${ROTA_TEST_URL/rota@/ada@}" run a true
}

# shellcheck disable=SC2046 # names
run_cases "${@:-$(declare -F | sed -n "s/^declare -f \(${kind}_.*\)/\1/p")}"
