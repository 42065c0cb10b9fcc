#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests of rota run, as a user meets it.
#
#   run.sh ROTA FOREIGN_DB BREAK_LOCK [CASE]...
# shellcheck disable=SC2016 # single quotes: for the inner shell
# shellcheck disable=SC2317 # the cases are called by name
set -u
. "$(dirname "$0")/lib.sh"
rota=$(realpath "$1") foreign_db=$(realpath "$2") break_lock=$(realpath "$3")
shift 3

# ---- The child: what goes in, what comes out

test_first_lock()
{
    same hello "$("$rota" run first -- echo hello)"
    [ -d rota ] || fail "the engine's folder is not where the URL says"
}

test_dashes_are_optional()
{
    same "-n x" "$("$rota" run first echo -n x | tr -d '\n' | sed 's/^/-n /')"
    same "--" "$("$rota" run first -- echo --)"
}

test_default_folder()
{
    unset ROTA_URL
    expect 0 "$rota" run a true
    [ -d .local/state/rota ] || fail "no ~/.local/state/rota"
    XDG_STATE_HOME=$PWD/state expect 0 "$rota" run a true
    [ -d state/rota ] || fail "no \$XDG_STATE_HOME/rota"
}

test_on_is_before_the_environment()
{
    ROTA_URL=nonsense://x expect 0 "$rota" --on "file:$PWD/other" run a true
    [ -d other ] || fail "--on was not used"
}

test_stdin_is_passed_through()
{
    same "one two" "$(printf 'one two' | "$rota" run a -- cat)"
    head -c 1000000 /dev/zero >zeros
    same "$(cksum <zeros)" "$("$rota" run a -- cat <zeros | cksum)"
}

test_exit_code_of_the_child()
{
    expect 0 "$rota" run a -- true
    expect 3 "$rota" run a -- sh -c 'exit 3'
    expect 255 "$rota" run a -- sh -c 'exit 255'
}

test_killed_child()
{
    expect 137 "$rota" run a -- sh -c 'kill -9 $$'
    expect 143 "$rota" run a -- sh -c 'kill -15 $$'
}

test_command_not_found()
{
    refused 127 "cannot run 'no-such-command'" "$rota" run a -- no-such-command
    refused 127 "cannot run './no'" "$rota" run a -- ./no
    expect 0 "$rota" run -n a true # the lock was given back
}

test_command_not_executable()
{
    echo 'echo no' >script
    refused 126 "cannot run './script'" "$rota" run a -- ./script
    expect 0 "$rota" run -n a true
}

test_environment()
{
    same "a b/ü" "$("$rota" run 'a b/ü' -- sh -c 'echo "$ROTA_NAME"')"
}

test_fence_grows()
{
    local last=0 fence
    for _ in 1 2 3 4 5; do
        fence=$("$rota" run a -- sh -c 'echo $ROTA_FENCE')
        [ "$fence" -gt "$last" ] || fail "fence '$fence' after $last"
        last=$fence
    done
}

test_signals_are_forwarded()
{
    local signal
    mkfifo up
    for signal in TERM HUP USR1; do
        # The sleeper may miss the signal between its fork and exec: then it must not keep our output.
        # Whoever runs the tests may ignore SIGHUP (nohup, CI): then rota does, and no shell can trap it.
        env --default-signal=$signal "$rota" run a -- sh -c "sleep 100 >/dev/null 2>&1 & s=\$!
            trap 'kill \$s 2>/dev/null; exit 7' $signal; echo >up; wait" &
        await up
        kill -$signal $!
        expect 7 wait $!
    done
}

test_nothing_is_left_open_for_the_child()
{
    same "$(ls /proc/self/fd)" "$("$rota" run a -- ls /proc/self/fd)"
}

test_ignored_signals_stay_ignored()
{
    local before after
    before=$(trap '' HUP && exec grep -E 'Sig(Blk|Ign)' /proc/self/status)
    after=$(trap '' HUP && exec "$rota" run a -- grep -E 'Sig(Blk|Ign)' /proc/self/status)
    same "$before" "$after"
}

# ---- Descriptors

test_closed_standard_descriptors()
{
    expect 3 "$rota" run a -- sh -c 'exit 3' <&- >&- 2>&-
    expect 0 "$rota" run a -- sh -c '[ ! -e /proc/$$/fd/0 ] && [ -e /proc/$$/fd/2 ]' <&-
    # What rota says about it must not go into whatever was opened in its place.
    expect 1 "$rota" --version >&- 2>err
    grep -q "cannot write" err || fail "no word of it: $(cat err)"
    refused 64 "'-q'" "$rota" run -q a true <&-
}

test_few_descriptors()
{
    local n code
    expect 0 "$rota" run a true
    # From as few as the loader needs to as many as suffice.
    for n in 4 5 6 7 8 9 10 11 12 13 14 15 16 18 20 22 24 26 28; do
        code=0
        (ulimit -n $n && exec "$rota" run a -- true) 2>err || code=$?
        case $code in
        0) [ ! -s err ] || fail "$n: $(cat err)" ;;
        69 | 70 | 126) [ "$(wc -l <err)" -eq 1 ] || fail "$n: not one line: $(cat err)" ;;
        *) fail "exit $code with $n descriptors: $(cat err)" ;;
        esac
    done
    same 0 $code
    (ulimit -n 6 && refused 69 "ulimit -n" "$rota" run a true) || exit 1
}

test_limited_file_size()
{
    # Writing past the limit is an error of the engine, not the end of rota ...
    (ulimit -f 8 && refused 69 . "$rota" run a touch ran) || exit 1
    [ ! -e ran ] || fail "it ran"
    # ... but it ends the command, as it would without rota.
    expect 0 "$rota" run a true
    expect 153 "$rota" run a -- sh -c 'ulimit -f 1; head -c 10000 /dev/zero >big' 2>/dev/null
}

# ---- Waiting

test_busy_without_waiting()
{
    hold a
    expect 75 "$rota" run -n a -- touch ran
    expect 5 "$rota" run -n -E 5 a -- touch ran
    expect 0 "$rota" run -nE0 a -- touch ran
    expect 75 "$rota" run -w 0 a -- touch ran
    expect 0 "$rota" run -n b -- true
    [ ! -e ran ] || fail "it ran"
    let_go
    expect 0 "$rota" run -n a -- touch ran
    [ -e ran ] || fail "it did not run"
}

test_wait_has_an_end()
{
    hold a
    expect 75 "$rota" run -w 0.2 a -- touch ran
    expect 9 "$rota" run --wait 200ms -E 9 a -- touch ran
    [ ! -e ran ] || fail "it ran"
    let_go
}

test_waiter_gets_its_turn()
{
    hold a
    "$rota" run -w 60 a -- touch ran &
    local waiter=$!
    [ ! -e ran ] || fail "it ran beside the holder"
    let_go
    expect 0 wait $waiter
    [ -e ran ] || fail "it did not run"
}

# Until PID watches for signals, which it does before it asks for the lock: seen by the mask's bit
# for SIGUSR1, since bash itself blocks SIGINT and SIGTERM for a moment between fork and exec.
await_waiting() # PID
{
    local mask
    until mask=$(sed -n 's/^SigBlk:\t//p' "/proc/$1/status") && ((0x${mask:-0} & 0x200)); do
        [ "$(sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$1/status")" != Z ] ||
            fail "it ended before it waited"
    done
}

test_interrupt_while_waiting()
{
    local waiter
    hold a
    # A shell makes background jobs ignore SIGINT, and so may whoever runs the tests.
    env --default-signal=INT "$rota" run a -- touch ran &
    waiter=$!
    await_waiting $waiter
    kill -INT $waiter
    expect 130 wait $waiter
    "$rota" run a -- touch ran &
    waiter=$!
    await_waiting $waiter
    kill -TERM $waiter
    expect 143 wait $waiter
    let_go
    expect 0 "$rota" run -n a true
    [ ! -e ran ] || fail "it ran"
}

test_one_at_a_time()
{
    local workers=()
    echo 0 >count
    for _ in 1 2 3 4 5 6; do
        (for _ in 1 2 3 4 5; do
            "$rota" run a -- sh -c 'read -r n <count; echo $((n + 1)) >count' || exit 1
        done) &
        workers+=($!)
    done
    for worker in "${workers[@]}"; do
        expect 0 wait "$worker"
    done
    same 30 "$(cat count)"
}

test_first_opens_at_once()
{
    local round starter starters
    for round in 1 2 3 4 5; do
        starters=()
        for _ in 1 2 3 4 5 6 7 8; do
            "$rota" --on "file:$PWD/new$round" run a true &
            starters+=($!)
        done
        for starter in "${starters[@]}"; do
            expect 0 wait "$starter"
        done
    done
}

# ---- Kinds of locks

test_shared()
{
    hold -s a
    expect 0 "$rota" run -n -s a true
    expect 75 "$rota" run -n a true
    expect 75 "$rota" run -n -s -x a true
    let_go
    expect 0 "$rota" run -n a true
}

test_permits()
{
    hold --take 2 --of 3 a
    expect 0 "$rota" run -n --take 1 --of 3 a true
    expect 75 "$rota" run -n --take 2 --of 3 a true
    refused 64 . "$rota" run -n --take 1 --of 4 a true
    let_go
    expect 0 "$rota" run -n --take 3 --of 3 a true
}

test_at_least()
{
    expect 0 "$rota" run --at-least 60s a true
    expect 75 "$rota" run -n a true
}

# ---- Loss

test_rota_killed_ends_the_child()
{
    mkfifo up alive
    # The child holds the fifo open for writing: when it ends, the reader gets end of file.
    "$rota" run a -- sh -c 'exec 3>alive; echo >up; exec sleep 1000' &
    local holder=$!
    exec 4<>alive 5<alive 4>&-
    await up
    kill -9 $holder
    wait $holder 2>/dev/null
    cat <&5
    expect 0 "$rota" run -w 30 a true
}

test_lost_while_it_runs()
{
    mkfifo up
    "$rota" run a -- sh -c 'sleep 100 >/dev/null 2>&1 & s=$!
        trap "touch told; kill $s 2>/dev/null; exit 0" TERM; echo >up; wait' 2>err &
    await up
    expect 0 "$break_lock" a
    expect 76 wait $!
    [ -e told ] || fail "the child was not told"
    same 1 "$(wc -l <err)"
}

test_lost_and_deaf()
{
    mkfifo up
    "$rota" run a -- sh -c 'trap "" TERM; echo >up; while :; do sleep 100; done' >/dev/null 2>&1 &
    await up
    expect 0 "$break_lock" a
    expect 76 wait $!
}

# ---- On a terminal

test_foreground_on_a_terminal()
{
    # Fields 5 and 8: the process group, and the one in the foreground of the terminal.
    expect 0 script -qec "'$rota' run a -- sh -c 'set -- \$(cat /proc/\$\$/stat); [ \$5 = \$8 ]'" \
        /dev/null </dev/null >out
    # Given back: stty from the background would stop for ever.
    expect 0 script -qec "'$rota' run a -- true && stty sane" /dev/null </dev/null >out
}

test_ctrl_c_reaches_the_child()
{
    mkfifo up keys
    env --default-signal=INT script -qec "'$rota' run a -- sh -c 'echo >up; exec cat'" /dev/null <keys >out &
    exec 3>keys
    await up
    printf '\003' >&3
    expect 130 wait $!
}

# ---- A database that somebody else has

# Takes the database in the middle of a transaction, as a program that was stopped there does.
seize() # $seizer is its pid
{
    expect 0 "$rota" run a true
    mkfifo seized free
    "$foreign_db" "$(find_db)" seize <free >seized &
    seizer=$!
    exec 8>free
    await seized
}

test_stuck_database_is_told()
{
    seize
    refused 75 "process $seizer " "$rota" run -w 1 a touch ran
    refused 69 "process $seizer " "$rota" run -n a touch ran
    [ ! -e ran ] || fail "it ran"
    exec 8>&-
    expect 0 wait $seizer
    expect 0 "$rota" run -n a true
}

# ---- Bad input: one line that says what to do, and nothing lost

test_usage()
{
    refused 64 "rota --help" "$rota"
    refused 64 "unknown command 'rnu'" "$rota" rnu
    refused 64 "'--frobnicate'" "$rota" --frobnicate
    refused 64 "'--on' needs a value" "$rota" --on
    refused 64 "name of the lock is missing" "$rota" run
    refused 64 "command is missing" "$rota" run a
    refused 64 "command is missing" "$rota" run a --
    refused 64 "'-q'" "$rota" run -q a true
    refused 64 "'--nope'" "$rota" run --nope a true
    refused 64 "before the name" "$rota" run a -n -- true
    refused 64 "'-w' needs a value" "$rota" run -w
    refused 64 "-w 'soon'" "$rota" run -w soon a true
    refused 64 "-w '-1'" "$rota" run -w -1 a true
    refused 64 "-E '256'" "$rota" run -E 256 a true
    refused 64 "go together" "$rota" run --take 1 a true
    refused 64 "more than" "$rota" run --take 3 --of 2 a true
    refused 64 "exclude" "$rota" run -s --take 1 --of 2 a true
    refused 64 "1s to 1h" "$rota" run --ttl 2h a true
    refused 64 "unexpected argument" "$rota" demo now
    refused 64 "--buyers '1'" "$rota" demo --buyers 1
    [ ! -e rota ] || fail "usage errors touched the engine"
}

test_names()
{
    local long
    long=$(printf 'x%.0s' {1..255})
    expect 0 "$rota" run "$long" true
    refused 64 255 "$rota" run "${long}x" touch ran
    refused 64 . "$rota" run "" touch ran
    refused 64 . "$rota" run $'a\nb' touch ran
    refused 64 . "$rota" run $'a\xff' touch ran
    [ ! -e ran ] || fail "it ran"
}

test_urls()
{
    refused 64 gopher "$rota" --on gopher://x run a touch ran
    refused 64 colour "$rota" --on "file:$PWD/rota?colour=red" run a touch ran
    refused 64 . "$rota" --on no-such-engine run a touch ran
    refused 64 "one process" "$rota" --on mem:x run a touch ran
    mkdir -p .config/rota
    printf 'local = mem:x\nfolder = file:%s/named\n' "$PWD" >.config/rota/config
    refused 64 "one process" "$rota" --on local run a touch ran
    refused 64 "one process" "$rota" --on local demo
    ROTA_URL=local refused 64 "one process" "$rota" run a touch ran
    expect 0 "$rota" --on folder run a true
    [ -d named ] || fail "the name was not looked up"
    ROTA_URL=gopher://x refused 64 gopher "$rota" run a touch ran
    [ ! -e ran ] || fail "it ran"
}

test_unwritable_folder()
{
    touch plain
    refused 69 plain "$rota" --on "file:$PWD/plain/rota" run a touch ran
    refused 69 /proc "$rota" --on file:/proc/rota run a touch ran
    mkdir -m 0500 closed
    if ! touch closed/x 2>/dev/null; then # root may
        refused 69 closed "$rota" --on "file:$PWD/closed/rota" run a touch ran
        refused 69 closed "$rota" --on "file:$PWD/closed" run a touch ran
    fi
    [ ! -e ran ] || fail "it ran"
}

find_db() # the database in the engine's folder, by its first bytes
{
    local file
    for file in rota/*; do
        [ -f "$file" ] && [ "$(head -c 15 "$file")" = "SQLite format 3" ] && echo "$file" && return
    done
    fail "no database in $(ls -la rota)"
}

test_corrupt_database()
{
    local db before
    expect 0 "$rota" run a true
    db=$(find_db) || exit 1
    rm -f "$db"-*
    head -c 5000 /dev/urandom >"$db"
    before=$(cksum <"$db")
    refused 69 "$(basename "$db")" "$rota" run a touch ran
    same "$before" "$(cksum <"$db")"
    [ ! -e ran ] || fail "it ran"
}

test_foreign_database()
{
    local db before
    expect 0 "$rota" run a true
    db=$(find_db) || exit 1
    rm -f "$db" "$db"-*
    expect 0 "$foreign_db" "$db"
    before=$(cksum <"$db")
    refused 69 "$(basename "$db")" "$rota" run a touch ran
    same "$before" "$(cksum <"$db")"
    [ ! -e ran ] || fail "it ran"
}

run_cases "$@"
