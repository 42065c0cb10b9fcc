#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the example of the outbox: orders that are taken have their event, and one that is refused has none.
#
#   run_outbox.sh OUTBOX_ORDER ROTA_TXN ROTA_RELAY
set -eu
order=$1 rota_txn=$2 rota_relay=$3
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
from=sqlite:$room/shop.db

test "$("$order" "$room/shop.db" 2)" = ordered
test "$("$order" "$room/shop.db" 3)" = ordered
! "$order" "$room/shop.db" 1 >"$room/out" 2>"$room/err" || exit 1 # there is none left
test "$(cat "$room/out")" = refused

test "$("$rota_relay" --from "$from" --dry-run | wc -l)" = 2
"$rota_txn" events ls --from "$from" --state new | grep -q 'orders  order-2  made$'
test "$("$rota_txn" events show --from "$from" --raw 1)" = '{"order": 1, "item": "lamp", "count": 2}'
