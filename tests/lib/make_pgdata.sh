#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A new PostgreSQL cluster as an archive, made once for all tests: initdb takes seconds. PostgreSQL refuses to be root.
#
#   make_pgdata.sh BINDIR OUTPUT.tar
set -eu
bin=$1
out=$2

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
set -- "$bin/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 --locale=C --no-sync --wal-segsize=1
if [ "$(id -u)" -eq 0 ]; then
    chown postgres "$dir"
    set -- setpriv --reuid=postgres --regid=postgres --init-groups "$@"
fi
"$@" >"$dir/log" 2>&1 || { cat "$dir/log" >&2; exit 1; }
tar -C "$dir/data" -cf "$out" .
