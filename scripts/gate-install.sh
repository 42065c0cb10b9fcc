#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs into a temporary folder; compiles the README's C example against that and runs it.
#
#   scripts/gate-install.sh BUILD-FOLDER
set -eu
cd "$(dirname "$0")/.."

room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
DESTDIR=$room meson install -C "$1" --no-rebuild --quiet >"$room/log" 2>&1 ||
    { cat "$room/log"; exit 1; }

pc=$(find "$room" -name rota.pc)
# Where pkg-config and the loader look without being told.
[ "$pc" = "$room/usr/local/lib/pkgconfig/rota.pc" ] || { echo "rota.pc is not in its place: $pc"; exit 1; }
for file in lib/librota.so.1 share/man/man1/rota.1 share/man/man3/librota.3 share/man/man7/rota-url.7 \
    share/bash-completion/completions/rota lib/librota_txn.so.1 include/rota_txn.h lib/pkgconfig/rota_txn.pc bin/rota-txn \
    share/man/man1/rota-txn.1 share/man/man3/librota_txn.3 share/bash-completion/completions/rota-txn \
    lib/systemd/system/rota-txn-recover.service bin/rota-relay share/man/man1/rota-relay.1 \
    share/bash-completion/completions/rota-relay lib/systemd/system/rota-relay@.service; do
    [ -e "$room/usr/local/$file" ] || { echo "$file is not in its place"; exit 1; }
done
prefix=$room$(sed -n 's/^prefix=//p' "$pc")
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
libraries=$(dirname "$PKG_CONFIG_PATH")
find_rota() { pkg-config --define-variable=prefix="$prefix" "$@" rota; }

[ "$(find_rota --modversion)" = "$("$prefix/bin/rota" --version | awk '{print $NF}')" ] ||
    { echo "rota --version and rota.pc differ"; exit 1; }

awk '/^```c$/ { on = 1; next } /^```/ { if (on) exit } on' README.md >"$room/example.c"
[ -s "$room/example.c" ] || { echo "no C example in README.md"; exit 1; }

export HOME="$room" XDG_RUNTIME_DIR="$room" ROTA_URL="file:$room/rota"
# shellcheck disable=SC2046 # lists of words
gcc -Wall -Wextra -Werror "$room/example.c" $(find_rota --cflags --libs) -o "$room/shared"
LD_LIBRARY_PATH=$libraries "$room/shared" >/dev/null
# The other header too, with a user's strict flags, beside the library that every build has.
# shellcheck disable=SC2046
gcc -std=c11 -Wall -Wextra -Wpedantic -Wconversion -Werror -fsyntax-only -include hiredis/hiredis.h examples/guard_file.c \
    $(find_rota --cflags) $(pkg-config --cflags hiredis)
# The same against the archive, with the libraries that rota.pc names; not by --static, which asks for
# the archives behind those as well.
# shellcheck disable=SC2046
gcc "$room/example.c" $(find_rota --cflags) "$libraries/librota.a" \
    $(pkg-config --libs $(find_rota --print-requires-private | awk '{ print $1 }')) -pthread \
    -o "$room/static"
"$room/static" >/dev/null

# Transactions: a program of the header alone, against the shared library and against the archives.
cat >"$room/txn.c" <<'END'
#include <rota_txn.h>
int main(void)
{
    struct rota_txns *m;
    struct rota_txn *t;
    int err = rota_txns_open(&m, "file:" ROOM, NULL);
    if (err == 0) {
        err = rota_txn_begin(m, NULL, &t);
        if (err == 0)
            err = rota_txn_abort(t);
        rota_txns_close(m);
    }
    return err == 0 ? 0 : 1;
}
END
find_txn() { pkg-config --define-variable=prefix="$prefix" "$@" rota_txn; }
# shellcheck disable=SC2046
gcc -std=c11 -Wall -Wextra -Wpedantic -Wconversion -Werror -DROOM="\"$room/shared.d\"" "$room/txn.c" \
    $(find_txn --cflags --libs) -o "$room/txn-shared"
LD_LIBRARY_PATH=$libraries "$room/txn-shared"
# shellcheck disable=SC2046
gcc -DROOM="\"$room/static.d\"" "$room/txn.c" $(find_txn --cflags) "$libraries/librota_txn.a" "$libraries/librota.a" \
    $(pkg-config --libs $(find_rota --print-requires-private | awk '{ print $1 }')) -pthread -o "$room/txn-static"
"$room/txn-static"
# rota finds rota-txn beside itself, and says what lacks where it is not there.
[ "$("$prefix/bin/rota" txn --version)" = "rota-txn $(find_txn --modversion)" ] || { echo "rota txn --version"; exit 1; }
rm "$prefix/bin/rota-txn"
code=0
PATH=/usr/bin:/bin "$prefix/bin/rota" txn ls 2>"$room/log" || code=$?
[ "$code" = 127 ] && grep -q "package rota-txn" "$room/log" || { echo "rota txn without rota-txn: $code"; cat "$room/log"; exit 1; }
