#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The command on PostgreSQL and MariaDB, as somebody who has one uses it (servers.sh has what all servers share): with
# connections that are ended, an account with few rights, and what it says when something is wrong.
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
. "$(dirname "$0")/servers.sh"
rota=$(realpath "$1")
topology=$2 given=$3
shift 3
engine=${given%%:*}
unset ROTA_PASSWORD
kind="test"
[ "$topology" != limited ] || kind=limited
ROTA_TEST_URL=${given%%\?*}
account=$ROTA_TEST_URL
secret=$(secret_of "$given")
[ -z "$secret" ] || export ROTA_PASSWORD=$secret
port=${ROTA_TEST_URL##*:} port=${port%%/*}
export rota ROTA_TEST_URL

sql() # STATEMENT...: what it answers, without ornaments
{
    if [ "$engine" = postgres ]; then
        PGPASSWORD=$secret psql -XqAt -h 127.0.0.1 -p "$port" -U "${user:-postgres}" postgres -c "$*"
    else
        MYSQL_PWD=$secret mariadb --no-defaults -NB -h 127.0.0.1 -P "$port" -u rota locks -e "$*"
    fi
}

left() # tickets and holds of this case
{
    sql "select (select count(*) from rota_ticket where name like '$(spelled '%')')
        + (select count(*) from rota_line where session is not null and name like '$(spelled '%')')"
}

number_of()
{
    sql "select min(number) from rota_ticket where name = '$(spelled "$1")'"
}

url_at()
{
    echo "$engine://x@$1/x"
}

# ---- Connections that end otherwise

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

# What it prints makes the tables, and can be run again.
test_doctor_ddl()
{
    sql "drop table rota_ticket; drop table rota_line; drop table rota_session; drop table rota_meta"
    expect 0 "$rota" doctor --ddl >ddl
    sql "$(cat ddl)" || fail "$(cat ddl)"
    sql "$(cat ddl)" || fail "twice: $(cat ddl)"
    same 1.0 "$(sql "select v from rota_meta where k = 'layout'")"
    expect 0 "$rota" run a true
}

# ---- Dialects

# As ShedLock's own client writes it, from another host.
shedlock_of_others()
{
    local now="timezone('utc', current_timestamp)" later="timezone('utc', current_timestamp) + interval '60 seconds'"
    if [ "$engine" != postgres ]; then
        now="utc_timestamp(3)" later="timestampadd(second, 60, utc_timestamp(3))"
    fi
    sql "insert into shedlock(name, lock_until, locked_at, locked_by) values('$(spelled job)', $later, $now, 'their-host')"
}

test_dialects_of_rows()
{
    local dialect plain=$ROTA_URL
    for dialect in row version shedlock; do
        export ROTA_URL="${plain%%\?*}?dialect=$dialect&${plain#*\?}"
        hold a
        expect 75 "$rota" run -n a touch ran
        expect 0 "$rota" show a >out
        has 'holds' out
        expect 0 "$rota" ls >out
        has '^a ' out
        let_go
        expect 0 "$rota" doctor >out
        has "dialect $dialect in the table" out
        same "0 0" "$("$rota" doctor --json | json '[d["broken"], len([v for v in d["verdicts"] if v["verdict"] != "kept" and not v["remedy"]])]')"
        expect 0 "$rota" doctor --ddl >ddl
        sql "$(cat ddl)" || fail "$dialect: $(cat ddl)"
    done
    shedlock_of_others
    expect 75 "$rota" run -n job touch ran
    expect 0 "$rota" show job >out
    has 'their-host' out
    expect 0 "$rota" why job >out
    has 'their-host' out
    [ ! -e ran ] || fail "two hold"
    refused 64 "has no dialect 'rows', but line, row, version, shedlock" "$rota" --on "$ROTA_TEST_URL?dialect=rows" ls
    refused 64 "table= is for the dialects" "$rota" --on "$ROTA_TEST_URL?table=x" ls
}

# Rota's own line, with the others' lock at its front.
test_also()
{
    local plain=$ROTA_URL also=advisory
    [ "$engine" = postgres ] || also=getlock
    for also in "$also&waits=40" "shedlock&table=shedlock"; do
        export ROTA_URL="${plain%%\?*}?also=$also&${plain#*\?}"
        hold a
        expect 75 "$rota" run -n a touch ran
        expect 0 "$rota" show a >out
        has 'holds' out
        "$rota" run a true &
        local waiter=$!
        await_waiters a 1
        let_go
        expect 0 wait $waiter
        expect 0 "$rota" doctor >out
        has 'beside the line' out
        same 0 "$("$rota" doctor --json | json 'd["broken"]')"
    done
    expect 0 "$rota" doctor --ddl >ddl
    has 'rota_ticket' ddl
    has 'locked_by' ddl
    shedlock_of_others
    expect 75 "$rota" run -n job touch ran
    expect 0 "$rota" show job >out
    has 'their-host' out
    expect 0 "$rota" why job >out
    has 'their-host' out
    [ ! -e ran ] || fail "two hold"
    refused 64 "knows no also=row, but shedlock, " "$rota" --on "$ROTA_TEST_URL?also=row" ls
    refused 64 "leave out dialect=" "$rota" --on "$ROTA_TEST_URL?also=shedlock&dialect=row" ls
}

# Each dialect sells exactly.
test_demo_dialect_by_dialect()
{
    local dialect
    expect 0 "$rota" demo --buyers 3 --stock 6 >out
    for dialect in row version shedlock; do
        grep -Eq "^dialect $dialect +6 +0 " out || fail "$dialect: $(cat out)"
    done
}

limited_is_told_of_the_tables_of_a_dialect()
{
    unset ROTA_URL
    refused 64 "no tables shedlock, and this user may not make them.*rota doctor --ddl" "$rota" --on "$ROTA_TEST_URL?dialect=shedlock" ls
    expect 0 "$rota" --on "$ROTA_TEST_URL?dialect=shedlock" doctor --ddl >ddl
    has 'locked_by' ddl
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

limited_password_is_secret()
{
    password_is_secret
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
