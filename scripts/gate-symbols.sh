#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fails unless librota.so shows rota_* and nothing else, every function of its headers, and the right soname.
#
#   scripts/gate-symbols.sh BUILD-FOLDER
set -eu
cd "$(dirname "$0")/.."
library=$1/librota.so

shown=$(nm -D --defined-only --format=just-symbols "$library")
foreign=$(printf '%s\n' "$shown" | grep -v '^rota_' || true)
[ -z "$foreign" ] || { printf 'librota.so shows:\n%s\n' "$foreign"; exit 1; }

# Declarations of the header that end in ";" and are no typedefs.
declared=$(gcc -E -P -Iinclude include/rota_guard.h | grep -o '\brota_[a-z_]*(' | tr -d '(' | sort -u)
inline=$(cat include/*.h | tr '\n' ' ' | grep -o 'static inline [a-z_0-9 ]*[ *]rota_[a-z_]*(' |
    grep -o 'rota_[a-z_]*($' | tr -d '(' || true)
types=$(grep -oh 'typedef [a-z]* rota_[a-z_]*(' include/*.h | grep -o 'rota_[a-z_]*($' | tr -d '(')
missing=$(printf '%s\n' "$declared" |
    grep -vxF -e "$inline" | grep -vxF -e "$types" | grep -vxF -e "$shown" || true)
[ -z "$missing" ] || { printf 'declared in a header and not in librota.so:\n%s\n' "$missing"; exit 1; }

readelf -d "$library" | grep -q 'SONAME.*\[librota\.so\.1\]' || { echo "wrong soname"; exit 1; }
