#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fails unless librota.so shows rota_* and nothing else, every function of rota.h, and the right soname.
#
#   scripts/gate-symbols.sh BUILD-FOLDER
set -eu
cd "$(dirname "$0")/.."
library=$1/librota.so

shown=$(nm -D --defined-only --format=just-symbols "$library")
foreign=$(printf '%s\n' "$shown" | grep -v '^rota_' || true)
[ -z "$foreign" ] || { printf 'librota.so shows:\n%s\n' "$foreign"; exit 1; }

# Declarations of the header that end in ";" and are no typedefs.
declared=$(gcc -E -P -Iinclude include/rota.h | grep -o '\brota_[a-z_]*(' | tr -d '(' | sort -u)
inline=$(tr '\n' ' ' <include/rota.h | grep -o 'static inline [a-z_0-9 ]*[ *]rota_[a-z_]*(' |
    grep -o 'rota_[a-z_]*($' | tr -d '(' || true)
types=$(grep -o 'typedef void rota_[a-z_]*(' include/rota.h | grep -o 'rota_[a-z_]*($' | tr -d '(')
missing=$(printf '%s\n' "$declared" |
    grep -vxF -e "$inline" | grep -vxF -e "$types" | grep -vxF -e "$shown" || true)
[ -z "$missing" ] || { printf 'declared in rota.h and not in librota.so:\n%s\n' "$missing"; exit 1; }

readelf -d "$library" | grep -q 'SONAME.*\[librota\.so\.1\]' || { echo "wrong soname"; exit 1; }
