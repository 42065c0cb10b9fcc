#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fails unless librota.so and librota_txn.so show their own rota_* and nothing else, every function of their headers, and the
# right soname; and unless librota_txn.so needs neither librota nor a database's client library.
#
#   scripts/gate-symbols.sh BUILD-FOLDER
set -eu
cd "$(dirname "$0")/.."

inline=$(cat include/*.h | tr '\n' ' ' | grep -o 'static inline [a-z_0-9 ]*[ *]rota_[a-z_]*(' |
    grep -o 'rota_[a-z_]*($' | tr -d '(' || true)
types=$(grep -oh 'typedef [a-z]* rota_[a-z_]*(' include/*.h | grep -o 'rota_[a-z_]*($' | tr -d '(')

# Declarations of a header that end in ";" and are no typedefs.
declared() { gcc -E -P -Iinclude "$1" | grep -o '\brota_[a-z_]*(' | tr -d '(' | sort -u; }

check() # LIBRARY PATTERN NAMES: what it may show, and what it must
{
    shown=$(nm -D --defined-only --format=just-symbols "$build/$1.so")
    foreign=$(printf '%s\n' "$shown" | grep -vE "$2" || true)
    [ -z "$foreign" ] || { printf '%s.so shows:\n%s\n' "$1" "$foreign"; exit 1; }
    missing=$(printf '%s\n' "$3" |
        grep -vxF -e "$inline" | grep -vxF -e "$types" | grep -vxF -e "$shown" || true)
    [ -z "$missing" ] || { printf 'declared in a header and not in %s.so:\n%s\n' "$1" "$missing"; exit 1; }
    readelf -d "$build/$1.so" | grep -q "SONAME.*\[$1\.so\.1\]" || { echo "wrong soname of $1"; exit 1; }
}
build=$1
locks=$(declared include/rota_guard.h)
check librota '^rota_' "$locks"
check librota_txn '^rota_(txn|txns|xa|branch|call|event|fence|tcc|reply|three|participant)_' "$(declared include/rota_txn.h | grep -vxF -e "$locks")"

needed=$(readelf -d "$build/librota_txn.so" | grep -E 'NEEDED.*\[lib(rota|pq|mariadb|mysqlclient|hiredis|curl|microhttpd)\.' || true)
[ -z "$needed" ] || { printf 'librota_txn.so needs:\n%s\n' "$needed"; exit 1; }
# Nothing of transactions in what has locks only.
for file in librota.so rota; do
    inside=$(nm "$build/$file" | grep -oE '\brt_(txns|journal|party|xa)_[a-z_]+' | head -n 3 || true)
    [ -z "$inside" ] || { printf '%s has:\n%s\n' "$file" "$inside"; exit 1; }
done
