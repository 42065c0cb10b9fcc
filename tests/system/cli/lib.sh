# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The runner for tests of the command: every function test_* of the caller is a case, run in a
# subshell, in an empty folder, on an embedded engine of its own, or on that of $ROTA_TEST_URL (without
# parameters) under a prefix of its own. Counts as cmocka does.

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
    expect "$wanted" "$@" >refused.out 2>refused.err
    [ ! -s refused.out ] || fail "printed on stdout: $*"
    [ "$(wc -l <refused.err)" -eq 1 ] || fail "not one line: $(cat refused.err)"
    grep -Eq -- "$pattern" refused.err || fail "no '$pattern' in: $(cat refused.err)"
}

same() # WANTED GOT
{
    [ "$1" = "$2" ] || fail "'$2', not '$1'"
}

await() # FIFO: until somebody writes a line; whoever should may have died, hence the limit
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
    # shellcheck disable=SC2154
    "$rota" run "$@" -- sh -c 'echo >up; read -r _ <down' &
    holder=$!
    await up
}

let_go()
{
    echo >down
    expect 0 wait "$holder"
}

run_case() # NAME
{
    local room
    room=$(mktemp -d)
    (
        cd "$room" || exit 1
        # A case that failed leaves its holders behind: theirs die with them.
        trap 'jobs -p | xargs -r kill -9 2>/dev/null' EXIT
        export HOME=$room ROTA_URL="${ROTA_TEST_URL:+$ROTA_TEST_URL?ttl=3s&prefix=$1.$$:}"
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
