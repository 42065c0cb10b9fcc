#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A stock in etcd, sold by a script: claim and look in one transaction, write in another; both compare the fence.
# Run it as: rota run stock-7 -- ./guard_etcd.sh      (these lines are what `rota guard etcd --key stock:7` prints)
set -eu

# Ends with 1 unless the first line is SUCCESS; prints the others.
judge() { awk 'NR == 1 { mine = $0 == "SUCCESS" } NR > 1; END { exit !mine }'; }
fence=$(printf %020d "${ROTA_FENCE:?}") above=$(printf %020d $((ROTA_FENCE + 1)))

etcdctl txn >/dev/null <<'TXN'
create("stock:7.fence") = "0"

put "stock:7.fence" 00000000000000000000


TXN
seen=$(etcdctl txn <<TXN | judge
value("stock:7.fence") < "$above"

put "stock:7.fence" $fence
get "stock:7"


TXN
) || { echo "a later holder was here" >&2; exit 76; }
stock=$(printf '%s\n' "$seen" | awk 'shown { print; exit } $0 == "stock:7" { shown = 1 }')

etcdctl txn <<TXN | judge >/dev/null || { echo "a later holder was here" >&2; exit 76; }
value("stock:7.fence") < "$above"

put "stock:7.fence" $fence
put "stock:7" "$((${stock:-10} - 1))"


TXN
