#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make test: the gates, then every test under the sanitizers. The last line is "N passed, N failed".
#
#   scripts/test.sh [gates|asan|tsan|planted]...     only these
set -u
cd "$(dirname "$0")/.." || exit 1
exec 2>&1
unset ROTA_URL ROTA_TRACE ROTA_BUG ROTA_PASSWORD DESTDIR
export LC_ALL=C.UTF-8

passed=0
failed=0
broken=

# Which suites run where. A test says its suites in its meson.build; tests/meson.build explains them.
options_of() # FOLDER: how it is configured
{
    case $1 in
    asan) echo "-Db_sanitize=address,undefined" ;;
    tsan) echo "-Db_sanitize=thread" ;;
    planted) echo "-Dplanted=true" ;;
    esac
}
suites_of() # FOLDER: what runs in it
{
    case $1 in
    asan) echo "--no-suite planted --no-suite plain" ;;
    tsan) echo "--suite threads" ;;
    planted) echo "--suite planted --suite plain" ;;
    esac
}

export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
# Tests fork while threads run, which TSan refuses unless told.
export TSAN_OPTIONS=halt_on_error=1:die_after_fork=0:second_deadlock_stack=1

count_failure() # WHAT
{
    failed=$((failed + 1))
    broken="$broken
  $1"
}

say()
{
    printf '\n==> %s (%d s)\n' "$1" "$(($(date +%s) - started))"
}

gate() # NAME COMMAND...: one case
{
    name=$1
    shift
    if "$@"; then
        printf '  ok    %s\n' "$name"
        passed=$((passed + 1))
    else
        printf '  FAIL  %s\n' "$name"
        count_failure "gate: $name"
    fi
}

build() # FOLDER OPTIONS...: quiet unless it fails
{
    folder=$1
    shift
    mkdir -p "$folder"
    {
        { [ -f "$folder/build.ninja" ] || meson setup "$folder" "$@"; } && ninja -C "$folder"
    } >"$folder/build.log" 2>&1 || { tail -n 40 "$folder/build.log"; return 1; }
}

gates()
{
    say "gates"
    gate "build" make -s
    gate "clang-format" scripts/gate-format.sh
    gate "clang-tidy" scripts/gate-tidy.sh
    gate "core is pure" scripts/gate-core.sh build
    gate "nm -D shows only rota_*" scripts/gate-symbols.sh build
    gate "hardening" scripts/gate-hardening.sh build
    gate "install, pkg-config, the README's example" scripts/gate-install.sh build
    gate "documents say what the program says" scripts/gate-docs.sh build
    gate "Debian packages" scripts/gate-deb.sh
}

# Where the kernel's address randomisation is wider than gcc 12's TSan can bear, it must be off.
without_aslr()
{
    if setarch "$(uname -m)" -R true 2>/dev/null; then
        setarch "$(uname -m)" -R "$@"
    else
        "$@"
    fi
}

tests() # FOLDER
{
    say "tests: $1"
    # shellcheck disable=SC2046 # lists of words
    if ! build "build-$1" -Dtests=enabled -Dwerror=true $(options_of "$1"); then
        count_failure "build-$1 does not build"
        return
    fi
    log=build-$1/meson-logs/testlog.json
    rm -f "$log"
    # shellcheck disable=SC2046
    without_aslr meson test -C "build-$1" --no-rebuild --print-errorlogs --timeout-multiplier 2 \
        $(suites_of "$1")
    status=$?
    grep -a -h "^seeds drawn anew" "build-$1/meson-logs/testlog.txt" # what the simulator ran
    if ! counts=$(scripts/tally.py "$log"); then
        count_failure "build-$1: no test log"
        return
    fi
    passed=$((passed + ${counts% *}))
    failed=$((failed + ${counts#* }))
    [ "${counts#* }" -eq 0 ] || broken="$broken
  build-$1: ${counts#* } failed, see build-$1/meson-logs/testlog.txt"
    if [ "$status" -ne 0 ] && [ "${counts#* }" -eq 0 ]; then
        count_failure "build-$1: meson test ended with $status"
    fi
}

started=$(date +%s)
[ $# -gt 0 ] || set -- gates asan tsan planted
for part in "$@"; do
    case $part in
    gates) gates ;;
    asan | tsan | planted) tests "$part" ;;
    *) echo "test.sh: no such part: $part" >&2; exit 64 ;;
    esac
done

say "all"
[ -z "$broken" ] || printf 'failed:%s\n' "$broken"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
