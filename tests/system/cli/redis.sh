#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The command on Redis: what it says when something is wrong, and what becomes of the command under
# rota run when the server, the network or rota itself stalls for longer than the ttl.
#
#   with-redis one -- redis.sh ROTA BREAK_LOCK PTY FAULTPROXY @URL@ [CASE]...
#
# What the commands print on any engine is in commands.sh, which runs on Redis too.
# shellcheck disable=SC2016 # single quotes: for the inner shell
# shellcheck disable=SC2317 # the cases are called by name
# shellcheck disable=SC2154 # holder: of lib.sh
set -u
. "$(dirname "$0")/lib.sh"
rota=$(realpath "$1") break_lock=$(realpath "$2") pty=$(realpath "$3") faultproxy=$(realpath "$4")
export rota break_lock pty ROTA_TEST_URL=${5%/}
port=${ROTA_TEST_URL##*:}
shift 5

redis()
{
    redis-cli -p "$port" "$@"
}

server=$(redis info server | tr -d '\r' | sed -n 's/^process_id://p')
[ -n "$server" ] || { echo "redis.sh: no server at port $port" >&2; exit 1; }

# Holds until it is killed; told counts its SIGTERMs.
stubborn='trap "echo >>told" TERM; echo >up; while :; do sleep 1000 & wait $!; done'

# ---- The fault proxy: a process with one command per line

open_proxy() # ROTA_URL goes through it from here on
{
    local answer
    mkfifo asks answers
    ("$faultproxy" "$port" <asks >answers &) # it ends with its input
    exec 8>asks 9<answers
    read -r -t 30 _ answer <&9 || fail "no proxy"
    direct=$ROTA_URL
    ROTA_URL=${ROTA_URL/:$port/:$answer}
}

proxy() # COMMAND...: its answer
{
    local answer
    echo "$@" >&8
    read -r -t 60 answer <&9 || fail "the proxy has gone"
    [[ $answer == *ok ]] || fail "the proxy to '$*': $answer"
    echo "${answer% ok}"
}

# ---- The server stands still

test_stopped_server_ends_the_command_term_first()
{
    begin -- sh -c "$stubborn"
    trap 'kill -CONT $server' EXIT
    kill -STOP "$server"
    expect 76 wait "$holder"
    await_gone
    kill -CONT "$server"
    same 1 "$(wc -l <told)"
    same 1 "$(grep -c '^rota:' err)"
    has "^rota: the lock 'a' is lost \(.*did not answer.*\): ending the command\$" err
    expect 0 "$rota" run -w 30 a true
}

# One look lasts longer than the delay between two: keys and signals count all the same.
top_ends() # NUMBER KEY CODE: once let go by downNUMBER
{
    "$pty" sh -c 'trap : INT; "$rota" top -d 0.2; echo "code=$?"' <<END
size 24 400
expect NAME
run echo >up$1; read -r _ <down$1
expect did not answer
send $2
expect [?1049l
expect code=$3
end
END
}

test_top_ends_though_nobody_answers()
{
    mkfifo up1 up2 down1 down2
    top_ends 1 q 0 &
    local keys=$!
    top_ends 2 '\003' 130 &
    local signals=$!
    await up1
    await up2
    trap 'kill -CONT $server' EXIT
    kill -STOP "$server"
    echo >down1
    echo >down2
    expect 0 wait $keys
    expect 0 wait $signals
}

test_watch_tells_that_the_server_is_away()
{
    mkfifo rows
    "$rota" watch a >rows 2>err &
    local watch=$!
    exec 5<rows
    read -r -t 30 _ <&5 || fail "no row"
    trap 'kill -CONT $server' EXIT
    kill -STOP "$server"
    until grep -q 'did not answer.*; nothing is seen until that is over' err; do kill -0 $watch || fail "it ended"; done
    kill -CONT "$server"
    hold a # seen, as before
    read -r -t 30 row <&5 || fail "no row"
    [[ $row == fence* ]] || fail "$row"
    let_go
    kill $watch
    same 1 "$(grep -c '^rota: the engine is back; changes are seen again$' err)"
    same 2 "$(wc -l <err)"
}

# An outage may end with another reason, which a client that only waits for changes would not see.
test_watch_ends_when_the_server_refuses_it()
{
    "$rota" watch a >rows 2>err &
    local watch=$!
    until [ -s rows ]; do kill -0 $watch || fail "it ended: $(cat err)"; done
    trap 'redis -a secret --no-auth-warning config set requirepass "" >answer' EXIT
    redis config set requirepass secret >answer
    redis -a secret --no-auth-warning client kill skipme yes >answer
    expect 69 wait $watch
    same 1 "$(grep -Ec '^rota: redis [0-9.]+:[0-9]+ asks for a password: ' err)"
    has '; nothing is seen until that is over$' err
    same 2 "$(wc -l <err)"
}

test_watch_ends_by_a_signal_though_nobody_answers()
{
    "$rota" watch a >rows 2>err &
    local watch=$!
    until [ -s rows ]; do kill -0 $watch || fail "it ended: $(cat err)"; done
    trap 'kill -CONT $server' EXIT
    kill -STOP "$server"
    until [ -s err ]; do kill -0 $watch || fail "it ended"; done
    kill $watch
    expect 143 wait $watch
    same 1 "$(wc -l <err)"
}

# ---- The network

lost_by() # DIRECTION: a partition, longer than the ttl
{
    local first
    open_proxy
    begin -- sh -c 'echo $ROTA_FENCE >fence; '"$stubborn"
    first=$(cat fence)
    proxy lose "$1" >answer
    ROTA_URL=$direct expect 0 "$rota" run -w 30 a -- sh -c 'echo $ROTA_FENCE >fence' &
    local next=$!
    expect 76 wait "$holder"
    await_gone
    expect 0 wait $next
    same 1 "$(wc -l <told)"
    same 1 "$(grep -c '^rota:' err)"
    [ "$(cat fence)" -gt "$first" ] || fail "fence $(cat fence) after $first"
}

test_partition() { lost_by both; }
test_requests_lost() { lost_by up; }
test_replies_lost() { lost_by down; }

test_short_partition_is_not_noticed()
{
    local fault
    open_proxy
    ROTA_URL=${ROTA_URL/ttl=3s/ttl=10s} # a machine that stalls besides must not cost it the lock
    begin -- sh -c 'echo >up; read -r _ <down; touch finished'
    fault=$(proxy fault request drop)
    proxy await "$fault" 1 30000 >answer # a heartbeat
    proxy cut >answer
    fault=$(proxy fault reply look times=always)
    proxy await "$fault" 2 30000 >answer # it is there again
    echo >down
    expect 0 wait "$holder"
    [ -e finished ] || fail "it was ended"
    [ ! -s err ] || fail "$(cat err)"
}

# The worst an outage can be: it begins with a heartbeat, so that the last answer is a third of the ttl old, and
# the port is closed, so that rota dials again and again, with pauses.
test_holder_outlasts_what_doctor_says()
{
    local fault outlasts
    open_proxy
    ROTA_URL=${ROTA_URL/ttl=3s/ttl=10s}
    outlasts=$("$rota" doctor | sed -n 's/.*ttl 10 s: holders outlast \([0-9.]*\) s.*/\1/p')
    begin -- sh -c 'echo >up; read -r _ <down; touch finished'
    fault=$(proxy fault request drop)
    proxy await "$fault" 1 30000 >answer # a heartbeat
    proxy refuse >answer
    proxy cut >answer
    sleep "$outlasts" # the outage itself, not a wait for anything
    proxy open >answer
    fault=$(proxy fault reply look times=always)
    proxy await "$fault" 2 30000 >answer # it is there again
    echo >down
    expect 0 wait "$holder"
    [ -e finished ] || fail "it was ended"
}

test_on_lost_kill()
{
    open_proxy
    begin --on-lost kill -- sh -c "$stubborn"
    proxy lose both >answer
    expect 76 wait "$holder"
    await_gone
    [ ! -e told ] || fail "it was told first"
}

test_on_lost_ignore()
{
    open_proxy
    begin --on-lost ignore -- sh -c 'trap "touch told" TERM; echo >up; read -r _ <down; touch finished'
    proxy lose both >answer
    until [ -s err ]; do kill -0 "$holder" || fail "it ended"; done
    ROTA_URL=$direct expect 0 "$rota" run -w 30 a true # the lock is free, the command still there
    echo >down
    expect 76 wait "$holder"
    [ -e finished ] || fail "it was ended"
    [ ! -e told ] || fail "it was told"
    has 'the command goes on$' err
}

# ---- rota stands still, or is killed

# What the next holder must find: nothing of the previous one still runs. (Dead and not reaped is dead.)
nobody_runs='! grep -q "^State:.[^ZX]" "/proc/$(cat old)/status" 2>/dev/null'

test_killed_rota()
{
    begin -- sh -c 'echo $$ >old; '"$stubborn"
    killed "$holder"
    expect 0 "$rota" run -w 30 a -- sh -c "$nobody_runs"
    await_gone
    [ -e told ] || fail "it was not told by SIGTERM"
}

test_stopped_rota_learns_of_the_loss_first()
{
    begin -- sh -c 'echo $$ >old; '"$stubborn"
    kill -STOP "$holder"
    expect 0 "$rota" run -w 30 a -- sh -c "$nobody_runs"
    ! grep -q '^rota:' err || fail "who is stopped said: $(cat err)"
    kill -CONT "$holder"
    expect 76 wait "$holder"
    same 1 "$(grep -c '^rota:' err)"
    await_gone
    has "the lock 'a' (is|was) lost" err
}

test_stopped_rota_and_ignore()
{
    begin --on-lost ignore -- sh -c 'trap "touch told" TERM; echo >up; read -r _ <down; touch finished'
    kill -STOP "$holder"
    expect 0 "$rota" run -w 30 a true
    kill -CONT "$holder"
    until [ -s err ]; do kill -0 "$holder" || fail "it ended"; done
    has "the lock 'a' is lost: the command goes on\$" err
    echo >down
    expect 76 wait "$holder"
    [ -e finished ] && [ ! -e told ] || fail "it was ended"
}

test_stopped_waiter_comes_back()
{
    hold a
    "$rota" run a -- touch granted 2>err &
    local waiter=$!
    await_waiters a 1
    kill -STOP $waiter
    await_waiters a 0 # its session is over
    kill -CONT $waiter
    await_waiters a 1 # and it stands in line again
    let_go
    expect 0 wait $waiter
    [ -e granted ] || fail "it was not granted"
    same 1 "$(grep -c "^rota: the place in line for 'a' is lost (.*); waiting on\$" err)"
    same 1 "$(grep -c "^rota: in line for 'a' again, at its end\$" err)"
    same 2 "$(wc -l <err)"
}

test_paused_leader()
{
    local first second
    mkfifo up down
    exec 6<>up
    "$rota" elect e -- sh -c 'echo $ROTA_FENCE >up; exec sleep 1000' 2>err &
    local old=$!
    read -r -t 30 first <&6 || fail "nobody leads"
    "$rota" elect e -- sh -c 'echo $ROTA_FENCE >up; read -r _ <down' &
    local next=$!
    await_waiters e 1
    kill -STOP $old
    read -r -t 30 second <&6 || fail "nobody took over"
    [ "$second" -gt "$first" ] || fail "fence $second after $first"
    kill -CONT $old
    expect 76 wait $old
    has "the leadership 'e' (is|was) lost" err
    same "$second" "$("$rota" watch -1 e --json | json 'd["fence"]')"
    echo >down
    expect 0 wait $next
}

# ---- At a terminal: rota goes on, since nobody else would renew the lock

test_ctrl_z_keeps_the_lock()
{
    play <<'END'
send $rota run a -- sh -c 'echo $PPID >pid; echo up; exec cat'\r
expect up
send \032
expect the command is stopped, the lock 'a' stays held; Ctrl-C ends it, to go on: kill -CONT
run $rota run -w 4 a true; test $? = 75
run kill -CONT $(cat pid)
send typed\r
expect typed
send \004
expect ready:
send echo code=$?\r
expect code=0
END
}

test_ctrl_z_and_ctrl_c()
{
    play <<'END'
send $rota run a -- sh -c 'echo up; exec cat'\r
expect up
send \032
expect is stopped
send \003
expect ready:
send echo code=$?\r
expect code=130
send $rota run -n a echo free\r
expect free
END
}

test_lost_while_stopped()
{
    play <<'END'
send $rota run a -- sh -c 'trap "" TERM; echo up; exec cat'\r
expect up
send \032
expect is stopped
run $break_lock a
expect is lost
expect ready:
send echo code=$?\r
expect code=76
END
}

test_background_job_that_reads()
{
    play <<'END'
send $rota run a -- sh -c 'echo up; exec cat' &\r
expect up
expect the command waits for the terminal, the lock 'a' stays held; to go on: fg
send fg\r
expect run a
send typed\r
expect typed
send \004
expect ready:
send echo code=$?\r
expect code=0
END
}

# ---- Errors: one line, the reason in it

test_nobody_listens()
{
    local command asked=()
    open_proxy
    proxy refuse >answer
    for command in ls "show a" "run a true" "top -1 --json"; do
        # shellcheck disable=SC2086 # a command with its operands
        (mkdir "${command// /_}" && cd "${command// /_}" &&
            refused 69 'cannot connect to 127.0.0.1:[0-9]+: Connection refused' "$rota" $command) &
        asked+=($!)
    done
    for command in "${asked[@]}"; do
        expect 0 wait "$command"
    done
    script -qec "'$rota' ls" /dev/null </dev/null >out
    has '; trying again' out
}

test_wrong_urls()
{
    refused 64 "database .* not 'x'" "$rota" --on "$ROTA_TEST_URL/x" ls
    refused 64 "has no database 999" "$rota" --on "$ROTA_TEST_URL/999" ls
    refused 64 "no parameter 'tls'" "$rota" --on "$ROTA_TEST_URL?tls=1" ls
    refused 64 "is no Sentinel" "$rota" --on "$ROTA_TEST_URL?sentinel=x" ls
    refused 64 "cannot be read" "$rota" --on "rediss://127.0.0.1:$port?ca=/nonexistent" ls
}

test_busy_is_75()
{
    hold a
    expect 75 "$rota" run -n a true
    expect 75 "$rota" run -w 0.1 a true
    expect 9 "$rota" run -n -E 9 a true
    let_go
}

wrong_password() # URL
{
    refused 69 '(refused the password of the user ada|has no password set)' "$rota" --on "$1" ls
    ! grep -q wrong-7 refused.err || fail "$(cat refused.err)"
}

# Neither in messages, nor in the list of processes, nor in the log.
test_passwords_are_secret()
{
    redis acl setuser ada on '>tulip-7' '~rota:*' '&rota:*' +@all >answer
    trap 'redis acl deluser ada >answer' EXIT
    local url="redis://ada@127.0.0.1:$port?prefix=p"
    unset ROTA_URL
    echo tulip-7 >file
    echo wrong-7 >wrong
    ROTA_PASSWORD=wrong-7 wrong_password "$url"
    wrong_password "$url&password_file=wrong"
    wrong_password "redis://ada:wrong-7@127.0.0.1:$port"
    wrong_password "redis://:wrong-7@127.0.0.1:$port" # nobody has one there
    expect 0 "$rota" --on "$url&password_file=file" ls
    ROTA_TRACE=1 ROTA_PASSWORD=tulip-7 expect 0 "$rota" --on "$url" run a -- sh -c 'cat /proc/$PPID/cmdline >line' >log 2>&1
    ! grep -q tulip line log || fail "the password shows"
    mkdir -p .config/rota
    echo "prod = redis://ada:tulip-7@127.0.0.1:$port?prefix=p" >.config/rota/config
    ROTA_TRACE=1 expect 0 "$rota" --on prod run a -- sh -c 'cat /proc/$PPID/cmdline >line' >log 2>&1
    ROTA_URL="redis://ada:tulip-7@127.0.0.1:$port" "$rota" doctor --json >>log
    ROTA_URL="redis://ada:tulip-7@127.0.0.1:$port" "$rota" top --json -1 >>log
    ! grep -q tulip line log || fail "the password shows"
}

# ---- What else goes over a server

test_demo_bench_metrics()
{
    local fault
    expect 0 "$rota" demo --buyers 4 --stock 20 --json >out
    same "True redis 20" "$(json '[d["with_lock"]["exact"], d["engine"].split(":")[0], d["with_lock"]["sold"]]' <out)"
    same 0 "$(json 'd["with_lock"]["retries"]' <out)" # a waiter in line asks once
    expect 0 "$rota" bench --quick --json pair handover >out
    same "True" "$(json 'all(f["value"] > 0 for f in d["figures"])' <out)"
    expect 0 "$rota" metrics >out
    has '^rota_up 1$' out
    open_proxy
    begin --metrics m -- sh -c 'echo >up; read -r _ <down'
    fault=$(proxy fault reply look times=always)
    proxy await "$fault" 2 30000 >answer # heartbeats
    echo >down
    expect 0 wait "$holder"
    has '^rota_heartbeats_total\{state="answered"\} [1-9]' m
}

# Each dialect sells exactly; each is a row, a bar, and an object.
test_demo_dialect_by_dialect()
{
    local dialect
    expect 0 "$rota" demo --buyers 3 --stock 12 --svg demo.svg >out
    for dialect in token redisson redisson-fair redisson-rw getset setnx; do
        grep -Eq "^dialect $dialect +(\(unsafe\) +)?12 +0 " out || fail "$dialect: $(cat out)"
        grep -q "dialect $dialect" demo.svg || fail "$dialect is not in the picture"
    done
    ! grep -q 'left out' out || fail "$(cat out)"
    expect 0 "$rota" --on "$ROTA_URL?dialect=token" demo --buyers 2 --stock 4 --json >out
    grep -q '"dialects": \[\]' out || fail "a URL with a dialect is that one alone: $(cat out)"
    expect 74 "$rota" demo --svg /nonexistent/demo.svg >out 2>err
    same 1 "$(wc -l <err)"
}

test_tables_are_asked_of_no_server()
{
    expect 0 "$rota" --on redis://127.0.0.1:1 doctor --ddl 2>err
    has 'needs no tables' err
}

test_doctor_says_which_outage_is_outlasted()
{
    "$rota" doctor >out
    has '^kept +outages +ttl 3 s: holders outlast 0\.8 s without the engine, and have lost after 3 s; waiters .* any$' out
    "$rota" --on "$ROTA_TEST_URL?ttl=30s" doctor >out
    has '^kept +outages +ttl 30 s: holders outlast 7\.5 s' out
}

test_unix_socket()
{
    local socket
    socket=$(redis config get unixsocket | tail -1)
    hold a
    expect 75 "$rota" --on "redis+unix:$socket?prefix=${ROTA_URL#*prefix=}" run -n a true
    let_go
}

run_cases "$@"
