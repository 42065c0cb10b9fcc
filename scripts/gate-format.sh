#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fails unless clang-format would leave every C file as it is; `make format` mends it.
set -eu
cd "$(dirname "$0")/.."
found=$(scripts/sources.sh | xargs clang-format --dry-run -Werror 2>&1) || {
    printf '%s\n' "$found" | grep -o '^[^ :]*:[0-9]*' | sort -u | head -n 40
    echo "mend with: make format"
    exit 1
}
