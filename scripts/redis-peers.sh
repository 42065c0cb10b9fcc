#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Other clients of Redis, for the interop tests and the benches: redis-peers.sh OUT redsync|redlock|redisson
#
# OUT/redsync-side needs Go; OUT/redlock-side needs Node and npm; OUT/redisson-side needs Java and Maven, and comes with
# OUT/jars. They bring what they need from where their settings say, once. Ends with 1 if it cannot be had.
set -eu
mkdir -p "$1"
out=$(realpath "$1")
cd "$(dirname "$0")/../tests/interop"

# Silent, but for what went wrong.
quietly()
{
    "$@" >"$out/$client.log" 2>&1 || { tail -n 5 "$out/$client.log" >&2; exit 1; }
}

program() # NAME COMMAND
{
    printf '#!/bin/sh\nexec %s "$@"\n' "$2" >"$out/$1"
    chmod +x "$out/$1"
}

client=$2
case $client in
redsync)
    command -v go >/dev/null || exit 1
    cd redis/redsync
    quietly go mod download
    quietly go build -buildvcs=false -o "$out/redsync-side" .
    ;;
redlock)
    command -v npm >/dev/null && command -v node >/dev/null || exit 1
    mkdir -p "$out/redlock"
    cp redis/redlock/* "$out/redlock/"
    [ -d "$out/redlock/node_modules/redlock" ] ||
        quietly npm --prefix "$out/redlock" ci --ignore-scripts --no-audit --no-fund
    program redlock-side "node $out/redlock/side.js"
    ;;
redisson)
    command -v mvn >/dev/null && command -v javac >/dev/null || exit 1
    if ! cmp -s redis/pom.xml "$out/redisson.pom"; then
        quietly mvn -q -B -f redis/pom.xml dependency:copy-dependencies -DoutputDirectory="$out/jars"
        cp redis/pom.xml "$out/redisson.pom"
    fi
    mkdir -p "$out/redisson"
    quietly javac -d "$out/redisson" -cp "$out/jars/*" java/*.java redis/*.java
    program redisson-side "java -Xmx128m -XX:+UseSerialGC -XX:-UsePerfData \$ROTA_JAVA -cp '$out/redisson:$out/jars/*' RedissonSide"
    ;;
*) echo "redis-peers.sh: no such client: $client" >&2; exit 64 ;;
esac
