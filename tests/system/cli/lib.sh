# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # rota, break_lock and pty are the caller's
# The runner for tests of the command: every function test_* of the caller is a case, run in a
# subshell, in an empty folder, on an embedded engine of its own, or on that of $ROTA_TEST_URL (without
# parameters) under a prefix of its own, with a ttl of $ROTA_TEST_TTL (3s). Counts as cmocka does.

fail() # MESSAGE...
{
    printf '    %s\n' "$*" >&2
    exit 1
}

expect() # CODE COMMAND...: its exit code
{
    local wanted=$1 code=0
    shift
    "$@" || code=$?
    [ "$code" -eq "$wanted" ] || fail "exit $code, not $wanted: $*"
}

refused() # CODE PATTERN COMMAND...: that exit code, nothing on stdout, one line on stderr with PATTERN
{
    local wanted=$1 pattern=$2
    shift 2
    local code=0
    "$@" >refused.out 2>refused.err || code=$?
    [ "$code" -eq "$wanted" ] || fail "exit $code, not $wanted: $*: $(cat refused.err)"
    [ ! -s refused.out ] || fail "printed on stdout: $*"
    [ "$(wc -l <refused.err)" -eq 1 ] || fail "not one line: $(cat refused.err)"
    grep -Eq -- "$pattern" refused.err || fail "no '$pattern' in: $(cat refused.err)"
}

same() # WANTED GOT
{
    [ "$1" = "$2" ] || fail "'$2', not '$1'"
}

await() # FIFO: until somebody writes a line; the writer may have died, hence the limit
{
    exec 6<>"$1"
    read -r -t 30 _ <&6 || fail "nobody wrote to $1"
    exec 6>&-
}

# A holder that runs until it is let go. No sleeps: it writes into a fifo when it holds.
hold() # OPTIONS... NAME: $holder is its pid; $rota is the caller's
{
    rm -f up down
    mkfifo up down
    "$rota" run "$@" -- sh -c 'echo >up; read -r _ <down' &
    holder=$!
    await up
}

let_go()
{
    echo >down
    expect 0 wait "$holder"
}

# ---- What is printed

# The JSON on stdin, as D, through a Python expression. Meson needs Python: so it is there.
json() # EXPRESSION
{
    python3 -c 'import json, sys
d = json.load(sys.stdin)
value = eval(sys.argv[1])
print(" ".join(map(str, value)) if isinstance(value, (list, tuple)) else value)' "$1"
}

has() # PATTERN FILE
{
    grep -Eq -- "$1" "$2" || fail "no '$1' in: $(cat "$2")"
}

fence_of() # NAME: of its first ticket
{
    "$rota" show --json "$1" | json 'd["tickets"][0]["fence"]'
}

# Looks until COUNT wait. Not timed: only the test's own timeout would end it.
await_waiters() # NAME COUNT
{
    until [ "$("$rota" show "$1" | grep -c '^[0-9]* *waits ')" = "$2" ]; do :; done
}

# ---- A command under rota run, and its end

# COMMAND... under rota run a; it writes into up when it runs. $holder is rota's pid; every process of
# the command has the fifo alive open, so that it ends when they have ended.
begin() # OPTIONS... -- COMMAND...
{
    rm -f up down alive
    mkfifo up down alive
    local options=()
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    exec 4<>alive 5<alive
    "$rota" run "${options[@]}" a -- "${@:2}" 3>alive 4>&- 5<&- 2>err &
    holder=$!
    exec 4>&-
    await up
}

await_gone() # until no process of the command is left
{
    timeout 30 cat <&5 || fail "the command did not end"
    exec 5<&-
}

guardian_of() # PID: until it has one
{
    local child
    while kill -0 "$1" || fail "rota ended"; do
        for child in $(cat "/proc/$1/task/$1/children"); do
            [ "$(cat "/proc/$child/comm" 2>/dev/null)" = rota-guardian ] && echo "$child" && return
        done
    done
}

await_state() # PID PATTERN: until its state is that
{
    local state
    until state=$(sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$1/status") && [[ $state =~ $2 ]]; do
        [ -n "$state" ] || fail "$1 ended"
    done
}

killed() # PID: -9
{
    kill -9 "$1"
    wait "$1" 2>/dev/null
    [ $? -eq 137 ] || fail "rota was not killed"
}

# ---- A terminal

# Plays the script on stdin in an interactive shell that does not echo what is typed, reports its
# jobs at once, and prompts with "ready:". $rota, $break_lock and $pty are in its environment.
play()
{
    {
        printf '%s\n' "send stty -echo; set -b; PS1='rea''dy:'\\r" "expect ready:"
        cat
        printf '%s\n' "send exit 0\\r" "end"
    } >script
    HISTFILE='' expect 0 env --default-signal "$pty" bash --norc --noprofile --noediting -i <script
}

# ---- The runner

run_case() # NAME
{
    local room
    room=$(mktemp -d)
    (
        cd "$room" || exit 1
        # A failed case leaves its holders behind: their commands die with them.
        trap 'jobs -p | xargs -r kill -9 2>/dev/null' EXIT
        export HOME=$room ROTA_URL="${ROTA_TEST_URL:+$ROTA_TEST_URL?ttl=${ROTA_TEST_TTL:-3s}&prefix=$1.$$:}"
        [ -n "$ROTA_URL" ] || ROTA_URL="file:$room/rota"
        unset XDG_STATE_HOME XDG_CONFIG_HOME XDG_RUNTIME_DIR
        "$1"
    )
    local code=$?
    rm -rf "$room"
    return $code
}

run_cases()
{
    local name names passed=0 failed=()
    names=${*:-$(declare -F | sed -n 's/^declare -f \(test_.*\)/\1/p')}
    for name in $names; do
        printf '[ RUN      ] %s\n' "$name"
        if run_case "$name"; then
            printf '[       OK ] %s\n' "$name"
            passed=$((passed + 1))
        else
            printf '[  FAILED  ] %s\n' "$name"
            failed+=("$name")
        fi
    done
    printf '[  PASSED  ] %d test(s).\n' "$passed"
    [ ${#failed[@]} -eq 0 ] && return 0
    printf '[  FAILED  ] %d test(s), listed below:\n' "${#failed[@]}"
    printf '[  FAILED  ] %s\n' "${failed[@]}"
    return 1
}
