#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages of the sets named: build, test, explore, bench, interop, deb, deb-check. Silent and quick when all are there.
set -eu

build="gcc libc6-dev meson ninja-build pkg-config libuv1-dev libssl-dev libhiredis-dev libnghttp2-dev libprotobuf-c-dev protobuf-c-compiler libsqlite3-dev libpq-dev libjansson-dev libcurl4-openssl-dev libmicrohttpd-dev librabbitmq-dev libnats-dev"
test="python3 libcmocka-dev clang-format binutils strace mandoc bash tmux openssl redis-server liblua5.1-0-dev etcd-server etcd-client postgresql-15 pgbouncer mariadb-server libmariadb-dev zookeeper default-jre-headless rabbitmq-server nats-server"
explore="clang-tidy debhelper build-essential dpkg-dev"
bench="hyperfine util-linux redis-server etcd-server etcd-client libcmocka-dev postgresql-15 mariadb-server libmariadb-dev zookeeper default-jdk-headless libcurator-recipes-java python3 python3-kazoo maven"
interop="etcd-server etcd-client python3 zookeeper default-jdk-headless libcurator-recipes-java python3-kazoo redis-server python3-redis maven"
deb="debhelper build-essential dpkg-dev"
deb_check="debootstrap"

wanted=
for set in "$@"; do
    case $set in
    build) wanted="$wanted $build" ;;
    test) wanted="$wanted $test" ;;
    explore) wanted="$wanted $explore" ;;
    bench) wanted="$wanted $bench" ;;
    interop) wanted="$wanted $interop" ;;
    deb) wanted="$wanted $deb" ;;
    deb-check) wanted="$wanted $deb_check" ;;
    *) echo "need.sh: no such set: $set" >&2; exit 64 ;;
    esac
done

if ! command -v dpkg-query >/dev/null; then
    echo "need.sh: not a Debian system; these packages are taken for granted:$wanted" >&2
    exit 0
fi

# shellcheck disable=SC2086 # a list of words
installed=$(dpkg-query -W -f='${Package} ${Status}\n' $wanted 2>/dev/null |
    sed -n 's/ install ok installed$//p') || true
missing=
for package in $wanted; do
    printf '%s\n' "$installed" | grep -qxF "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

root=
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "need.sh: as root, please: apt-get install$missing" >&2
        exit 69
    fi
    root=sudo
fi

apt_install()
{
    # shellcheck disable=SC2086 # a list of words
    $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing
}

# shellcheck disable=SC2086 # a list of words
echo "installing $(printf '%s\n' $missing | wc -l) packages and what they need, which may take some minutes:$missing"
# The lists of a fresh machine are empty or old: fetch them only if it does not go without.
apt_install >/dev/null 2>&1 || { $root apt-get update -q && apt_install; }
