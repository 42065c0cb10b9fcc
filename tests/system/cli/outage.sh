#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Outages: a server is stopped (stop), or killed and started again with its data (kill), for less than holders
# outlast, for longer than the ttl, and for longer than the waiters' limit; and what becomes of a holder, of waiters
# and of an election. Prints one table; a role that did not end as documented is marked, and fails.
#
#   outage.sh ROTA ENGINE...     redis, etcd, postgres, mysql, zookeeper
#
# $OUTAGE_TTL, $OUTAGE_LIMIT and $OUTAGES, in seconds, choose other times: 10, 90 and "3 30 300" is what people run. The
# shortest outage has a ttl of its own, $OUTAGE_LONG_TTL: nobody may lose anything in it, even on a starved machine.
set -u
rota=$(realpath "$1")
shift
ttl=${OUTAGE_TTL:-3} long_ttl=${OUTAGE_LONG_TTL:-${OUTAGE_TTL:-10}} limit=${OUTAGE_LIMIT:-12}
read -ra lengths <<<"${OUTAGES:-0.6 7.5 15}"
room=$(mktemp -d)
trap 'jobs -p | xargs -r kill 2>/dev/null; kill "$anchors" 2>/dev/null; wait; rm -rf "$room"' EXIT

now_ms() { date +%s%3N; }
ms() { awk -v s="$1" 'BEGIN { printf "%d", s * 1000 }'; }

# Kept bound while this runs, so that nobody takes one while its server is away; servers may bind them too.
free_ports() # COUNT
{
    exec python3 -c 'import signal, socket, sys
held = [socket.socket() for _ in range(int(sys.argv[1]))]
for s in held:
    s.bind(("127.0.0.1", 0))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
print(*(s.getsockname()[1] for s in held), flush=True)
signal.pause()' "$1"
}

# ---- Servers: in the folder of the case, their data survives a kill; $server is the pid

serve_redis()
{
    redis-server --bind 127.0.0.1 --port "$port" --dir "$PWD" --save '' --appendonly yes --appendfsync always \
        >>server.log 2>&1 &
    server=$!
}

serve_etcd()
{
    etcd --data-dir "$PWD/data" --listen-client-urls "http://127.0.0.1:$port" \
        --advertise-client-urls "http://127.0.0.1:$port" --listen-peer-urls "http://127.0.0.1:$peer_port" \
        --initial-advertise-peer-urls "http://127.0.0.1:$peer_port" \
        --initial-cluster "default=http://127.0.0.1:$peer_port" >>server.log 2>&1 &
    server=$!
}

# PostgreSQL does not run as root.
as_postgres=()
[ "$(id -u)" != 0 ] || as_postgres=(setpriv --reuid=postgres --regid=postgres --init-groups --pdeathsig=KILL)

prepare_postgres()
{
    bin=$(pg_config --bindir)
    chmod 711 "$room" && mkdir data && chmod 711 . && { [ "$(id -u)" != 0 ] || chown postgres data; }
    "${as_postgres[@]}" "$bin/initdb" -D "$PWD/data" -A trust -U postgres --no-sync >>server.log 2>&1
    export ROTA_URL="postgres://postgres@127.0.0.1:$port/postgres?ttl=${ttl}s"
}

serve_postgres()
{
    "${as_postgres[@]}" "$bin/postgres" -D "$PWD/data" -p "$port" -c listen_addresses=127.0.0.1 \
        -c unix_socket_directories= >>server.log 2>&1 &
    server=$!
}

# All its processes: those of PostgreSQL are in groups of their own.
processes_of() # PID
{
    echo "$1" "$(cat "/proc/$1/task/$1/children" 2>/dev/null)"
}

prepare_mysql()
{
    mkdir tmp # in one folder for all, servers that start at the same time remove each other's files
    mariadb-install-db --no-defaults --datadir="$PWD/data" --tmpdir="$PWD/tmp" --skip-test-db --auth-root-authentication-method=normal \
        --user="$(id -un)" >>server.log 2>&1
    printf '%s;\n' 'create database locks' "create user rota@'127.0.0.1' identified by 'of-the-test'" \
        "grant all on locks.* to rota@'127.0.0.1'" >init.sql # a line each
    export ROTA_PASSWORD=of-the-test ROTA_URL="mysql://rota@127.0.0.1:$port/locks?ttl=${ttl}s"
}

serve_mysql()
{
    mariadbd --no-defaults --datadir="$PWD/data" --tmpdir="$PWD/tmp" --socket="$PWD/sock" --pid-file="$PWD/pid" --port="$port" \
        --bind-address=127.0.0.1 --skip-name-resolve --user="$(id -un)" --innodb-buffer-pool-size=16M \
        ${first:+--init-file="$PWD/init.sql"} >>server.log 2>&1 &
    server=$!
}

prepare_zookeeper()
{
    mkdir data
    printf '%s\n' tickTime=200 dataDir="$PWD/data" clientPort="$port" clientPortAddress=127.0.0.1 admin.enableServer=false \
        minSessionTimeout=400 maxSessionTimeout=3600000 maxClientCnxns=0 preAllocSize=256 >zoo.cfg
    export ROTA_URL="zk://127.0.0.1:$port/locks?ttl=${ttl}s&tick_ms=200"
}

serve_zookeeper()
{
    java -Xmx64m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp /usr/share/java/zookeeper.jar \
        org.apache.zookeeper.server.quorum.QuorumPeerMain zoo.cfg >>server.log 2>&1 &
    server=$!
}

pause() { read -r -t 0.05 _ <>quiet || true; } # before a look is repeated

await_server() { until "$rota" ls >/dev/null 2>>ls.err; do kill -0 "$server" || return 1; pause; done; }

# ---- Roles: each writes its exit code into NAME.code

role() # NAME ROTA'S-WORDS...
{
    local name=$1
    shift
    {
        "$rota" "$@" 2>"$name.err"
        echo $? >"$name.code"
    } &
}

waiting() { "$rota" show "$1" 2>/dev/null | grep -c '^[0-9]* *waits '; }

# A role that has already ended lost its lock, or did not wait: what this waits for would never come.
await_waiting() # NAME COUNT
{
    local limit_at=$((SECONDS + 90))
    until [ "$(waiting "$1")" = "$2" ]; do
        [ "$SECONDS" -lt "$limit_at" ] || { "$rota" show "$1" >&2; return 1; }
        kill -0 "$server" && ! compgen -G '*.code' >/dev/null || return 1
        pause
    done
}

begin_roles()
{
    mkfifo up down
    exec 6<>up 7<>down
    role holder run a -- sh -c 'echo >up; read -r _ <down'
    read -r -t 30 _ <&6 || return 1
    role leader elect e -- sh -c 'echo >up; read -r _ <down'
    read -r -t 30 _ <&6 || return 1
    role run run a -- true
    await_waiting a 1 || return 1
    role standby elect e -- true
    await_waiting e 1 || return 1
    role limited run -w "$limit" a -- true
    await_waiting a 2
}

# Until all have ended; one that never does would say nothing at all, so there is a limit, far above all others.
ended() # NAME...
{
    local name limit_at=$((SECONDS + 60 + 10 * ttl))
    for name in "$@"; do
        until [ -s "$name.code" ]; do
            [ "$SECONDS" -lt "$limit_at" ] || { echo "$name has not ended" >&2; "$rota" show a >&2; "$rota" show e >&2; return 1; }
            pause
        done
    done
}

# ---- What is documented

between() { [ "$away" -ge "$1" ] && [ "$away" -le "$2" ]; }

# A holder outlasts half of the ttl; from the ttl on it has lost. In between it depends on when it last renewed.
outlasts() { echo $((ttl_ms / 2)); }

holder_may() # CODE
{
    between 0 "$(outlasts)" && [ "$1" != 0 ] && return 1
    between "$ttl_ms" 999999999 && [ "$1" != 76 ] && return 1
    [ "$1" = 0 ] || [ "$1" = 76 ]
}

# A waiter is granted in the end, and says once that its place was lost, and once that it is in line again. One that is
# granted is a holder: after an outage that holders need not outlast it may lose what it just got.
waiter_may() # CODE NAME
{
    local lost back
    lost=$(grep -c 'is lost .*; waiting on$' "$2.err") back=$(grep -c "in line for '.' again" "$2.err")
    [ "$1" = 76 ] && [ "$away" -lt "$ttl_ms" ] && ! between 0 "$(outlasts)" && return 0
    [ "$1" = 0 ] && [ "$lost" = "$back" ] || return 1
    between 0 "$(outlasts)" && [ "$lost" != 0 ] && return 1
    between "$ttl_ms" 999999999 && [ "$lost" = 0 ] && return 1
    return 0
}

limited_may() # CODE NAME
{
    local left=$((limit * 1000 - away)) # for those before it to go: a restarted etcd gives leases a whole ttl
    [ "$(ms "$length")" -gt $((limit * 1000)) ] && { [ "$1" = 69 ] && grep -q 'not granted in time: ' "$2.err"; return; }
    [ "$left" -lt $((2 * ttl_ms)) ] && [[ $1 = 75 || $1 = 69 ]] && return
    waiter_may "$1" "$2"
}

verdict() # CHECK NAME: a field of the table
{
    local code said=''
    code=$(cat "$2.code")
    grep -q '; waiting on$' "$2.err" && said=' back in line'
    grep -q 'not granted in time' "$2.err" && said=' limit over'
    [ "$code" = 76 ] && said=' lost'
    if "$1" "$code" "$2"; then
        printf '%-18s' "$code$said"
    else
        printf '%-18s' "$code$said (!)"
        sed "s/^/    $engine $fault $length: $2: /" "$2.err" >>"$room/complaints"
        echo "    $engine $fault $length s, away $away ms: $2 ended with $code" >>"$room/complaints"
    fi
}

# ---- One case

heal()
{
    if [ "$fault" = stop ]; then
        # shellcheck disable=SC2086 # several words
        kill -CONT $stopped
    else
        "serve_$engine"
    fi
    await_server
}

one() # in a folder of its own
{
    # Not local: the trap at the end of its shell sees them.
    [ "$length" != "${lengths[0]}" ] || ttl=$long_ttl
    ttl_ms=$(ms "$ttl")
    export HOME=$PWD ROTA_URL="$engine://127.0.0.1:$port?ttl=${ttl}s"
    mkfifo quiet
    [ "$(type -t "prepare_$engine")" = "" ] || "prepare_$engine"
    first=1
    "serve_$engine"
    trap 'kill -CONT $(processes_of $server); kill -9 $server; jobs -p | xargs -r kill -9' EXIT
    await_server && begin_roles || { echo "    $engine $fault $length: no beginning:" \
        "$(tail -qn 1 ./*.err ./*.code 2>/dev/null | tr '\n' ' ')" >>"$room/complaints"; return; }
    first=''
    begun=$(now_ms)
    # shellcheck disable=SC2046 # several words
    if [ "$fault" = stop ]; then
        stopped=$(processes_of "$server")
        kill -STOP $stopped
    else
        kill -9 $(processes_of "$server")
        wait "$server" 2>/dev/null
    fi
    sleep "$length" # the outage itself, not a wait for anything
    heal || return
    away=$(($(now_ms) - begun))
    printf '\n\n' >&7 # remaining holders let go
    ended holder leader run standby limited || { tail -n 5 ./*.err >&2; return; }
    printf '%-9s %-5s %6s s  %s %s %s %s %s\n' "$engine" "$fault" "$length" "$(verdict holder_may holder)" \
        "$(verdict waiter_may run)" "$(verdict limited_may limited)" "$(verdict holder_may leader)" \
        "$(verdict waiter_may standby)" >row
}

cases=() running=()
exec 5< <(free_ports $((4 * $# * ${#lengths[@]})))
anchors=$!
read -ra ports <&5
for engine in "$@"; do
    for fault in stop kill; do
        for length in "${lengths[@]}"; do
            folder=$room/$engine-$fault-$length
            mkdir "$folder"
            port=${ports[2 * ${#cases[@]}]} peer_port=${ports[2 * ${#cases[@]} + 1]}
            cases+=("$folder")
            (cd "$folder" && exec >/dev/null 2>case.log 5<&- && one) &
            running+=($!)
        done
    done
done
wait "${running[@]}"
kill "$anchors"
printf 'Outages at a ttl of %s s, the shortest at %s s: exit codes, and what was said\n' "$ttl" "$long_ttl"
printf '%-9s %-5s %8s  %-18s %-18s %-18s %-18s %-18s\n' engine fault away holder run "run -w $limit" leader standby
for folder in "${cases[@]}"; do
    cat "$folder/row" 2>/dev/null || { echo "$(basename "$folder"): no row"; cat "$folder/case.log"; } | tee -a "$room/complaints"
done
[ ! -s "$room/complaints" ] || { cat "$room/complaints"; exit 1; }
