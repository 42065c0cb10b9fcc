#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests of the commands that look at locks, and of once and elect.
#
#   commands.sh ROTA TAKE_LOCKS [CASE]...
# shellcheck disable=SC2016 # single quotes: for the inner shell
# shellcheck disable=SC2317 # the cases are called by name
set -u
. "$(dirname "$0")/lib.sh"
rota=$(realpath "$1") take_locks=$(realpath "$2") pages=$(realpath "$(dirname "$0")/../../..")
shift 2

# How a hold ends whose holder is silent: where sessions live as long as their process, and elsewhere.
left=- ends='it ends when the holder gives it back, or with its process'
if [ -n "${ROTA_TEST_URL-}" ]; then
    left='[0-9]+ m?s' ends='if nothing more is heard of the holder, it ends in [0-9]+ m?s'
fi

ticket_keys="place state fence mode take of label host process program session thread owner \
since_ms left_ms durable detect value"

# ---- ls

test_ls_of_nothing_is_empty()
{
    same "" "$("$rota" ls)"
    same "" "$("$rota" ls a)"
    same 0 "$("$rota" ls --json | json 'len(d["lines"])')"
}

test_ls()
{
    hold a/1
    "$rota" run a/1 -- true &
    local waiter=$!
    expect 0 "$rota" once 'b ü' -- true
    await_waiters a/1 1
    "$rota" ls >out
    same 3 "$(wc -l <out)"
    has '^NAME +HOLDERS +WAITERS +AGE +HOLDER$' out
    has "^a/1 +1 +1 +[0-9]+ m?s +.+/$holder/sh\$" out
    has '^b ü +1 +0 +[0-9]+ m?s +.+/[0-9]+/true$' out
    same 1 "$("$rota" ls b | grep -c '^b ü')"
    same 0 "$("$rota" ls a/11 | wc -l)"
    "$rota" ls --json >out
    same "a/1 b ü" "$(json '[x["name"] for x in d["lines"]]' <out)"
    same "name holders waiters holder fence since_ms" "$(json 'list(d["lines"][0])' <out)"
    same "1 1 str int" "$(json '(lambda x: [x["holders"], x["waiters"],
        type(x["fence"]).__name__, type(x["since_ms"]).__name__])(d["lines"][0])' <out)"
    let_go
    expect 0 wait $waiter
}

# ---- show

test_show()
{
    same "" "$("$rota" show a)"
    same 0 "$("$rota" show --json a | json 'len(d["tickets"])')"
    hold --take 2 --of 3 a
    "$rota" run --take 3 --of 3 a -- true &
    local waiter=$!
    await_waiters a 1
    "$rota" show a >out
    has "^PLACE +STATE +FENCE +MODE +SINCE +LEFT +THREAD +LABEL" out
    has "^1 +holds +[0-9]+ +2 of 3 +[0-9]+ m?s +$left +- +.+/$holder/sh\$" out
    has "^2 +waits +[0-9]+ +3 of 3 +[0-9]+ m?s +$left +- +.+/$waiter/true\$" out
    "$rota" show a --json >out
    same "name holders waiters tickets" "$(json 'list(d)' <out)"
    same "$ticket_keys" "$(json 'list(d["tickets"][0])' <out)"
    same "1 holds permits 2 3 $holder sh False" "$(json '[d["tickets"][0][k] for k in
        ("place", "state", "mode", "take", "of", "process", "program", "durable")]' <out)"
    same "$([ "$left" = - ] && echo NoneType || echo int)" "$(json 'type(d["tickets"][0]["left_ms"]).__name__' <out)"
    same "2 waits permits 3" "$(json '[d["tickets"][1][k] for k in
        ("place", "state", "mode", "take")]' <out)"
    let_go
    expect 0 wait $waiter
}

test_show_names_the_thread()
{
    mkfifo up down
    "$take_locks" a <down >up &
    local taker=$!
    exec 3>down
    await up
    "$rota" show a >out
    has "^1 +holds .* thread [0-9]+ +.+/$taker/" out
    same True "$("$rota" show a --json | json 'd["tickets"][0]["thread"] is not None')"
    exec 3>&-
    expect 0 wait $taker
}

# A label and a value are others' words: a terminal must not obey them.
test_show_is_harmless()
{
    mkfifo up down
    "$rota" elect --value $'\033[31mred\xff' a -- sh -c 'echo >up; read -r _ <down' &
    await up
    "$rota" show a >out
    ! grep -q $'\033' out || fail "an escape"
    same True "$("$rota" show a --json | json '"\ufffd" in d["tickets"][0]["value"]')"
    echo >down
    expect 0 wait $!
}

# ---- why

test_why()
{
    same "'a' is free" "$("$rota" why a)"
    same "free None" "$("$rota" why --json a | json '[d["state"], d["cycle"]]')"
    hold a
    "$rota" run a -- true &
    local waiter=$!
    await_waiters a 1
    "$rota" why a >out
    has "^'a' is held by .+/$holder/sh \(process $holder on .+\)\$" out
    has "^    for [0-9]+ m?s, exclusive, fence $(fence_of a)\$" out
    has "^    $ends\$" out
    has '^1 in line:$' out
    has "^  1\\. .+/$waiter/true \(process $waiter on .+\), for [0-9]+ m?s, exclusive\$" out
    ! grep -qi cycle out || fail "a cycle: $(cat out)"
    "$rota" why a --json >out
    same "name state holders waiters cycle" "$(json 'list(d)' <out)"
    same "held $holder $waiter None" "$(json '[d["state"], d["holders"][0]["process"],
        d["waiters"][0]["process"], d["cycle"]]' <out)"
    same "$ticket_keys" "$(json 'list(d["waiters"][0])' <out)"
    let_go
    expect 0 wait $waiter
}

test_why_of_what_lasts()
{
    expect 0 "$rota" once a --for 24h -- true
    "$rota" why a | grep -q 'durable: it ends in 23 h 59 min' || fail "$("$rota" why a)"
    expect 0 "$rota" once b -- true
    "$rota" why b | grep -q "durable: it stays until 'rota break'" || fail "$("$rota" why b)"
}

test_why_prints_a_cycle()
{
    local pair name takers=()
    mkfifo up go
    exec 3<>go 4<>up
    for pair in ab bc ca; do
        "$take_locks" ${pair:0:1} ${pair:1:1} <go >up 3>&- 4>&- &
        takers+=($!)
    done
    for name in a b c; do
        read -r -t 30 _ <&4 || fail "somebody did not get its first"
    done
    exec 3>&- # all have their first: now they ask for the second
    for name in a b c; do
        await_waiters $name 1
    done
    "$rota" why b >out
    has '^A cycle: they wait for each other' out
    has "^  .+/${takers[0]}/.+ thread 1\) holds 'a' \(fence [0-9]+\) and waits for 'b'\$" out
    has "^  .+/${takers[1]}/.+ holds 'b' .+ waits for 'c'\$" out
    has "^  .+/${takers[2]}/.+ holds 'c' .+ waits for 'a'\$" out
    has "^To end it, .* rota break '.' --fence [0-9]+\$" out
    "$rota" why --json a >out
    same "certain steps" "$(json 'list(d["cycle"])' <out)"
    same "label holds fence waits_for" "$(json 'list(d["cycle"]["steps"][0])' <out)"
    same "ab bc ca" "$(json 'sorted(x["holds"] + x["waits_for"] for x in d["cycle"]["steps"])' <out)"
    # As it says, one break ends it for all three.
    "$rota" why b | sed -n 's/^To end it, .*: rota/"$rota"/p' >advice
    expect 0 . ./advice >out
    for name in "${takers[@]}"; do
        expect 0 wait "$name"
    done
}

# ---- watch

test_watch_once()
{
    same "free, 0 waiting" "$("$rota" watch -1 a)"
    hold a
    "$rota" watch -1 a >out
    has "^fence $(fence_of a)  .+/$holder/sh  0 waiting\$" out
    "$rota" watch -1 --json a >out
    same "name state fence label value waiters" "$(json 'list(d)' <out)"
    same "a held $(fence_of a) 0" "$(json '[d[k] for k in ("name", "state", "fence", "waiters")]' <out)"
    let_go
}

test_watch_changes()
{
    local line first second
    mkfifo rows
    "$rota" watch --json a >rows &
    local watcher=$!
    exec 5<rows
    read -r -t 30 line <&5
    same "free None" "$(json '[d["state"], d["fence"]]' <<<"$line")"
    hold a
    until first=$(json 'd["fence"]' <<<"$line") && [ "$first" != None ]; do
        read -r -t 30 line <&5 || fail "no row for the hold"
    done
    let_go
    until [ "$(json 'd["state"]' <<<"$line")" = free ]; do
        read -r -t 30 line <&5 || fail "no row for the end"
    done
    hold a
    until second=$(json 'd["fence"]' <<<"$line") && [ "$second" != None ]; do
        read -r -t 30 line <&5 || fail "no row for the second hold"
    done
    [ "$second" -gt "$first" ] || fail "fence $second after $first"
    let_go
    until [ "$(json 'd["state"]' <<<"$line")" = free ]; do
        read -r -t 30 line <&5 || fail "no row for the last state"
    done
    kill -TERM $watcher
    expect 143 wait $watcher
}

test_watch_says_what_the_leader_says()
{
    mkfifo up down
    "$rota" elect --value 'here I am' a -- sh -c 'echo >up; read -r _ <down' &
    await up
    "$rota" watch -1 a >out
    has "  here I am  0 waiting\$" out
    same "here I am" "$("$rota" watch -1 a --json | json 'd["value"]')"
    echo >down
    expect 0 wait $!
}

# Four lead in turn, twenty times; states may be skipped, but not the last one.
test_watch_never_goes_back()
{
    local line worker workers=()
    mkfifo rows
    "$rota" watch --json a >rows &
    local watcher=$!
    exec 5<rows
    read -r -t 30 _ <&5 || fail "no row"
    for _ in 1 2 3 4; do
        (for _ in 1 2 3 4 5; do "$rota" elect a -- true || exit 1; done) &
        workers+=($!)
    done
    for worker in "${workers[@]}"; do
        expect 0 wait "$worker"
    done
    hold a
    until grep -q "\"fence\":\"$(fence_of a)\"" seen 2>/dev/null; do
        read -r -t 30 line <&5 || fail "the last leader was not seen"
        echo "$line" >>seen
    done
    kill $watcher
    wait $watcher
    sed -n 's/.*"fence":"\([0-9]*\)".*/\1/p' seen >fences
    sort -n -c fences || fail "fences went back: $(tr '\n' ' ' <fences)"
    let_go
}

# Nothing changes, and yet it must notice that nobody reads.
test_watch_ends_with_its_reader()
{
    mkfifo rows
    "$rota" watch a >rows 2>err &
    local watcher=$!
    exec 5<rows
    read -r -t 30 _ <&5 || fail "no row"
    exec 5<&-
    expect 0 wait $watcher
    [ ! -s err ] || fail "$(cat err)"
}

# ---- break

test_break()
{
    mkfifo up
    "$rota" run a -- sh -c 'echo >up; exec sleep 1000' 2>err &
    local holder=$!
    await up
    local fence
    fence=$(fence_of a)
    refused 64 'rota show a' "$rota" break a
    refused 75 'not there \(any more\)' "$rota" break a --fence $((fence + 1000))
    refused 75 'not there' "$rota" break b --fence "$fence"
    expect 0 "$rota" break a --fence "$fence" >out
    same 1 "$(wc -l <out)"
    has 'whoever had it is told$' out
    expect 76 wait $holder
    refused 75 'not there' "$rota" break a --fence "$fence"
}

test_break_of_a_claim()
{
    mkfifo up down
    "$rota" once a -- sh -c 'echo >up; read -r _ <down; touch finished' &
    local winner=$!
    await up
    expect 0 "$rota" break a --fence "$(fence_of a)" >out
    same 1 "$(wc -l <out)"
    has 'the key is free now; a command that still runs for it is not ended$' out
    expect 0 "$rota" once a -- touch again
    [ -e again ] || fail "the key was not free"
    echo >down
    expect 0 wait $winner
    [ -e finished ] || fail "it was ended"
}

test_break_json()
{
    expect 0 "$rota" once a -- true
    local fence
    fence=$(fence_of a)
    same "a $fence True" "$("$rota" break --json --fence "$fence" a |
        json '[d["name"], d["fence"], d["broken"]]')"
    same "'a' is free" "$("$rota" why a)"
}

# ---- doctor

test_doctor()
{
    expect 0 "$rota" doctor >out
    if [ -z "${ROTA_TEST_URL-}" ]; then
        has '^kept +one holder at a time' out
        has '^limited +durable tickets' out
    else
        has '^(kept|limited) +one holder at a time' out
    fi
    has '^ +remedy: ' out
    expect 0 "$rota" doctor --json >out
    same "engine broken verdicts" "$(json 'list(d)' <out)"
    same "$ROTA_URL 0" "$(json '[d["engine"], d["broken"]]' <out)"
    same "promise verdict setting remedy" "$(json 'list(d["verdicts"][0])' <out)"
    same True "$(json 'all(v["verdict"] in ("kept", "limited") for v in d["verdicts"])' <out)"
}

# Told without a server.
test_doctor_ddl_of_databases()
{
    for url in postgres://ada@localhost:1/x mysql://ada@localhost:1/x; do
        "$rota" doctor --ddl --on "$url" >out 2>err || { grep "no engine" err && continue; fail "$url: $(cat err)"; }
        for table in meta session line ticket; do
            grep -q "create table if not exists rota_$table " out || fail "$url: no rota_$table: $(cat out)"
        done
    done
}

# This engine has no tables: what another program would read stays empty.
test_doctor_ddl()
{
    expect 0 "$rota" doctor --ddl >out 2>err
    [ ! -s out ] || fail "on stdout: $(cat out)"
    same "rota: this engine needs no tables: there is nothing to create" "$(cat err)"
    [ -n "${ROTA_TEST_URL-}" ] || [ ! -e rota ] || fail "it touched the engine"
    same "$ROTA_URL None" "$("$rota" doctor --ddl --json | json '[d["engine"], d["ddl"]]')"
    refused 64 gopher "$rota" doctor --ddl --on gopher://x
    refused 64 "'--ddl' is not known" "$rota" ls --ddl
}

# ---- once

test_once()
{
    same "first" "$("$rota" once a -- echo first)"
    same "" "$("$rota" once a -- echo second 2>&1)"
    expect 0 "$rota" once a -- touch ran
    expect 9 "$rota" once -E 9 a touch ran
    expect 9 "$rota" once a -E 9 --for 1h -- touch ran
    [ ! -e ran ] || fail "it ran again"
    same "b x" "$("$rota" once b -- sh -c 'echo $ROTA_NAME $0' x)"
    same "$("$rota" once c -- sh -c 'echo $ROTA_FENCE')" "$(fence_of c)"
}

test_once_among_many()
{
    local round worker workers
    for round in 1 2; do
        workers=()
        for _ in 1 2 3 4 5 6 7 8; do
            "$rota" once "job$round" -- sh -c "echo ran >>'ran$round'" &
            workers+=($!)
        done
        for worker in "${workers[@]}"; do
            expect 0 wait "$worker"
        done
        same ran "$(cat "ran$round")"
    done
}

test_once_may_be_retried_if_it_failed()
{
    expect 3 "$rota" once a -- sh -c 'exit 3'
    expect 143 "$rota" once a -- sh -c 'kill $$'
    refused 127 no-such-command "$rota" once a -- no-such-command
    expect 4 "$rota" once --keep-failed a -- sh -c 'exit 4'
    expect 0 "$rota" once a -- touch ran
    [ ! -e ran ] || fail "--keep-failed did not keep"
}

test_once_is_forwarded_signals()
{
    mkfifo up
    "$rota" once a -- sh -c 'sleep 100 >/dev/null 2>&1 & s=$!
        trap "kill $s 2>/dev/null; exit 7" TERM; echo >up; wait' &
    await up
    kill -TERM $!
    expect 7 wait $!
    same "'a' is free" "$("$rota" why a)"
}

# Nobody knows how far it got: it does not run a second time by itself.
test_once_stays_if_rota_is_killed()
{
    mkfifo up alive
    "$rota" once a -- sh -c 'exec 3>alive; echo >up; exec sleep 1000' &
    local winner=$!
    exec 4<>alive 5<alive 4>&-
    await up
    kill -9 $winner
    wait $winner 2>/dev/null
    cat <&5
    expect 0 "$rota" once a -- touch ran
    [ ! -e ran ] || fail "it ran"
    expect 0 "$rota" break a --fence "$(fence_of a)" >out
    expect 0 "$rota" once a -- touch ran
    [ -e ran ] || fail "it did not run"
}

test_once_has_an_end()
{
    expect 0 "$rota" once --for 1ms a -- true
    until [ -e ran ]; do
        expect 0 "$rota" once --for 1ms a -- touch ran
    done
}

test_once_does_not_take_a_lock_for_done()
{
    hold a
    refused 75 "in use as a lock" "$rota" once a -- touch ran
    [ ! -e ran ] || fail "it ran"
    let_go
}

# ---- elect

test_elect()
{
    same "e" "$("$rota" elect e -- sh -c 'echo $ROTA_NAME')"
    expect 5 "$rota" elect e --value x -- sh -c 'exit 5'
    refused 127 no-such-command "$rota" elect e -- no-such-command
    same "one two" "$(printf 'one two' | "$rota" elect e cat)"
    same "'e' is free" "$("$rota" why e)"
}

test_elect_tells_who_leads()
{
    mkfifo up down
    "$rota" elect e -- sh -c 'echo >up; read -r _ <down' &
    local leader=$!
    await up
    "$rota" watch -1 e --json >out
    same True "$(json 'd["value"] == d["label"]' <out)"
    json 'd["value"]' <out >value
    has "/$leader/sh\$" value
    echo >down
    expect 0 wait $leader
}

test_elect_next_takes_over()
{
    local first second
    mkfifo up down
    "$rota" elect e -- sh -c 'echo $ROTA_FENCE >up; exec sleep 1000' &
    local leader=$!
    exec 6<>up
    read -r -t 30 first <&6 || fail "nobody leads"
    "$rota" elect e -- sh -c 'echo $ROTA_FENCE >up; read -r _ <down' &
    local next=$!
    await_waiters e 1
    kill -9 $leader
    wait $leader 2>/dev/null
    read -r -t 30 second <&6 || fail "nobody took over"
    [ "$second" -gt "$first" ] || fail "fence $second after $first"
    same "$second" "$("$rota" watch -1 e --json | json 'd["fence"]')"
    echo >down
    expect 0 wait $next
}

test_elect_broken_while_it_leads()
{
    mkfifo up
    "$rota" elect e -- sh -c 'sleep 100 >/dev/null 2>&1 & s=$!
        trap "touch told; kill $s 2>/dev/null; exit 0" TERM; echo >up; wait' 2>err &
    local leader=$!
    await up
    expect 0 "$rota" break e --fence "$(fence_of e)" >out
    expect 76 wait $leader
    [ -e told ] || fail "the command was not told"
    same 1 "$(wc -l <err)"
    has "leadership 'e'" err
}

# ---- Bad input: one line that says what to do, for each command

test_usage()
{
    local command long
    long=$(printf 'x%.0s' {1..256})
    for command in ls show why watch break doctor once elect; do
        refused 64 "'--nope'.*rota $command --help" "$rota" $command --nope
        refused 64 "'-q'" "$rota" $command -q
    done
    for command in ls "show a" "why a" "watch a" "break a --fence 1" doctor "once a true" "elect a true"; do
        # shellcheck disable=SC2086 # a command with its operands
        refused 64 gopher "$rota" --on gopher://x $command
        # shellcheck disable=SC2086
        refused 64 "one process" "$rota" --on mem:x $command
    done
    for command in show why watch break; do
        refused 64 "name of the lock is missing" "$rota" $command
        refused 64 "unexpected argument 'b'" "$rota" $command a b
    done
    refused 64 "unexpected argument 'b'" "$rota" ls a b
    refused 64 "unexpected argument 'a'" "$rota" doctor a
    refused 64 "key is missing" "$rota" once
    refused 64 "command is missing" "$rota" once a
    refused 64 "command is missing" "$rota" once a --for 1h --
    refused 64 "name of the election is missing" "$rota" elect
    refused 64 "command is missing" "$rota" elect a --
    refused 64 "'-1' is not known" "$rota" show -1 a
    refused 64 "'--fence' is not known" "$rota" show a --fence 1
    refused 64 "--fence 'x'" "$rota" break a --fence x
    refused 64 "--fence '0'" "$rota" break a --fence 0
    refused 64 "'--fence' needs a value" "$rota" break a --fence
    refused 64 "--for 'soon'" "$rota" once a --for soon -- true
    refused 64 "--for '0'" "$rota" once a --for 0 -- true
    refused 64 "--for '1000000d' is too long: 366d at most" "$rota" once a --for 1000000d -- true
    refused 64 "-w '367d' is too long: 366d at most" "$rota" run -w 367d a true
    refused 64 "--ttl '999d' is too long: 1s to 1h" "$rota" run --ttl 999d a true
    refused 64 "--ttl '1ms' is too short: 1s to 1h" "$rota" run --ttl 1ms a true
    refused 64 "-E '300'" "$rota" once a -E 300 -- true
    refused 64 "1s to 1h" "$rota" elect --ttl 2h a -- true
    refused 64 "1023 bytes" "$rota" elect --value "$long$long$long$long" a -- true
    [ ! -e rota ] || fail "usage errors touched the engine"
    for command in show why watch "break --fence 1"; do
        # shellcheck disable=SC2086 # a command with its option
        refused 64 255 "$rota" $command "$long"
    done
    refused 64 255 "$rota" ls "$long"
    refused 64 255 "$rota" once "$long" -- touch ran
    refused 64 255 "$rota" elect "$long" -- touch ran
    [ ! -e ran ] || fail "it ran"
}

# ---- Where options may stand

# A is held in another engine, not here: each command, with --on after its name, sees that.
test_on_follows_the_command()
{
    local other="file:$PWD/other" fence command
    mkfifo up down
    "$rota" run --on "$other" a -- sh -c 'echo >up; read -r _ <down' &
    local holder=$!
    await up
    expect 75 "$rota" run -n --on "$other" a true
    expect 75 "$rota" run --on="$other" --nonblock a true
    expect 0 "$rota" run --on "$other" -n b true
    expect 0 "$rota" run -n a true
    expect 75 "$rota" once --on "$other" a true 2>err # in use as a lock
    for command in "ls" "show a" "why a" "watch -1 a" "top -1"; do
        # shellcheck disable=SC2086 # a command with its operands
        "$rota" ${command%% *} --on "$other" --json ${command#"${command%% *}"} >out || fail "$command"
        grep -q "/$holder/sh" out || fail "$command: $(cat out)"
    done
    "$rota" metrics --on "$other" | grep -qx 'rota_tickets{state="holding"} 1' || fail "metrics"
    refused 64 gopher "$rota" doctor --on gopher://x
    refused 64 gopher "$rota" bench --quick --on gopher://x pair
    refused 64 gopher "$rota" demo --on gopher://x
    fence=$("$rota" --on "$other" show --json a | json 'd["tickets"][0]["fence"]')
    expect 0 "$rota" break --on "$other" a --fence "$fence" >out
    expect 76 wait $holder
    expect 0 "$rota" elect --on "$other" a -- true
    expect 0 "$rota" --on gopher://x run --on "$other" a true # the last one counts
    refused 64 "--on needs a URL or a name" "$rota" run --on '' a true
    refused 64 "'--on' needs a value" "$rota" run --on
}

test_json_and_ttl_before_the_command()
{
    same "$("$rota" ls --json)" "$("$rota" --json ls)"
    expect 0 "$rota" --ttl 5s run a -- true
    expect 0 "$rota" --ttl=5s elect a -- true
    refused 64 "--ttl '1ms' is too short" "$rota" --ttl 1ms run a -- true
    refused 64 "rota run: option '--json' is not known" "$rota" --json run a true
    refused 64 "rota ls: option '--ttl' is not known" "$rota" --ttl 5s ls
}

test_abbreviations_stand_for_one_option()
{
    expect 0 "$rota" run --nonb --on-l kill --sh a true
    refused 64 "'--o' is short for more than one: --on, --of, --on-lost;" "$rota" run --o x a true
    refused 64 "'--no' is short for more than one: --nonblock, --no-fork;" "$rota" run --no a true
    refused 64 "--on-lost 'x' is not" "$rota" run --on-lost x a true
}

# The machine's own folder, here a fresh /var/lib: shared with its group, and nobody else.
test_system()
{
    unshare -rm mount -t tmpfs none /var/lib 2>/dev/null || return 0 # no namespaces here
    # shellcheck disable=SC2016 # for the inner shell
    expect 0 env -u ROTA_URL rota="$rota" unshare -rm sh -euc 'mount -t tmpfs none /var/lib
        "$rota" --system run a -- "$rota" run --system -n -E 9 a true || [ $? = 9 ]
        "$rota" run -n a -- true # a folder of its own: not excluded
        test "$(stat -c %a /var/lib/rota /var/lib/rota/rota.db | xargs)" = "2770 660"
        "$rota" --system ls'
}

test_help_says_whose_system_is()
{
    "$rota" --help >out
    has '^  --system +the folder that root shares with a group: file:/var/lib/rota$' out
}

# A machine with a fresh /var/lib and its own /etc/group, in which `group` is to make the group rota. `member` runs a
# command as a member of it, `other` as somebody else. Only root can be several users, so anybody else tries nothing.
machine='set -eu
    mount -t tmpfs -o mode=755 none /var/lib
    cp "$rota" /var/lib/command; rota=/var/lib/command # where all users can run it
    echo root:x:0: >/var/lib/group
    mount --bind /var/lib/group /etc/group
    group() { echo rota:x:4242: >>/var/lib/group; }
    member() { setpriv --reuid=4343 --regid=4343 --groups=4242 "$@"; }
    other() { setpriv --reuid=4344 --regid=4344 --clear-groups "$@"; }
    refused() { want=$1; shift; code=0; "$@" 2>/var/lib/err || code=$?
        test $code = 69 && grep -q -e "$want" /var/lib/err || { cat /var/lib/err; exit 1; } }'

on_a_machine() # SCRIPT
{
    [ "$(id -u)" = 0 ] && unshare -m mount -t tmpfs none /var/lib 2>/dev/null || return 0
    printf '%s\n' "$machine" "$1" >script
    expect 0 env -u ROTA_URL rota="$rota" unshare -m sh script
}

test_system_is_made_for_the_group()
{
    on_a_machine 'refused "^rota: --system needs /var/lib/rota, which root makes: see rota(1): " other "$rota" --system ls
        group
        "$rota" --system ls
        test "$(stat -c "%U:%G:%a" /var/lib/rota /var/lib/rota/rota.db | xargs)" = "root:rota:2770 root:rota:660"
        test "$(echo /var/lib/rota*)" = /var/lib/rota
        member "$rota" --system run -n a -- true
        refused "^rota: --system is for root and the group rota: .*Permission denied" other "$rota" --system ls'
}

# Root was there before the group: the remedy that the pages give, which all say the same.
test_system_was_made_before_the_group()
{
    local page step install='install -d -g rota -m 2770 /var/lib/rota' chgrp='chgrp -R rota /var/lib/rota'
    for page in SECURITY.md docs/engines/file.md docs/man/rota.1; do
        for step in 'groupadd -f --system rota' "$install" "$chgrp"; do
            grep -q "$step" "$pages/$page" || fail "$page has no '$step'"
        done
    done
    on_a_machine '"$rota" --system run a -- true
        group
        refused "^rota: --system is for root alone until root does chgrp -R rota /var/lib/rota: " member "$rota" --system ls
        '"$install"'
        refused "not all in /var/lib/rota is its group.s (as root: chgrp -R rota /var/lib/rota): " member "$rota" --system ls
        '"$chgrp"'
        member "$rota" --system run -n a -- true
        "$rota" --system run -n a -- true'
}

# Only those whom the folder keeps out are told who may use it.
test_system_that_is_unsafe()
{
    on_a_machine 'group
        install -d -g rota -m 2777 /var/lib/rota
        refused "^rota: /var/lib/rota can be written by everybody: " "$rota" --system ls
        refused "^rota: /var/lib/rota can be written by everybody: " other "$rota" --system ls'
}

test_unreachable()
{
    local command
    touch plain
    for command in ls "show a" "why a" "watch a" "break a --fence 1" doctor "once a true" "elect a true"; do
        # shellcheck disable=SC2086 # a command with its operands
        refused 69 plain "$rota" --on "file:$PWD/plain/rota" $command
    done
}

test_output_that_cannot_be_written()
{
    local command
    expect 0 "$rota" once a -- true
    for command in ls "show a" "why a" "watch -1 a" doctor "ls --json" "watch --json a" "ls --help"; do
        # shellcheck disable=SC2086 # a command with its operands
        "$rota" $command >&- 2>err
        same "1 1" "$? $(wc -l <err)"
        # shellcheck disable=SC2086
        "$rota" $command >/dev/full 2>err
        same "1 1" "$? $(wc -l <err)"
    done
}

# A terminal gets colours; NO_COLOR and a pipe do not.
test_colour_on_terminals_only()
{
    expect 0 "$rota" once a -- true
    TERM=xterm script -qec "'$rota' show a" /dev/null </dev/null >out
    grep -q $'\033\[' out || fail "no colour on a terminal"
    TERM=xterm NO_COLOR=1 script -qec "'$rota' show a" /dev/null </dev/null >out
    ! grep -q $'\033\[' out || fail "colour in spite of NO_COLOR"
    ! "$rota" show a | grep -q $'\033' || fail "colour where no terminal is"
    script -qec "'$rota' ls nothing" /dev/null </dev/null >out
    has "nobody holds" out
}

run_cases "$@"
