#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs an example on an embedded engine in a temporary folder, twice: the second finds what the first left.
set -eu
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
export ROTA_URL="file:$room/rota"
"$1" && "$1"
