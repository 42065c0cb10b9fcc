#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fails unless all of it builds without engines, services over HTTP, and client libraries of brokers.
#
#   scripts/gate-engines.sh          the libraries and the commands, without any engine
#   scripts/gate-engines.sh --all    ... and the programs of the tests; without each one, without the SQL databases, without any
#
# Quickly compiled, in a folder of its own. From one choice to the next only what asks for engines.h is compiled anew; the rest is
# linked anew, and both libraries link whole and with nothing left open.
set -eu
cd "$(dirname "$0")/.."
tests=disabled
[ "${1:-}" != --all ] || tests=enabled

# Without the include the names would count as 0, and nobody would say so.
open=$(grep -rlE --include='*.[ch]' '^#.*ROTA_ENGINE_' src tests bench examples | xargs grep -L '#include "engines.h"' || true)
[ -z "$open" ] || {
    echo "asks for ROTA_ENGINE_* without engines.h: $open"
    exit 1
}

folder=build-engines
engines='file redis etcd postgres mysql zookeeper'
# Without -O gcc guesses lengths wrong, and _FORTIFY_SOURCE is not there.
set -- -Dwerror=true -Doptimization=0 -Ddebug=false '-Dc_args=-U_FORTIFY_SOURCE -Wno-format-truncation' -Dtests=$tests
if [ -e $folder/build.ninja ]; then
    meson configure $folder "$@" >/dev/null
else
    meson setup $folder "$@" >/dev/null
fi

# WITHOUT...
builds()
{
    options=
    for engine in $engines; do
        case " $* " in
            *" $engine "*) options="$options -Dengine_$engine=disabled" ;;
            *) options="$options -Dengine_$engine=enabled" ;;
        esac
    done
    case " $* " in
        *" http "*) options="$options -Dhttp=disabled" ;;
        *) options="$options -Dhttp=enabled" ;;
    esac
    case " $* " in
        *" brokers "*) options="$options -Dbroker_rabbitmq=disabled -Dbroker_nats=disabled" ;;
        *) options="$options -Dbroker_rabbitmq=enabled -Dbroker_nats=enabled" ;;
    esac
    # shellcheck disable=SC2086 # a list of words
    meson configure $folder $options >/dev/null
    ninja -k 0 -C $folder >$folder/engines.log 2>&1 || {
        echo "does not build without $*:"
        grep -A 20 -E '^FAILED|ERROR' $folder/engines.log || tail -n 20 $folder/engines.log
        failed=1
    }
}

failed=0
if [ $tests = enabled ]; then
    for engine in $engines; do
        builds "$engine"
    done
    builds postgres mysql
    builds brokers
fi
# shellcheck disable=SC2086 # a list of words
builds $engines http brokers
[ $failed = 0 ]
