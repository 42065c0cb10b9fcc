# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Bash completion for rota-txn(1), for 'rota txn', and for its demos, 'rota demo order': commands, options, journals, and the
# ids of transactions. Commands and options are read from its own --help, so that they cannot fall behind.

# The options of a command, and in valued those that take a value.
_rota_txn_options() # PROGRAM [COMMAND [DEMO]]
{
    local line word names
    opts=" " valued=" "
    while IFS= read -r line; do
        [[ $line =~ ^\ +(-.*)$ ]] || continue
        names=
        for word in ${BASH_REMATCH[1]%%  *}; do
            if [[ $word == -* ]]; then
                names+="${word%,} "
                opts+="${word%,} "
            else
                valued+=$names names=
            fi
        done
    done < <("$@" --help 2>/dev/null </dev/null)
}

# The words WORDS (one a line, from stdin) that go on from $cur.
_rota_txn_reply()
{
    local word cut=
    [[ $COMP_WORDBREAKS == *:* && $cur == *:* ]] && cut=${cur%"${cur##*:}"}
    while IFS= read -r word; do
        [[ $word == "$cur"* ]] && COMPREPLY+=("${word#"$cut"}")
    done
}

_rota_txn() # [FROM]: the place of the word that is the program; "rota txn" are two
{
    local cur prev i command= demo= opts valued
    local -a words program journal=()
    COMPREPLY=()
    read -r -a words <<<"${COMP_LINE:0:COMP_POINT}"
    [[ ${COMP_LINE:0:COMP_POINT} == *[[:space:]] ]] && words+=("")
    cur=${words[-1]} prev=${words[-2]-}
    program=("${words[0]/#\~/$HOME}")
    i=1
    [[ ${words[1]-} == txn && ${words[0]##*/} == rota ]] && program+=(txn) && i=2

    for ((; i < ${#words[@]} - 1; i++)); do
        case ${words[i]} in
        --journal) journal=(--journal "${words[i + 1]-}"); ((i += 1)) ;;
        --resources) ((i += 1)) ;;
        --from | --map | --state | --topic | --key | --limit | --after) ((i += 1)) ;;
        -*) ;;
        *) if [[ -z $command ]]; then command=${words[i]}; elif [[ $command$demo == @(demo|events) ]]; then demo=${words[i]}; fi ;;
        esac
    done
    if [[ $command == demo ]]; then
        _rota_txn_options "${program[@]}" demo ${demo:+"$demo"}
    else
        _rota_txn_options "${program[@]}" ${command:+"$command"}
    fi
    case $prev in
    --journal)
        _rota_txn_reply < <(printf '%s\n' file: postgres:// mysql:// mariadb:// etcd:// etcds://)
        return 0
        ;;
    --fail)
        _rota_txn_reply < <(printf '%s\n' stock payment coordinator network)
        return 0
        ;;
    --from)
        _rota_txn_reply < <(printf '%s\n' postgres:// mysql:// mariadb:// sqlite:)
        return 0
        ;;
    --state)
        _rota_txn_reply < <(printf '%s\n' new published processed dead)
        return 0
        ;;
    --resources | --map | --metrics | --tls-cert | --tls-key | --token-file)
        compopt -o default 2>/dev/null
        return 0
        ;;
    esac
    [[ $valued == *" $prev "* ]] && return 0
    case $command/$cur in
    */-*) _rota_txn_reply < <(tr ' ' '\n' <<<"$opts" | sed '/^$/d') ;;
    /* | help/*) _rota_txn_reply < <("${program[@]}" --help 2>/dev/null </dev/null |
        sed -n 's/^  \([a-z][a-z-]*\)  \{1,\}[a-z0-9].*/\1/p') ;;
    demo/*) [[ -n $demo ]] || _rota_txn_reply < <(printf '%s\n' bank order) ;;
    events/*) [[ -n $demo ]] || _rota_txn_reply < <(printf '%s\n' ls show replay dead stats) ;;
    show/* | outcome/* | settle/* | resolve/*)
        _rota_txn_reply < <(timeout 1 "${program[@]}" "${journal[@]}" ls --json 2>/dev/null </dev/null |
            sed -n 's/^ *"id": "\([0-9a-f]*\)",*$/\1/p')
        ;;
    esac
    return 0
}

complete -F _rota_txn rota-txn
