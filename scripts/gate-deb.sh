#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages, unpacks them into a scratch root, and uses what is in them there.
# A real install on a bare system is `make deb-check`: it takes a minute and a mirror.
set -eu
cd "$(dirname "$0")/.."
fail() { echo "$*"; exit 1; }

# What is packaged counts here, not how fast it is: half the time.
out=$(DEB_BUILD_OPTIONS="noopt noautodbgsym parallel=$(nproc)" scripts/deb.sh) || fail "$out"
version=$(dpkg-parsechangelog -l debian/changelog -S Version)
arch=$(dpkg --print-architecture)
triplet=$(dpkg-architecture -q DEB_HOST_MULTIARCH)
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT

for package in librota1 librota-dev rota librota-txn1 librota-txn-dev rota-txn; do
    file=build-deb/${package}_${version}_$arch.deb
    [ -f "$file" ] || fail "no $file"
    dpkg -x "$file" "$room/$package"
    dpkg -x "$file" "$room/root"
done

has() # PACKAGE PATH...
{
    local package=$1 path
    shift
    for path in "$@"; do
        [ -e "$room/$package/$path" ] || [ -L "$room/$package/$path" ] || fail "$package has no $path"
    done
}
has librota1 "usr/lib/$triplet/librota.so.1" usr/share/doc/librota1/copyright
has librota-dev usr/include/rota.h "usr/lib/$triplet/librota.a" "usr/lib/$triplet/librota.so" \
    "usr/lib/$triplet/pkgconfig/rota.pc" usr/share/man/man3/librota.3.gz
has rota usr/bin/rota usr/share/man/man1/rota.1.gz usr/share/man/man7/rota-url.7.gz \
    usr/share/bash-completion/completions/rota usr/share/doc/rota/README.md

has librota-txn1 "usr/lib/$triplet/librota_txn.so.1"
has librota-txn-dev usr/include/rota_txn.h "usr/lib/$triplet/librota_txn.a" "usr/lib/$triplet/librota_txn.so" \
    "usr/lib/$triplet/pkgconfig/rota_txn.pc" usr/share/man/man3/librota_txn.3.gz
has rota-txn usr/bin/rota-txn usr/share/man/man1/rota-txn.1.gz usr/share/bash-completion/completions/rota-txn \
    usr/lib/systemd/system/rota-txn-recover.service usr/bin/rota-relay usr/share/man/man1/rota-relay.1.gz \
    usr/share/bash-completion/completions/rota-relay usr/lib/systemd/system/rota-relay@.service

needs() # PACKAGE WORD: among its Depends
{
    dpkg-deb -f "build-deb/${1}_${version}_$arch.deb" Depends | grep -qF "$2" ||
        fail "$1 does not depend on $2"
}
needs librota1 libsqlite3-0
needs librota1 libuv1
needs librota1 libssl3
needs librota-dev "librota1 (= $version)"
needs rota libjansson4
needs librota-txn1 libsqlite3-0
needs librota-txn-dev "librota-txn1 (= $version)"
needs librota-txn-dev "librota-dev (= $version)"
needs rota-txn libjansson4

# What they install works, from where it stands.
unset ROTA_URL
export HOME=$room LC_ALL=C.UTF-8
[ "$("$room/root/usr/bin/rota" --version)" = "rota $version" ] || fail "rota --version"
[ "$("$room/root/usr/bin/rota" run first -- echo hello)" = hello ] || fail "rota run"

[ "$("$room/root/usr/bin/rota" txn --version)" = "rota-txn $version" ] || fail "rota txn --version"
[ "$("$room/root/usr/bin/rota-txn" ls --json | tr -d ' \n')" = '{"transactions":[]}' ] || fail "rota-txn ls"

libraries=$room/root/usr/lib/$triplet
flags=$(PKG_CONFIG_SYSROOT_DIR=$room/root PKG_CONFIG_PATH=$libraries/pkgconfig pkg-config --cflags --libs rota)
# shellcheck disable=SC2086 # a list of words
gcc -Wall -Werror examples/first_lock.c -I"$room/root/usr/include" -L"$libraries" $flags -o "$room/first"
readelf -d "$room/first" | grep -q 'NEEDED.*\[librota\.so\.1\]' || fail "not linked to librota.so.1"
LD_LIBRARY_PATH=$libraries "$room/first" | grep -q "our turn" || fail "the example does not run"
