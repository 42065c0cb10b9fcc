#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs guard_etcd.sh under rota run, then as one that slept: run_etcd.sh ROTA GUARD_ETCD.SH CLIENTS.SH URL
set -eu
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
. "$3"
reach "$4" "$room"
export ROTA_URL="$4"
"$1" run stock-7 -- "$2"
"$1" run stock-7 -- "$2"
code=0
ROTA_FENCE=1 "$2" || code=$?
[ "$code" -eq 76 ] && [ "$(etcdctl get --print-value-only stock:7)" = 8 ]
