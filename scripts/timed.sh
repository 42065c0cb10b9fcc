#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a test for scripts/test.py, and says at its end what CPU it took: this shell, then what it waited for.
#
#   scripts/timed.sh COMMAND...
"$@"
status=$?
times
exit $status
