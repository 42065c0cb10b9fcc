#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the simulator with each planted bug (src/base/bug.h) and demands that it is found, and by which invariant: a bug that only
# another one finds is a hole in the first. Needs a build with -Dplanted=true; that nothing is found without one, its other
# tests show (sim-KIND-N).
#
#   planted.sh SIMULATOR KIND      mem, redis, ...: as the simulator is told
set -u
sim=$1
only=$2
passed=0
failed=0

# What the run ended with: "I4" of "seed 3: I4 is violated: ...", "assert" of a failed assertion, "" of none.
verdict_of() # OUTPUT
{
    printf '%s\n' "$1" | grep -a -E '^seed ' | sed -E \
        -e 's/^seed [0-9]+: ([A-Za-z0-9]+) is violated.*/\1/' -e 's/^seed [0-9]+: an assertion failed/assert/'
}

# KIND SEEDS BUG:INVARIANT...      all of INVARIANT/INVARIANT are right
finds()
{
    [ "$1" = "$only" ] || return 0
    kind=$1
    seeds=$2
    shift 2
    for pair in "$@"; do
        bug=${pair%%:*}
        wanted=${pair#*:}
        out=$(ROTA_BUG=$bug "$sim" --"$kind" $seeds 2>&1)
        status=$?
        verdict=$(verdict_of "$out")
        case "$status /$wanted/" in
            "1 "*"/$verdict/"*) passed=$((passed + 1)) ;;
            *)
                failed=$((failed + 1))
                printf 'FAIL  bug %s, %s: ended with %d and %s, not with %s\n%s\n' \
                    "$bug" "$kind" "$status" "${verdict:-nothing}" "$wanted" "$out"
                continue
                ;;
        esac
        printf 'ok    bug %s, %s: %s\n' "$bug" "$kind" "$(printf '%s\n' "$out" | grep -a -E '^seed ')"
    done
}

finds mem '--seeds 4000' 1:I4 2:I3 3:I4 4:I3 5:assert 6:I8 7:I7 8:I9 20:I6 43:I7
finds mem '--observe --seeds 4000' 44:OBSERVE
finds redis '--seeds 8000' 2:I3 9:I8 10:I4 11:I5 12:I8 13:I5 14:replicas 20:I6 43:I7
finds redis '--observe --from 1000 --seeds 3000' 44:OBSERVE 45:OBSERVE
finds cluster '--seeds 1500' 19:I3
finds redlock '--seeds 600' 60:I1/I3/I5 61:I1/I3/I5 62:I2 63:I6/liveness 64:I3 65:I3 66:I1/I3/I5
finds also '--seeds 2000' 80:I5 81:I5 82:I3/I5
finds token '--seeds 3000' 2:I3 70:I5 71:I3 73:I6
finds etcd '--from 1000 --seeds 3000' 2:I3 15:liveness 16:I8 17:liveness/I6 20:I6 40:I8 42:I4 43:I7
finds etcd '--from 5000 --seeds 3000' 18:I3
finds etcd '--observe --from 1000 --seeds 3000' 44:OBSERVE 45:OBSERVE
for kind in postgres mysql; do
    finds $kind '--from 1000 --seeds 3000' 2:I3/I5 6:I8 13:I2/I5/I6 20:I6 21:I6 22:I6/I8/liveness 23:liveness 24:I6 42:I4 43:I7
    finds $kind '--observe --from 1000 --seeds 3000' 44:OBSERVE
    finds $kind '--crowd --from 1000 --seeds 100' 37:I5
done
finds file '--seeds 1000' 5:I7 6:I8 8:I9 20:I6 25:I8 26:I6 27:I7 28:I1 29:I3/I5 30:I8 31:I1/I3
finds zookeeper '--from 1000 --seeds 3000' 2:I3 20:I6 32:I3 33:I8 34:I6/liveness 35:I4 36:I3 40:I8 42:I4 43:I7
finds zookeeper '--from 2700 --seeds 500' 38:I5
finds zookeeper '--from 3680 --seeds 3000' 39:I3
finds zookeeper '--observe --from 1000 --seeds 3000' 44:OBSERVE 45:OBSERVE
# X1 to X11 of src/txn/core/txn.h.
finds txn '--seeds 8000' 100:X4/X5 101:X2 102:X8 103:X6 104:X6 105:X6 106:X7 107:X7 108:X8 109:X3/X4/X10 110:X2 111:X2 112:X8/X11 113:X5 \
    114:X5 115:X10 116:X8 117:X1/X9 118:X9 119:X2/X11 120:X2/X4 121:X3 122:X2 123:X5 125:X5 126:X8/X11 127:X8/X11 128:X8/X11 \
    129:X11 140:X3 141:X11 142:X2/X5 143:X4
finds txn '--from 17000 --seeds 3000' 124:X4/X10
# H1 to H8 of src/txn/three/three.h.
finds three '--seeds 8000' 200:H2 201:H2 202:H4 203:H3 204:H3 205:H3/H7 206:H3 207:H3
finds three-commit '--seeds 8000' 208:H5 209:H5 210:H8 211:H8
finds three-commit '--from 14000 --seeds 2000' 212:H8
# V1 to V6 of tests/sim/relay/relay.h.
finds relay '--seeds 3000' 260:V2 261:V4 262:V1 263:V1/V2/V3 264:V3
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ] # a kind that nobody knows is a mistake
