#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs an example on an embedded engine in a temporary folder, twice: the second finds what the first left.
#
#   run.sh PROGRAM [CLIENTS.SH URL]     with a server: its clients find it, as tests/lib/clients.sh arranges
set -eu
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
export ROTA_URL="file:$room/rota"
if [ $# -gt 1 ]; then
    . "$2"
    reach "$3" "$room"
fi
program=$(realpath "$1")
cd "$room"
"$program" && "$program"
