#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fails unless the commands and the libraries are hardened as meson.build asks.
#
#   scripts/gate-hardening.sh BUILD-FOLDER
set -eu
cd "$(dirname "$0")/.."

for file in "$1/rota" "$1/librota.so" "$1/rota-txn" "$1/rota-relay" "$1/librota_txn.so"; do
    dynamic=$(readelf -dW "$file")
    segments=$(readelf -lW "$file")
    fail() { echo "$file: $1"; exit 1; }
    echo "$dynamic" | grep -Eq 'BIND_NOW|FLAGS.*NOW' || fail "not bound at start"
    echo "$dynamic" | grep -q 'TEXTREL' && fail "relocations in the text"
    echo "$segments" | grep -q 'GNU_RELRO' || fail "no RELRO"
    echo "$segments" | grep 'GNU_STACK' | grep -q 'RWE' && fail "executable stack"
    echo "$segments" | grep 'LOAD' | grep -q 'RWE' && fail "segment that is written and run"
    readelf -hW "$file" | grep -q 'Type:.*DYN' || fail "not position independent"
done
exit 0
