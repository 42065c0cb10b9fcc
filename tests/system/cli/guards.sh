#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests of rota guard: the file, and what it prints, run unchanged on the server of a URL.
#
#   guards.sh ROTA file|postgres|mysql|redis|etcd [URL]
# shellcheck disable=SC2317 # the cases are called by name
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
. "$here/../../lib/clients.sh"
rota=$(realpath "$1") kind=$2 url=${3-}

# Names that mean something to a shell, to SQL, to etcdctl.
nasty="it's \"q\" \`b\` \$HOME \\n %s;--"

# The parts of what is printed, split at the comments between them: 1 is the first. Later parts need those before them.
part() # N FILE
{
    awk -v n="$1" '/^# (Once|Look|Write|Under)/ && !/^# Under.*redis-cli|^# Under.*it ends/ { part++ } part == n || (part == 0 && /^guard=/)' "$2"
}

# ---- The file

file_is_replaced_by_the_later_fence()
{
    echo old >state
    expect 0 env ROTA_FENCE=34 "$rota" guard file state <<<"new"
    same new "$(cat state)"
    same "" "$(ROTA_FENCE=33 "$rota" guard file state <<<late 2>err)"
    ROTA_FENCE=33 "$rota" guard file state <<<late 2>err
    same 76 $?
    has 'fence 34 was here already, ours is 33' err
    same new "$(cat state)"
    expect 0 "$rota" guard file --fence 35 state </dev/null
    [ ! -s state ] || fail "not empty"
}

file_look_claims()
{
    printf 'a\0b' >state
    ROTA_FENCE=34 "$rota" guard file --look state >seen || fail "not claimed"
    cmp seen state || fail "not what is there"
    expect 76 env ROTA_FENCE=33 "$rota" guard file state <<<late 2>err
    expect 76 env ROTA_FENCE=33 "$rota" guard file --look state 2>err
    expect 0 "$rota" guard file --look state --fence 34 >seen
}

file_under_run()
{
    expect 0 "$rota" run a -- sh -c "echo one | '$rota' guard file state"
    expect 0 "$rota" run a -- sh -c "echo two | '$rota' guard file state"
    same two "$(cat state)"
}

file_large()
{
    head -c 3000000 /dev/urandom >large
    expect 0 "$rota" guard file --fence 1 state <large
    cmp large state || fail "not the same"
}

file_wrong_usage()
{
    unset ROTA_FENCE
    refused 64 'no \$ROTA_FENCE' "$rota" guard file state
    for fence in 0 -1 x '' 9223372036854775808 ' 1'; do
        refused 64 'is no fence' env ROTA_FENCE="$fence" "$rota" guard file state
    done
    refused 64 'path of the file is missing' "$rota" guard file --fence 1
    refused 64 'one word too many' "$rota" guard file --fence 1 a b
    refused 64 'no tables and keys' "$rota" guard file --fence 1 --key a b
    refused 64 'say what' "$rota" guard
    refused 64 "no guard for 'paper'" "$rota" guard paper
    refused 64 '--key is missing' "$rota" guard redis
    refused 64 'has no tables' "$rota" guard etcd --key a --table b
    refused 64 "go with 'file' only" "$rota" guard redis --key a --fence 3
    refused 64 'go with --table' "$rota" guard mysql --key a
    refused 64 'control' "$rota" guard postgres --table $'a\nb'
    refused 64 'is not known' "$rota" guard postgres --nonsense
    [ ! -e state ] || fail "something was written"
}

file_that_cannot_be()
{
    refused 74 'cannot .*no/such/state' "$rota" guard file --fence 1 no/such/state </dev/null
    refused 74 'is no file' "$rota" guard file --fence 1 . </dev/null
    refused 74 'cannot read' "$rota" guard file --fence 1 --look none
}

# ---- Lines for servers

sql_run() # WORDS... of rota guard: its two parts in once.sh and job.sh
{
    "$rota" guard "$kind" "$@" >lines || fail "it does not print"
    part 1 lines >once.sh
    part 2 lines >job.sh
    sh -e once.sh >out 2>&1 || fail "once: $(cat out)"
}

job() # KEY FENCE
{
    KEY=$1 ROTA_FENCE=$2 sh job.sh >out 2>&1
}

table_of_the_user() # QUOTE
{
    local q=$1 table=${kind}_$RANDOM column='the "fence"'
    local name="odd'\$ \`$table\""
    local quoted=$q${name//"$q"/"$q$q"}$q
    say "CREATE TABLE $quoted (id varchar(50) PRIMARY KEY, n int)"
    say "INSERT INTO $quoted VALUES ('it''s', 7), ('other', 7)"
    sql_run --table "$name" --key id --column "$column" --set 'n = n + 1'
    job "it's" 34 || fail "34: $(cat out)"
    same 8 "$(say "SELECT n FROM $quoted WHERE id = 'it''s'")"
    job "it's" 33 && fail "33 was let in"
    same 8 "$(say "SELECT n FROM $quoted WHERE id = 'it''s'")"
    job "it's" 34 || fail "34 again: $(cat out)"
    job "it's" 9223372036854775807 || fail "the largest: $(cat out)"
    same 10 "$(say "SELECT n FROM $quoted WHERE id = 'it''s'")"
    job none 35 && fail "a row that is not there was let in"
    job other '' && fail "no fence was let in"
    job other 1 || fail "1: $(cat out)"
    same 8 "$(say "SELECT n FROM $quoted WHERE id = 'other'")"
}

table_for_all()
{
    say "CREATE TABLE counted (n int)"
    say "INSERT INTO counted VALUES (7)"
    sql_run
    sed -i 's/^-- Here: look, then change.*/UPDATE counted SET n = n + 1;/' job.sh
    job "$nasty" 34 || fail "34: $(cat out)"
    job "$nasty" 33 && fail "33 was let in"
    job another 33 || fail "another resource: $(cat out)"
    same 9 "$(say "SELECT n FROM counted")"
    sh -e once.sh >out 2>&1 || fail "twice: $(cat out)"
}

test_postgres_table_of_the_user()
{
    say() { psql -X -q -t -A -v ON_ERROR_STOP=1 -c "$1" || fail "$1"; }
    table_of_the_user '"'
}

test_postgres_table_for_all()
{
    say() { psql -X -q -t -A -v ON_ERROR_STOP=1 -c "$1" || fail "$1"; }
    table_for_all
}

test_mysql_table_of_the_user()
{
    say() { mariadb -N -B -e "$1" || fail "$1"; }
    table_of_the_user '`'
}

test_mysql_table_for_all()
{
    say() { mariadb -N -B -e "$1" || fail "$1"; }
    table_for_all
}

look_and_write() # KEY COMMAND-TO-SEE...: parts look and write in look.sh and write.sh
{
    local key=$1
    shift
    ROTA_FENCE=33 VALUE=6 sh write.sh >out 2>&1 || fail "33: $(cat out)"
    ROTA_FENCE=34 sh look.sh >out 2>&1 || fail "look: $(cat out)"
    grep -qx 6 out || fail "the look shows: $(cat out)"
    ROTA_FENCE=33 VALUE=7 sh write.sh >out 2>&1 && fail "33 was let in after 34 looked"
    ROTA_FENCE=33 sh look.sh >out 2>&1 && fail "33 may look after 34 looked"
    same 6 "$("$@" "$key")"
    ROTA_FENCE='' VALUE=7 sh write.sh >out 2>&1 && fail "no fence was let in"
    ROTA_FENCE=34 VALUE='8 9' sh write.sh >out 2>&1 || fail "34: $(cat out)"
    same '8 9' "$("$@" "$key")"
    ROTA_FENCE=100 VALUE=10 sh write.sh >out 2>&1 || fail "100: $(cat out)"
    ROTA_FENCE=99 VALUE=11 sh write.sh >out 2>&1 && fail "99 was let in"
    same 10 "$("$@" "$key")"
}

test_redis_lines()
{
    local key
    redis-cli FLUSHALL >out
    for key in stock:7 '{stock}:8' "$nasty"; do
        "$rota" guard redis --key "$key" >lines || fail "it does not print"
        part 1 lines >look.sh
        { grep '^guard=' lines; part 2 lines; } >write.sh
        look_and_write "$key" redis-cli GET
    done
    same 100 "$(redis-cli GET '{stock:7}:fence')"
}

test_etcd_lines()
{
    local key
    etcdctl del --prefix '' >out
    for key in stock:7 "$nasty"; do
        "$rota" guard etcd --key "$key" >lines || fail "it does not print"
        part 1 lines >once.sh
        part 2 lines >look.sh
        part 3 lines >write.sh
        sh -e once.sh >out 2>&1 || fail "once: $(cat out)"
        look_and_write "$key" etcdctl get --print-value-only
        sh -e once.sh >out 2>&1 # what is there stays
        ROTA_FENCE=99 VALUE=11 sh write.sh >out 2>&1 && fail "99 was let in"
        # A client that prints nothing was not let in. (etcdctl itself waits for ever for a server that is not there.)
        ln -sf "$(type -P false)" etcdctl
        PATH="$PWD:$PATH" ROTA_FENCE=101 VALUE=12 sh write.sh >out 2>&1 && fail "silence was taken for success"
        rm etcdctl
    done
}

# ---- The guide: its lines, as they are

page() # into job.sh
{
    awk -v mark="<!-- run: $kind -->" '$0 == mark { on = 1; next } on && /^```sh/ { inside = 1; next } /^```/ { on = inside = 0 } inside' \
        "$here/../../../docs/guides/guards.md" >job.sh
    [ -s job.sh ] || fail "the guide has no lines for $kind"
}

older_is_refused() # COMMAND...: what shows the state
{
    local before
    ROTA_FENCE=34 sh job.sh >out 2>&1 || fail "34: $(cat out)"
    before=$("$@")
    ROTA_FENCE=33 sh job.sh >out 2>&1 && fail "33 was let in"
    same "$before" "$("$@")"
    ROTA_FENCE=35 sh job.sh >out 2>&1 || fail "35: $(cat out)"
}

file_guide()
{
    page
    echo 7 >count
    PATH="$(dirname "$rota"):$PATH" older_is_refused cat count
    same 9 "$(cat count)"
}

test_postgres_guide()
{
    say() { psql -X -q -t -A -v ON_ERROR_STOP=1 -c "$1" || fail "$1"; }
    page
    say "CREATE TABLE account (id int PRIMARY KEY, balance int, fence bigint NOT NULL DEFAULT 0)"
    say "INSERT INTO account VALUES (7, 100)"
    older_is_refused say "SELECT balance FROM account"
    same 80 "$(say "SELECT balance FROM account")"
}

test_mysql_guide()
{
    say() { mariadb -N -B -e "$1" || fail "$1"; }
    page
    say "CREATE TABLE account (id int PRIMARY KEY, balance int, fence bigint NOT NULL DEFAULT 0)"
    say "INSERT INTO account VALUES (7, 100, 0)"
    older_is_refused say "SELECT balance FROM account"
    same 80 "$(say "SELECT balance FROM account")"
}

test_redis_guide()
{
    page
    redis-cli DEL '{stock:7}:fence' >out
    redis-cli SET stock:7 10 >out
    older_is_refused redis-cli GET stock:7
    same 8 "$(redis-cli GET stock:7)"
}

test_etcd_guide()
{
    page
    "$rota" guard etcd --key stock:7 >lines
    etcdctl del stock:7.fence >out
    part 1 lines >once.sh
    sh -e once.sh >out 2>&1 || fail "once: $(cat out)"
    older_is_refused etcdctl get stock:7 --write-out=fields
}

# Cases of one kind only.
[ "$kind" != file ] || for name in $(declare -F | sed -n 's/^declare -f \(file_.*\)/\1/p'); do
    eval "test_$name() { $name; }"
done
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
[ "$kind" = file ] || reach "$url" "$home"
if [ "$kind" = mysql ]; then # each case has its own home
    mkdir -p "$home/bin"
    printf '#!/bin/sh\nexec %s --defaults-file=%s "$@"\n' "$(command -v mariadb)" "$home/.my.cnf" >"$home/bin/mariadb"
    chmod +x "$home/bin/mariadb"
    export PATH="$home/bin:$PATH"
fi
# shellcheck disable=SC2046 # a list of words
run_cases $(declare -F | sed -n "s/^declare -f \(test_${kind}_.*\)/\1/p;s/^declare -f \(test_file_.*\)/\1/p")
