#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# hold.sh ROTA URL: the dialects whose locks live with a connection, beside sessions of psql and mariadb: foreign holders are
# named, killed sessions are lost at once, the server wakes waiters, rows do not block each other.
set -u
rota=$1 url=$2
case $url in
postgres*) db=postgres named=advisory ;;
*) db=mysql named=getlock ;;
esac
case $url in *\?*) mark='&' ;; *) mark='?' ;; esac
folder=$(mktemp -d)
passed=0 failed=0
trap 'exec 3>&-; rm -rf "$folder"' EXIT

on() # DIALECT: its URL
{
    echo "$url${mark}dialect=$1"
}

part() # PATTERN: of the URL
{
    echo "$url" | sed -n "s,$1,\1,p"
}

host=$(part '.*@\([^:/]*\):.*') port=$(part '.*@[^:/]*:\([0-9]*\)/.*') base=$(part '[^:]*://[^/]*/\([^?]*\).*')
if [ $db = mysql ]; then
    MYSQL_PWD=$(cat "$(part '.*password_file=\([^&]*\).*')")
    export MYSQL_PWD
fi

client() # a session of the database's own client
{
    if [ $db = postgres ]; then
        PGAPPNAME=night-job psql -XAtq "$url"
    else
        mariadb --no-defaults -N -B -n -h "$host" -P "$port" -u rota "$base"
    fi
}

sql() # STATEMENT...: in a session that ends
{
    echo "$1" | client
}

session() # STATEMENT: in a session that stays, until end_session; waits for its answer
{
    rm -f "$folder/in" "$folder/out"
    mkfifo "$folder/in"
    client <"$folder/in" >"$folder/out" 2>&1 &
    other=$!
    exec 3>"$folder/in"
    echo "$1" >&3
    until [ -s "$folder/out" ]; do sleep 0.02; done
}

end_session()
{
    exec 3>&-
    wait "$other"
}

check() # WHAT COMMAND...
{
    what=$1
    shift
    if "$@" >"$folder/said" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $what: $*"
        cat "$folder/said"
    fi
}

says() # PATTERN COMMAND...
{
    pattern=$1
    shift
    "$@" | tee /dev/stderr | grep -q "$pattern"
}

fails() # CODE COMMAND...
{
    code=$1
    shift
    "$@"
    [ $? -eq "$code" ]
}

# Runs until somebody has ended the connection that holds NAME, then prints its exit code.
lost() # DIALECT NAME
{
    rm -f "$folder/runs" # otherwise it is killed before it is told that it holds, and asks anew
    "$rota" --on "$(on "$1")" run "$2" -- sh -c "touch '$folder/runs'; exec sleep 60" &
    run=$!
    until [ -e "$folder/runs" ]; do sleep 0.02; done
    fence=
    until [ -n "$fence" ]; do
        fence=$("$rota" --on "$(on "$1")" show "$2" --json | grep -o '"fence": *"[0-9]*"' | grep -o '[0-9]*')
    done
    if [ "$3" = break ]; then
        "$rota" --on "$(on "$1")" break "$2" --fence "$fence"
    elif [ $db = postgres ]; then
        sql "select pg_terminate_backend(holder::int) from rota_hold where fence = $fence and holder <> 0;"
    else
        sql "kill $(sql "select holder from rota_hold where fence = $fence and holder <> 0;");"
    fi
    wait $run
    [ $? -eq 76 ]
}

# ---- A session of somebody else holds ---------------------------------------------------------------------------------

u=$(on $named)
check "a pair" "$rota" --on "$u" run -n foreign -- true
if [ $db = postgres ]; then
    session "select 'held' from pg_advisory_lock(hashtextextended('foreign', 0));"
    who='pid [0-9]*, user .*night-job'
else
    session "select get_lock('foreign', 10);"
    who='connection [0-9]*, rota@'
fi
check "busy" fails 75 "$rota" --on "$u" run -n foreign -- true
check "show names the session" says "$who" "$rota" --on "$u" show foreign
check "why names the session" says "$who" "$rota" --on "$u" why foreign
"$rota" --on "$u" run foreign -- true 3>&- & # stands in the server's queue
waiter=$!
check "another name is free" "$rota" --on "$u" run -n another -- true
end_session
check "woken by the session's end" wait $waiter
if [ $db = postgres ]; then
    session "begin; select 'held' from pg_advisory_lock(7, -8);"
    check "a pair of numbers is another lock than one" "$rota" --on "$u&keys=raw64" run -n 30064771064 -- true
    check "their pair is ours" fails 75 "$rota" --on "$u&keys=rawpair&names=raw" run -n 7,-8 -- true
    end_session
fi

# ---- Connections are killed ---------------------------------------------------------------------------------------------

for dialect in $named forupdate table; do
    check "$dialect: killed: the holder is told" lost $dialect killed kill
    check "$dialect: broken: the holder is told" lost $dialect broken break
    check "$dialect: free afterwards" "$rota" --on "$(on $dialect)" run -w 20 killed -- true
done

# ---- Rows ----------------------------------------------------------------------------------------------------------------

u=$(on forupdate)
check "two names of one table" "$rota" --on "$u" run -n one -- "$rota" --on "$u" run -w 20 two -- true
check "a row has an index" says "^kept *a row is locked by itself" "$rota" --on "$u" doctor
bytes=$([ $db = postgres ] && echo text || echo 'varchar(60)')
sql "create table no_index (name $bytes); insert into no_index values ('one'), ('two');" >/dev/null
bad="$u&table=no_index"
check "the doctor sees that there is none" says "^broken *a row is locked by itself" "$rota" --on "$bad" doctor
if [ $db = mysql ]; then # a session that wants one row locks every row on its way
    session "begin; select 'held' from no_index where name = 'one' for update;"
    check "without it names block each other" fails 75 "$rota" --on "$bad" run -n two -- true
    end_session
fi
sql "create unique index by_name on no_index (name);" >/dev/null
check "with it they do not" "$rota" --on "$bad" run -n one -- "$rota" --on "$bad" run -w 20 two -- true
check "and the doctor says so" says "^kept *a row is locked by itself" "$rota" --on "$bad" doctor
session "begin; select 'held' from no_index where name = 'one' for update;"
check "a row that a session has is busy" fails 75 "$rota" --on "$bad" run -n one -- true
check "another is not" "$rota" --on "$bad" run -n two -- true
who='pid [0-9]*, user .*night-job'
[ $db = postgres ] || who='a session of this server; MariaDB does not say which'
check "whose it is" says "$who" "$rota" --on "$bad" show one
check "why" says "$who" "$rota" --on "$bad" why one
check "another is free" says "free" "$rota" --on "$bad" why two
end_session

# ---- Tables of the user's own that cannot do it -------------------------------------------------------------------------

one_line() # PATTERN COMMAND...: it is refused as the user's mistake, in one line
{
    pattern=$1
    shift
    "$@" >"$folder/line" 2>&1
    code=$?
    cat "$folder/line"
    [ $code -eq 64 ] && [ "$(wc -l <"$folder/line")" -eq 1 ] && grep -q "$pattern" "$folder/line"
}

rows() # TABLE: how many it has
{
    sql "select count(*) from $1;"
}

if [ $db = mysql ]; then
    sql "create table no_rows (name varchar(64) primary key) engine=MyISAM; insert into no_rows values ('x');"
    check "not InnoDB" one_line "no_rows is not InnoDB" "$rota" --on "$u&table=no_rows" run -n x -- true
    check "the doctor, too" says "^broken .*no_rows is not InnoDB" "$rota" --on "$u&table=no_rows" doctor
    sql "create table numbers (id int auto_increment primary key);"
else
    sql "create table numbers (id serial primary key);"
fi
check "a column of numbers" one_line "column id of numbers is no text" "$rota" --on "$u&table=numbers&column=id" run -n abc -- true
check "nothing was inserted" [ "$(rows numbers)" = 0 ]
check "the doctor, too" says "^broken .*column id of numbers is no text" "$rota" --on "$u&table=numbers&column=id" doctor
check "no such column" one_line "numbers has no column nothing" "$rota" --on "$u&table=numbers&column=nothing" run -n abc -- true
check "no such table" one_line "there is no table nowhere" "$rota" --on "$u&table=nowhere" run -n abc -- true
check "nor to show" one_line "there is no table nowhere" "$rota" --on "$u&table=nowhere" show abc
sql "create table short (name varchar(8) primary key)$([ $db = postgres ] || echo ' character set utf8mb4');"
check "a name that is too long" one_line "too long a name" "$rota" --on "$u&table=short" run -n 123456789 -- true
check "nothing was inserted" [ "$(rows short)" = 0 ]
check "one that fits" "$rota" --on "$u&table=short&names=raw" run -n äöüäöüäö -- true
check "is inserted once" [ "$(rows short)" = 1 ]
sql "create table needy (name varchar(8) primary key, other int not null);"
check "a row that needs more" one_line "cannot be made" "$rota" --on "$u&table=needy" run -n abc -- true
check "nothing was inserted" [ "$(rows needy)" = 0 ]
sql "create table other_key (name varchar(8), kind int not null default 1 unique); insert into other_key values ('b', 1);"
check "a row that cannot be beside another" one_line "cannot be made" "$rota" --on "$u&table=other_key" run -n abc -- true
check "nothing was inserted" [ "$(rows other_key)" = 1 ]

# ---- Tables that are the user's -------------------------------------------------------------------------------------------

own="$(on table)&tables=&names=raw"
if [ $db = postgres ]; then
    tables="select count(*) from pg_tables where schemaname = 'public';" q='"'
    locks() { echo "begin; lock table $1 in access exclusive mode; select 'held';"; }
else
    tables="select count(*) from information_schema.tables where table_schema = database();" q='`'
    locks() { echo "lock tables $1 write; select 'held';"; }
fi
check "no such table" one_line "there is no table Orders:" "$rota" --on "$own" run -n Orders -- true
for table in orders Orders my-orders "od${q}d"; do
    quoted=$q$(echo "$table" | sed "s/$q/$q$q/g")$q
    sql "create table $quoted (x int);"
    before=$(sql "$tables")
    check "$table: free" "$rota" --on "$own" run -n "$table" -- true
    session "$(locks "$quoted")"
    check "$table: locked by a session" fails 75 "$rota" --on "$own" run -n "$table" -- true
    end_session
    check "$table: free again" "$rota" --on "$own" run -w 20 "$table" -- true
    check "$table: no other was made" [ "$(sql "$tables")" = "$before" ]
done
check "too long for a table" one_line "cannot be a table: it is longer than" "$rota" --on "$own" run -n "$(printf '%065d' 1)" -- true
check "Rota's own" one_line "cannot be a table: it is Rota's own" "$rota" --on "$own" run -n rota_hold -- true

# ---- What is refused ---------------------------------------------------------------------------------------------------------

check "no such dialect" says "has no dialect 'nonsense', but line" sh -c "'$rota' --on '$(on nonsense)' run -n x -- true 2>&1"
check "names that are none" says "no plain name" sh -c "'$rota' --on '$(on forupdate)&table=a;b' run -n x -- true 2>&1"
[ $db = mysql ] || check "an unknown mapping" says "none of hashtextextended" sh -c "'$rota' --on '$(on $named)&keys=nonsense' run -n x -- true 2>&1"

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
