#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests of the completion for bash: what a Tab would offer, by calling the function itself.
#
#   completion.sh ROTA SOURCE [CASE]...
# shellcheck disable=SC2317 # the cases are called by name
set -u
. "$(dirname "$0")/lib.sh"
rota=$(realpath "$1") source=$(realpath "$2")
shift 2

# What Tab offers at the end of LINE, sorted, in one line. In a shell of its own, with the rota under test first in its
# PATH; words are cut as readline does, at colons and equals signs too.
offers() # LINE
{
    mkdir -p bin
    ln -sf "$rota" bin/rota
    # shellcheck disable=SC2016 # for the inner shell
    PATH=$PWD/bin:$PATH bash --norc --noprofile -c '
        . "$1" || exit 1
        _rota_limit=30 # sanitizers on a busy machine
        complete -p rota >/dev/null || exit 1
        COMP_LINE=$2 COMP_POINT=${#2} COMP_TYPE=9 COMP_KEY=9
        COMP_WORDS=($(sed "s/[:=]/ & /g" <<<"$2"))
        [[ $2 == *" " ]] && COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _rota
        printf "%s\n" "${COMPREPLY[@]}"' - "$source/completions/rota.bash" "$1" 2>offers.err |
        sort | tr '\n' ' '
    [ ! -s offers.err ] || fail "said on stderr: $(cat offers.err)"
}

test_loads_and_registers()
{
    # shellcheck disable=SC2016
    same "complete -F _rota rota" "$(bash --norc -c '. "$1"; complete -p rota' - "$source/completions/rota.bash")"
}

test_commands()
{
    local listed
    listed=$("$rota" --help | sed -n 's/^  \([a-z][a-z-]*\)  \+[a-z].*/\1/p' | sort | tr '\n' ' ')
    [ -n "$listed" ] || fail "no commands in rota --help"
    same "$listed" "$(offers "rota ")"
    same "show " "$(offers "rota sh")"
    same "show " "$(offers "rota help sh")"
    same "show " "$(offers "rota --on file:x sh")"
    same " " "$(offers "rota xyz")"
}

test_txn()
{
    local listed
    listed=$("$rota" txn --help | sed -n 's/^  \([a-z][a-z-]*\)  \+[a-z].*/\1/p' | sort | tr '\n' ' ')
    [ -n "$listed" ] || fail "no commands in rota txn --help"
    same "$listed" "$(offers "rota txn ")"
    same "serve settle show " "$(offers "rota txn s")"
    same "serve settle " "$(offers "rota txn help se")"
    same "--abort " "$(offers "rota txn resolve --a")"
    same "--journal " "$(offers "rota txn ls --jo")"
    same "postgres:// " "$(offers "rota txn --journal po")"
    same " " "$(offers "rota txn gc --keep ")"
    same "--all --attention " "$(offers "rota txn ls --a")"
    same "bank order " "$(offers "rota txn demo ")"
    same "dead ls replay show stats " "$(offers "rota txn events ")"
    same "show stats " "$(offers "rota txn events --from sqlite:x s")"
    same "--after --again --all " "$(offers "rota txn events ls --a")"
    same "processed published " "$(offers "rota txn events ls --state p")"
    same "sqlite: " "$(offers "rota txn events ls --from sq")"
    same "--fail " "$(offers "rota txn demo order --f")"
    same "--fail " "$(offers "rota demo order --f")"
    same "coordinator network payment stock " "$(offers "rota demo order --fail ")"
    same "--tellers " "$(offers "rota demo bank --te")"
    same " " "$(offers "rota demo order ")"
}

test_traps()
{
    same "bank order outbox traps " "$(offers "rota demo ")"
    same "--orders " "$(offers "rota demo outbox --o")"
    same "setnx " "$(offers "rota demo traps set")"
    same "--buyers " "$(offers "rota demo --b")"
}

test_options()
{
    same "--on " "$(offers "rota --o")"
    same "--take " "$(offers "rota run --ta")"
    same "--fence " "$(offers "rota break --fe")"
    same "--json " "$(offers "rota ls --j")"
    same "--ddl " "$(offers "rota doctor --d")"
    same "--help --json --on --system -h " "$(LC_ALL=C offers "rota why -")" # each once
    [[ " $(offers "rota run -")" == *" --wait "* ]] || fail "$(offers "rota run -")"
}

test_what_to_measure()
{
    same "pair " "$(offers "rota bench pa")"
    same "clients handover held line locks names pair scale takeover threads waiters " "$(offers "rota bench ")"
    same "takeover " "$(offers "rota bench --quick pair ta")"
    same "--quick " "$(offers "rota bench pair --q")"
}

test_names_of_locks()
{
    hold "app:nightly"
    same "app:nightly " "$(offers "rota why a")"
    same "app:nightly " "$(offers "rota run -n a")"
    same "app:nightly " "$(offers "rota run -w 5 ")"
    # Readline takes what stands before the colon for a word of its own.
    same "nightly " "$(offers "rota show app:n")"
    same " " "$(offers "rota show b")"
    same " " "$(offers "rota run -w ")" # the seconds
    let_go
}

test_names_are_quoted()
{
    hold "two words"
    same 'two\ words ' "$(offers "rota show t")"
    let_go
}

test_names_of_the_chosen_engine()
{
    ROTA_URL=file:$PWD/other hold elsewhere
    same " " "$(offers "rota show e")"
    same "elsewhere " "$(offers "rota --on file:$PWD/other show e")"
    same "elsewhere " "$(offers "rota show --on file:$PWD/other e")"
    same "elsewhere " "$(offers "rota run --on=file:$PWD/other -n e")"
    let_go
}

test_quiet_without_an_engine()
{
    touch plain
    same " " "$(ROTA_URL=file:$PWD/plain/x offers "rota show ")"
    same " " "$(ROTA_URL=nosuch://x offers "rota show ")"
}

test_dialects()
{
    same "advisory forupdate row shedlock table version " "$(offers "rota --on postgresql://h/d?dialect=")"
    same "getlock " "$(offers "rota --on mariadb://h/d?a=b&dialect=g")"
    same "redisson redisson-fair redisson-rw " "$(offers "rota run --on redis://h?dialect=redi")"
    same "kazoo " "$(offers "rota --on zk://h?dialect=k")"
    same " " "$(offers "rota --on file:x?dialect=")"
}

test_engines()
{
    mkdir -p .config/rota
    printf '# mine\nprod = file:/p\n  spare=file:/s\n' >.config/rota/config
    unset XDG_CONFIG_HOME
    same "etcd:// etcds:// file: mariadb:// mysql:// postgres:// prod redis+unix: redis:// rediss:// redlock:// redlocks:// spare zk:// zks:// " \
        "$(LC_ALL=C HOME=$PWD offers "rota --on ")"
    same "prod " "$(HOME=$PWD offers "rota --on pr")"
    same "prod " "$(HOME=$PWD offers "rota run -n --on pr")"
    local scheme # each engine's first one is offered
    for scheme in $(sed -n 's/^static const char \*const schemes\[\] = {"\([a-z]*\)".*/\1/p' "$source"/src/engine/*/*.c); do
        [ "$scheme" = mem ] || [[ " $(offers "rota --on ")" == *" $scheme:"* ]] || fail "$scheme: is not offered"
    done
}

test_the_command_behind_the_name()
{
    same "-- " "$(offers "rota run name -")"
    [[ " $(offers "rota run name -- tru")" == *" true "* ]] || fail "no commands behind --"
    touch file-here
    same "file-here " "$(offers "rota run name -- cat file-")"
}

run_cases "$@"
