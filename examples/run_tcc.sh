#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the example of services: two of them, orders that are taken and one that is not, and recovery.
#
#   run_tcc.sh TCC_ORDER TCC_SERVICE.PY ROTA_TXN
set -eu
room=$(mktemp -d)
pids=
trap 'for pid in $pids; do kill "$pid"; done; rm -rf "$room"' EXIT
export HOME="$room" ROTA_JOURNAL="file:$room/journal"
unset XDG_CONFIG_HOME
mkdir -p "$room/.config/rota"

# NAME ITEMS: serves, and is a resource.
start()
{
    mkfifo "$room/$1.port"
    python3 "$service" "$room/$1.db" "$2" >"$room/$1.port" &
    pids="$pids $!"
    read -r port <"$room/$1.port"
    echo "$1 = http://127.0.0.1:$port/" >>"$room/.config/rota/txn"
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

order=$1 service=$2 rota_txn=$3
start stock 5
start money 3
"$order" 2
has stock "3 free, 0 reserved, 2 sold"
has money "1 free, 0 reserved, 2 sold"
# There is no money for three: the stock that was reserved is given back, if not at once, then by whoever recovers.
"$order" 3 && exit 1
"$rota_txn" recover --once
has stock "3 free, 0 reserved, 2 sold"
has money "1 free, 0 reserved, 2 sold"
