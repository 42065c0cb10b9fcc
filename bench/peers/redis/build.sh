#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds redsync-peer, redlock-peer and redisson-peer: build.sh OUTPUT...; what cannot be built is a program that only fails.
set -eu
root=$(cd "$(dirname "$0")/../../.." && pwd)
for output in "$@"; do
    client=$(basename "$output" -peer)
    folder=$(realpath "$(dirname "$output")")/redis-peers
    if "$root/scripts/redis-peers.sh" "$folder" "$client"; then
        printf '#!/bin/sh\nexec %s/%s-side peer "$@"\n' "$folder" "$client" >"$output"
    else
        echo "$client cannot be had: the benches skip it" >&2
        printf '#!/bin/sh\nexit 77\n' >"$output"
    fi
    chmod +x "$output"
done
