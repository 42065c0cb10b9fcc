#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# with-redis and faultproxy do what their first comments say.
#
#   programs.sh WITH-REDIS FAULTPROXY
set -eu
with_redis=$1
faultproxy=$2
TMPDIR=$(mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT

fail()
{
    echo "programs.sh: $*" >&2
    exit 1
}

expect() # WHAT PATTERN TEXT
{
    # shellcheck disable=SC2254 # a pattern
    case $3 in
    $2) ;;
    *) fail "$1: $3" ;;
    esac
}

# The URL of each topology, the command's exit code, and nothing left behind.
expect one 'redis://127.0.0.1:[1-9]*/' "$("$with_redis" one -- echo @URL@)"
expect unix 'redis+unix:/*/sock' "$("$with_redis" unix -- echo @URL@)"
expect tls 'rediss://rota@localhost:*/?ca=/*&password_file=/*' "$("$with_redis" tls --proxy delays -- echo @URL@)"
rc=0
"$with_redis" always --seed 3 -- sh -c 'exit 7' || rc=$?
[ "$rc" -eq 7 ] || fail "exit code $rc"
rc=0
"$with_redis" nonsense -- true 2>"$TMPDIR/usage" || rc=$?
[ "$rc" -eq 64 ] || fail "usage: exit code $rc"
rm "$TMPDIR/usage"
[ -z "$(ls -A "$TMPDIR")" ] || fail "left behind: $(ls -A "$TMPDIR")"

# faultproxy before a Redis, commanded through a pipe: the reply to the second PING comes late.
cat >"$TMPDIR/body" <<'END'
set -eu
port=${1#redis://127.0.0.1:}
: >"$TMPDIR/out"
mkfifo "$TMPDIR/in"
"$2" --seed 1 "${port%/}" <"$TMPDIR/in" >"$TMPDIR/out" &
exec 3>"$TMPDIR/in"
answers() # until there are N lines
{
    while [ "$(wc -l <"$TMPDIR/out")" -lt "$1" ]; do
        sleep 0.01
    done
}
answers 1
proxied=$(sed -n 's/^port //p' "$TMPDIR/out")
echo 'fault reply double match=ECHO two' >&3
echo 'chaos 1000' >&3
echo 'hold sideways' >&3
answers 4
redis-cli -p "$proxied" ECHO one
redis-cli -p "$proxied" ECHO 'two words'
echo 'hits 1' >&3
echo 'counts' >&3
answers 6
exec 3>&-
wait
sed '1d; s/ chunks=.*delivered/ delivered/' "$TMPDIR/out"
END
got=$("$with_redis" one -- sh "$TMPDIR/body" @URL@ "$faultproxy")
want='one
two words
1 ok
ok
error
1 ok
connections=2 requests=2 replies=2 pushes=0 flights=2 delivered=52/39 ok'
[ "$got" = "$want" ] || fail "faultproxy: $got"
