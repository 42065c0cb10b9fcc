#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make interop: other clients contend with Rota on one name, some are killed. On etcd: Go's Mutex, Election, the lock service
# and etcdctl lock; and the whole conformance suite on current versions of etcd. On ZooKeeper: Curator's mutex, read/write
# lock and leader latch, kazoo's locks. On Redis: redis-py, redsync and node-redlock, the last two also on Redlock's five;
# Redisson's plain, fair and read/write lock, and what holds of each client when it is met (tests/interop/redis/meet.py). On
# PostgreSQL and MariaDB: ShedLock's provider for JDBC; sessions of psql and mariadb that hold advisory and named locks, and rows.
# And transactions by DTM's own Go client, failures included, on rota-txn serve and on DTM itself: what comes of each must be the same.
#
#   scripts/interop.sh [--quick] [one|three] [PART...]
#
# Parts: etcd, or of it mutex election service etcdctl current; zookeeper, or of it curator curator-rw curator-latch kazoo
# kazoo-rw; redis, or of it redis-py redis-py-also redsync redsync-five node-redlock node-redlock-five redisson redisson-fair
# redisson-rw meet; shedlock, or of it shedlock-postgres shedlock-mysql shedlock-postgres-also
# shedlock-mysql-also; sessions, or of it psql-advisory psql-advisory-also psql-forupdate mariadb-getlock
# mariadb-getlock-also mariadb-forupdate; dtm. -also: Rota in its own line, with ?also=. 5000 grants and 50 kills per pair; quick: 300 and 4, and no
# current etcd. The pairs run on the servers that are installed; etcd's on $ROTA_TEST_ETCD if that is set. Ends with 77 if
# something that was asked for could not be shown: etcd's part needs Go, ZooKeeper's Java and Python with kazoo, Redis' Python with
# redis-py, Go, Java with Maven, Node with npm, ShedLock's Java with Maven. Go, Maven and npm bring what they need from where their
# settings say, once; it stays in build-interop.
set -u
cd "$(dirname "$0")/.." || exit 1
unset ROTA_URL ROTA_TRACE ROTA_BUG ROTA_PASSWORD
export LC_ALL=C.UTF-8

grants=5000
kills=50
topology=one
on_etcd="mutex election service etcdctl current"
on_zookeeper="curator curator-rw curator-latch kazoo kazoo-rw"
on_shedlock="shedlock-postgres shedlock-mysql shedlock-postgres-also shedlock-mysql-also"
on_sessions="psql-advisory psql-advisory-also psql-forupdate mariadb-getlock mariadb-getlock-also mariadb-forupdate"
on_redis="redis-py redis-py-also redsync redsync-five node-redlock node-redlock-five redisson redisson-fair redisson-rw meet"
etcd=
zookeeper=
redis=
shedlock=
sessions=
dtm=
for arg in "$@"; do
    case $arg in
    --quick) grants=300 kills=4 on_etcd="mutex election service etcdctl" ;;
    one | three) topology=$arg ;;
    etcd) etcd=all ;;
    zookeeper) zookeeper=all ;;
    redis) redis=all ;;
    shedlock) shedlock=all ;;
    sessions) sessions=all ;;
    dtm) dtm=all ;;
    psql-advisory | psql-advisory-also | psql-forupdate | mariadb-getlock | mariadb-getlock-also | mariadb-forupdate)
        sessions="$sessions $arg" ;;
    mutex | election | service | etcdctl | current) etcd="$etcd $arg" ;;
    curator | curator-rw | curator-latch | kazoo | kazoo-rw) zookeeper="$zookeeper $arg" ;;
    redis-py | redis-py-also | redsync | redsync-five | node-redlock | node-redlock-five | redisson | redisson-fair | \
        redisson-rw | meet)
        redis="$redis $arg" ;;
    shedlock-postgres | shedlock-mysql | shedlock-postgres-also | shedlock-mysql-also) shedlock="$shedlock $arg" ;;
    *) echo "interop.sh: no such argument: $arg" >&2; exit 64 ;;
    esac
done
[ -n "$etcd$zookeeper$redis$shedlock$sessions$dtm" ] || etcd=all zookeeper=all redis=all shedlock=all sessions=all dtm=all
[ "$etcd" != all ] || etcd=$on_etcd
[ "$zookeeper" != all ] || zookeeper=$on_zookeeper
[ "$redis" != all ] || redis=$on_redis
[ "$shedlock" != all ] || shedlock=$on_shedlock
[ "$sessions" != all ] || sessions=$on_sessions

skipped=0
skip() # WHOSE WHY
{
    echo "interop: SKIPPED, nothing was tested on $1: $2" >&2
    skipped=1
}
python=/usr/bin/python3 # Debian's own, which has Debian's kazoo
jars=/usr/share/java
classes=
for jar in curator-recipes curator-framework curator-client zookeeper zookeeper-jute guava slf4j-api slf4j-nop; do
    classes=$classes:$jars/$jar.jar
done
[ -z "$etcd" ] || command -v go >/dev/null || { skip etcd "there is no Go here"; etcd=; }
[ -z "$zookeeper" ] || { command -v javac >/dev/null && [ -f $jars/curator-recipes.jar ] && $python -c 'import kazoo'; } ||
    { skip ZooKeeper "Java, Curator or kazoo is not here"; zookeeper=; }
[ -z "$redis" ] || $python -c 'import redis' 2>/dev/null || { skip Redis "redis-py is not here"; redis=; }
[ -z "$shedlock" ] || command -v mvn >/dev/null || { skip SQL "there is no Maven here, to bring ShedLock"; shedlock=; }
[ -z "$sessions" ] || { command -v psql && command -v mariadb; } >/dev/null || { skip SQL "psql or mariadb is not here"; sessions=; }
[ -z "$dtm" ] || command -v go >/dev/null || { skip DTM "there is no Go here"; dtm=; }
[ -n "$etcd$zookeeper$redis$shedlock$sessions$dtm" ] || exit 77

out=$PWD/build-interop
mkdir -p "$out"
programs=
[ -z "$etcd$zookeeper$redis$shedlock$sessions" ] || programs="rota tests/interop/rota-side tests/interop/interop-guard.so"
[ -z "$etcd" ] || programs="$programs tests/lib/with-etcd tests/conformance/conformance tests/system/cli/take_locks
    tests/system/etcd/test_etcd_regress tests/system/etcd/test_etcd_regress_three"
[ -z "$zookeeper" ] || programs="$programs tests/lib/with-zookeeper"
[ -z "$shedlock$sessions" ] || programs="$programs tests/lib/with-postgres tests/lib/with-mysql"
[ -z "$dtm" ] || programs="$programs rota-txn"
[ -z "$redis" ] || programs="$programs tests/lib/with-redis tests/interop/guard-side"
{
    { [ -f "$out/build.ninja" ] || meson setup "$out" -Dtests=enabled; } &&
        ninja -C "$out" $programs
} >"$out/build.log" 2>&1 || { tail -n 40 "$out/build.log"; exit 1; }
python3 -B tests/interop/check_test.py >"$out/check.log" 2>&1 ||
    { cat "$out/check.log"; echo "the checker is not to be trusted"; exit 1; }

# 1: not to be had.
build_go()
{
    # Modules come from where Go's settings say.
    cd tests/interop/etcd/goside || exit 1
    go mod download 2>"$out/go.log" || { cat "$out/go.log"; cd ../../../..; return 1; }
    go build -buildvcs=false -o "$out/go-side" . || exit 1
    cd ../../../.. || exit 1
}

build_dtm()
{
    cd tests/interop/dtm || exit 1
    go mod download 2>"$out/go.log" || { cat "$out/go.log"; cd ../../..; return 1; }
    go build -buildvcs=false -o "$out/dtm-side" . || exit 1
    cd ../../.. || exit 1
}

# The same transactions on DTM and on rota-txn serve.
on_dtm()
{
    rm -rf "$out/dtm" && mkdir -p "$out/dtm/journal" || exit 1
    (cd "$out/dtm" && timeout 200 ../dtm-side --dtm 2>../dtm.log) >"$out/dtm.txt" || { tail -n 5 "$out/dtm.log"; return 1; }
    "$out/rota-txn" --journal "file:$out/dtm/journal" serve --listen 127.0.0.1:0 --json 2>"$out/serve.log" &
    serve=$!
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        port=$(sed -n 's/.*listening at port \([0-9]*\).*/\1/p' "$out/serve.log")
        [ -z "$port" ] || break
        sleep 0.5
    done
    timeout 200 "$out/dtm-side" "http://127.0.0.1:$port/api/dtmsvr" >"$out/rota.txt"
    code=$?
    kill $serve
    wait $serve
    [ $code -eq 0 ] && diff "$out/dtm.txt" "$out/rota.txt" && echo "dtm: $(wc -l <"$out/rota.txt") transactions of its client ended alike on DTM and on rota-txn serve"
}

build_java()
{
    mkdir -p "$out/java"
    javac -d "$out/java" -cp "$classes" tests/interop/java/*.java tests/interop/zookeeper/*.java || exit 1
}

build_current()
{
    echo "building current versions of etcd: the first time it takes a while"
    for version in 3.6 3.7; do
        scripts/etcd-current.sh "$out/etcd-$version" $version >"$out/etcd-current.log" 2>&1
        code=$?
        [ $code -eq 0 ] || cat "$out/etcd-current.log"
        [ $code -ne 77 ] || return 1
        [ $code -eq 0 ] || exit 1
        "$out/etcd-$version" --version | head -n 1
    done
}

pair() # ENGINE NAME WITH OTHER-SIDE
{
    "$out/tests/lib/$3" "$topology" -- $python -B tests/interop/contend.py "$1" "$2" --url @URL@ \
        --rota-side "$out/tests/interop/rota-side" --other-side "$4" --grants "$grants" --kills "$kills"
}

etcd_pair() # NAME
{
    pair etcd "$1" with-etcd "$out/go-side"
}

zookeeper_pair() # NAME
{
    case $1 in
    kazoo*) ROTA_GUARD=$out/tests/interop/interop-guard.so pair zookeeper "$1" with-zookeeper \
        "$python -B tests/interop/zookeeper/kazoo_side.py" ;;
    *) pair zookeeper "$1" with-zookeeper \
        "java -Xmx96m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -cp $out/java$classes CuratorSide" ;;
    esac
}

redis_pair() # NAME, on one server or on five
(
    export ROTA_GUARD="$out/tests/interop/interop-guard.so" ROTA_GUARD_SIDE="$out/tests/interop/guard-side"
    export ROTA_JAVA=-XX:TieredStopAtLevel=1 # many that live for a short time
    case $1 in *-five) topology=redlock ;; *) topology=one ;; esac
    case $1 in
    redis-py*) side="$python -B tests/interop/redis/redis_py_side.py" ;;
    redsync*) side=$out/redsync-side ;;
    node-redlock*) side=$out/redlock-side ;;
    *) side=$out/redisson-side ;;
    esac
    if [ "$1" = meet ]; then
        "$out/tests/lib/with-redis" one -- $python -B tests/interop/redis/meet.py @URL@ --rota "$out/rota" \
            --rota-side "$out/tests/interop/rota-side" --redisson "$out/redisson-side" --redsync "$out/redsync-side" --redlock "$out/redlock-side"
    else
        pair redis "$1" with-redis "$side"
    fi
)

build_shedlock()
{
    if ! cmp -s tests/interop/shedlock/pom.xml "$out/shedlock.pom"; then
        mvn -q -B -f tests/interop/shedlock/pom.xml dependency:copy-dependencies -DoutputDirectory="$out/shedlock-jars" \
            >"$out/mvn.log" 2>&1 || { tail -n 5 "$out/mvn.log"; return 1; }
        cp tests/interop/shedlock/pom.xml "$out/shedlock.pom"
    fi
    mkdir -p "$out/shedlock"
    javac -d "$out/shedlock" -cp "$out/shedlock-jars/*" tests/interop/java/*.java tests/interop/shedlock/*.java || exit 1
}

shedlock_pair() # NAME, on one server
(
    topology=one
    with=${1#shedlock-}
    pair shedlock "$1" "with-${with%-also}" "java -Xmx96m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData \
-Duser.timezone=UTC -cp $out/shedlock:$out/shedlock-jars/* ShedLockSide"
)

session_pair() # NAME, on one server
{
    case $1 in psql*) with=with-postgres ;; *) with=with-mysql ;; esac
    (topology=one && ROTA_GUARD=$out/tests/interop/interop-guard.so pair sessions "$1" $with \
        "$python -B tests/interop/sessions/session_side.py")
}

on_current() # TOPOLOGY COMMAND...: on that of $version
{
    on=$1
    shift
    "$out/tests/lib/with-etcd" "$on" --etcd "$out/etcd-$version" -- "$@"
}

conforms() # TOPOLOGY [--strict]
{
    log=$out/conformance-$version-$(echo "$*" | tr -d ' ').log
    if on_current "$1" "$out/tests/conformance/conformance" --ttl=1s ${2:+"$2"} @URL@ >"$log" 2>&1; then
        printf '%s conformance %s: %s\n' "$version" "$*" "$(grep '^\[  PASSED  \]' "$log")"
    else
        grep -v '^\[\( RUN      \|       OK \)\]' "$log"
        return 1
    fi
}

# Nothing is broken there, and the version has no known bugs.
doctor() # TOPOLOGY
{
    on_current "$1" "$out/rota" --on @URL@ doctor >"$out/doctor.log" &&
        grep -q '^kept *version' "$out/doctor.log" && grep '^kept *version' "$out/doctor.log" && return
    cat "$out/doctor.log"
    return 1
}

commands()
{
    on_current one tests/system/cli/etcd.sh "$out/rota" @URL@ >"$out/commands.log" 2>&1 &&
        on_current user tests/system/cli/etcd.sh "$out/rota" @URL@ >>"$out/commands.log" 2>&1 &&
        on_current one env ROTA_TEST_URL=@URL@ tests/system/cli/commands.sh "$out/rota" \
            "$out/tests/system/cli/take_locks" >>"$out/commands.log" 2>&1 &&
        echo "$version commands: $(grep -c '^\[       OK \]' "$out/commands.log") cases" && return
    cat "$out/commands.log"
    return 1
}

# Bugs of other clients, played again.
regress()
{
    for how in regress regress_three; do
        ROTA_TEST_ETCD=$out/etcd-$version "$out/tests/system/etcd/test_etcd_$how" >"$out/$how.log" 2>&1 ||
            { cat "$out/$how.log"; return 1; }
        printf '%s %s: %s\n' "$version" "$how" "$(grep '^\[  PASSED  \]' "$out/$how.log")"
    done
}

# Its parts, and the one that needs all, are left out.
without() # CLIENT
{
    kept=
    for part in $redis; do
        case $part in "$1"* | meet) ;; *) kept="$kept $part" ;; esac
    done
    redis=$kept
}

passed=0
failed=0
try()
{
    if "$@"; then
        passed=$((passed + 1))
    else
        echo "FAILED: $*"
        failed=$((failed + 1))
    fi
}

# All is built before anything runs: who skips has shown nothing.
if [ -n "$etcd" ] && [ "$etcd" != " current" ]; then
    build_go || { skip etcd "Go's modules cannot be had"; etcd=; }
fi
case $etcd in *current*) build_current || { skip etcd "a current etcd cannot be built"; etcd=; } ;; esac
[ -z "$zookeeper" ] || build_java
for part in $zookeeper; do
    try zookeeper_pair "$part"
done
[ -z "$shedlock" ] || build_shedlock || { skip SQL "ShedLock cannot be had"; shedlock=; }
for part in $shedlock; do
    try shedlock_pair "$part"
done
for part in $sessions; do
    try session_pair "$part"
done
[ -z "$dtm" ] || build_dtm || { skip DTM "its modules cannot be had"; dtm=; }
[ -z "$dtm" ] || try on_dtm
case $redis in *redsync* | *meet*)
    scripts/redis-peers.sh "$out" redsync || { skip Redis "redsync cannot be had: it needs Go"; without redsync; } ;;
esac
case $redis in *redlock* | *meet*)
    scripts/redis-peers.sh "$out" redlock || { skip Redis "node-redlock cannot be had: it needs npm"; without node-redlock; } ;;
esac
case $redis in *redisson* | *meet*)
    scripts/redis-peers.sh "$out" redisson || { skip Redis "Redisson cannot be had: it needs Maven"; without redisson; } ;;
esac
for part in $redis; do
    try redis_pair "$part"
done
for part in $etcd; do
    if [ "$part" != current ]; then
        try etcd_pair "$part"
        continue
    fi
    for version in 3.6 3.7; do
        for on in one three user tls tls-three; do
            try doctor "$on"
        done
        try commands
        try regress
        try conforms one --strict
        try conforms tls
    done
    version=3.6
    try conforms three
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] || exit 1
[ "$skipped" -eq 0 ] || exit 77
