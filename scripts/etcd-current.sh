#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds a current etcd from its published Go module as OUT: 3.6 unless told (tests/interop/etcd/server pins the versions).
#
#   scripts/etcd-current.sh OUT [3.6|3.7]
#
# For with-etcd --etcd OUT, or ROTA_TEST_ETCD=OUT in front of any test. Ends with 77 if there is no Go, or its modules
# cannot be had. The first time it takes a minute or two.
set -u
pins=go
case $#:${2-} in
1: | 2:3.6) ;;
2:3.7) pins=etcd-3.7 ;;
*) echo "usage: etcd-current.sh OUT [3.6|3.7]" >&2; exit 64 ;;
esac
mkdir -p "$(dirname "$1")" || exit 1
out=$(realpath -m "$1")
cd "$(dirname "$0")/../tests/interop/etcd/server" || exit 1
[ -z "$(find "$out" -newer "$pins.sum" -newer main.go 2>/dev/null)" ] || exit 0

command -v go >/dev/null || { echo "etcd-current.sh: there is no Go here" >&2; exit 77; }
# Modules come from where Go's settings say. A Go that is too old and may not fetch a newer one fails here, too.
go mod download -modfile="$pins.mod" || { echo "etcd-current.sh: Go's modules cannot be had" >&2; exit 77; }
nice go build -modfile="$pins.mod" -buildvcs=false -trimpath -o "$out" .
