#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the examples of transactions on a PostgreSQL and a MariaDB, with a journal in a temporary folder.
#
#   run_txn.sh CLIENTS.SH MYSQL_URL WITH_POSTGRES|POSTGRES_URL TRANSFER JOIN_HTTP [THREE_PHASE]
set -eu
clients=$1 mysql=$2 postgres=$3
shift 3
case $postgres in
postgres:*) ;;
*) exec "$postgres" two-phase -- "$0" "$clients" "$mysql" @URL@ "$@" ;; # starts one, and this script again
esac
room=$(mktemp -d)
service=
trap '[ -z "$service" ] || kill "$service"; rm -rf "$room"' EXIT
. "$clients"
reach "$postgres" "$room"
reach "$mysql" "$room" # HOME is the room from here on
export ROTA_JOURNAL="file:$room/journal"
mkdir -p "$room/.config/rota"
printf 'ledger = %s\nshop = %s\n' "$postgres" "$mysql" >"$room/.config/rota/txn"
chmod 600 "$room/.config/rota/txn"

# 25 coins are enough for two transfers of 10: the third votes no.
"$1" | tee "$room/out"
[ "$(grep -c 'committed at both' "$room/out")" = 2 ] || { echo "not two transfers were committed"; exit 1; }

# 5 coins are left: they move once, and then there are none.
if [ $# -gt 2 ]; then
    "$3" "$mysql" "$postgres" | tee "$room/out"
    [ "$(cut -d: -f2 "$room/out" | tr -d '\n')" = " committed by three phases aborted" ] ||
        { echo "not one committed, and then one aborted"; exit 1; }
fi

# A port that is free now; the service says when it listens.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
mkfifo "$room/says"
"$2" serve "$port" >"$room/says" &
service=$!
exec 3<"$room/says"
read -r line <&3
[ "$line" = serving ] || { echo "the service said: $line"; exit 1; }
"$2" order "$port"
read -r line <&3
[ "$line" = "payment: committed" ] || { echo "the service said: $line"; exit 1; }
