#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the example of services: two of them, orders that are taken and one that is not, and recovery.
#
#   run_tcc.sh TCC_ORDER TCC_SERVICE TCC_SERVICE.PY ROTA_TXN     the stock is served in C, the money in Python
set -eu
room=$(mktemp -d)
pids=
trap 'for pid in $pids; do kill "$pid"; done; rm -rf "$room"' EXIT
export HOME="$room" ROTA_JOURNAL="file:$room/journal"
unset XDG_CONFIG_HOME
mkdir -p "$room/.config/rota"

# NAME ITEMS SERVICE...: serves, and is a resource.
start()
{
    name=$1 items=$2
    shift 2
    mkfifo "$room/$name.port"
    "$@" "$room/$name.db" "$items" >"$room/$name.port" &
    pids="$pids $!"
    read -r port <"$room/$name.port"
    echo "$name = http://127.0.0.1:$port/" >>"$room/.config/rota/txn"
}
# NAME WHAT: that is what it has, or comes to have.
has()
{
    port=$(sed -n "s|^$1 = http://127.0.0.1:\([0-9]*\)/|\1|p" "$room/.config/rota/txn")
    python3 -c 'import sys, time, urllib.request as u
u.install_opener(u.build_opener(u.ProxyHandler({})))
for i in range(300):
    got = u.urlopen(sys.argv[1]).read().decode().strip()
    if got == sys.argv[2]:
        sys.exit(0)
    time.sleep(0.1)
sys.exit(f"it has {got}, not {sys.argv[2]}")' "http://127.0.0.1:$port/" "$2"
}

order=$1 in_c=$2 in_python=$3 rota_txn=$4
start stock 5 "$in_c"
start money 3 python3 "$in_python"
"$order" 2
has stock "3 free, 0 reserved, 2 sold"
has money "1 free, 0 reserved, 2 sold"
# There is no money for three: the stock that was reserved is given back, if not at once, then by whoever recovers.
"$order" 3 && exit 1
"$rota_txn" recover --once
has stock "3 free, 0 reserved, 2 sold"
has money "1 free, 0 reserved, 2 sold"
