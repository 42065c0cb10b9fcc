#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds a current etcd from its published Go module (tests/interop/etcd/server/go.mod pins it) as OUT.
#
#   scripts/etcd-current.sh OUT
#
# For with-etcd --etcd OUT, or ROTA_TEST_ETCD=OUT in front of any test. Ends with 77 if there is no Go, or its modules
# cannot be had. The first time it takes a minute or two.
set -u
[ $# -eq 1 ] || { echo "usage: etcd-current.sh OUT" >&2; exit 64; }
mkdir -p "$(dirname "$1")" || exit 1
out=$(realpath -m "$1")
cd "$(dirname "$0")/../tests/interop/etcd/server" || exit 1
[ -z "$(find "$out" -newer go.sum -newer main.go 2>/dev/null)" ] || exit 0

command -v go >/dev/null || { echo "etcd-current.sh: there is no Go here" >&2; exit 77; }
# Modules come from where Go's settings say. A Go that is too old and may not fetch a newer one fails here, too.
go mod download || { echo "etcd-current.sh: Go's modules cannot be had" >&2; exit 77; }
nice go build -buildvcs=false -trimpath -o "$out" .
