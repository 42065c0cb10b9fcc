#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the simulator with each planted bug (src/base/bug.h) and demands that it is found; and with
# none, that nothing is. Needs a build with -Dplanted=true.
#
#   planted.sh SIMULATOR [etcd] [file]      the simulator knows that engine
set -u
sim=$1
shift
etcd=
file=
for engine; do
    eval "$engine=yes"
done
passed=0
failed=0

case_is() # NAME STATUS WANTED OUTPUT
{
    if [ "$2" -eq "$3" ]; then
        passed=$((passed + 1))
        printf 'ok    %s: %s\n' "$1" "$(printf '%s\n' "$4" | grep -a -E '^seed|nothing is')"
    else
        failed=$((failed + 1))
        printf 'FAIL  %s: ended with %d, not %d\n%s\n' "$1" "$2" "$3" "$4"
    fi
}

for bug in 1 2 3 4 5 6 7 8 20; do
    out=$(ROTA_BUG=$bug "$sim" --seeds 4000 2>&1)
    case_is "bug $bug" $? 1 "$out"
done
for bug in 2 9 10 11 12 13 14 20; do
    out=$(ROTA_BUG=$bug "$sim" --redis --seeds 8000 2>&1)
    case_is "bug $bug, Redis" $? 1 "$out"
done
out=$(ROTA_BUG=19 "$sim" --cluster --seeds 1500 2>&1)
case_is "bug 19, a cluster" $? 1 "$out"
[ -z "$etcd" ] || for bug in 2 15 16 17 18 20; do
    out=$(ROTA_BUG=$bug "$sim" --etcd --from $([ $bug = 18 ] && echo 5000 || echo 1000) --seeds 3000 2>&1)
    case_is "bug $bug, etcd" $? 1 "$out"
done
for bug in 2 6 13 20 21 22 23 24; do
    for kind in postgres mysql; do
        out=$(ROTA_BUG=$bug "$sim" --$kind --from 1000 --seeds 3000 2>&1)
        case_is "bug $bug, $kind" $? 1 "$out"
    done
done
[ -z "$file" ] || for bug in 5 6 8 20 25 26 27 28 29 30 31; do
    out=$(ROTA_BUG=$bug "$sim" --file --seeds 1000 2>&1)
    case_is "bug $bug, file" $? 1 "$out"
done
out=$(ROTA_BUG=0 "$sim" --seeds 500 2>&1)
case_is "no bug" $? 0 "$out"
out=$(ROTA_BUG=0 "$sim" --redis --seeds 100 2>&1)
case_is "no bug, Redis" $? 0 "$out"
out=$(ROTA_BUG=0 "$sim" --cluster --seeds 100 2>&1)
case_is "no bug, a cluster" $? 0 "$out"
for kind in postgres mysql; do
    out=$(ROTA_BUG=0 "$sim" --$kind --seeds 100 2>&1)
    case_is "no bug, $kind" $? 0 "$out"
done
[ -z "$file" ] || {
    out=$(ROTA_BUG=0 "$sim" --file --seeds 50 2>&1)
    case_is "no bug, file" $? 0 "$out"
}
[ -z "$etcd" ] || {
    out=$(ROTA_BUG=0 "$sim" --etcd --seeds 100 2>&1)
    case_is "no bug, etcd" $? 0 "$out"
}
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
