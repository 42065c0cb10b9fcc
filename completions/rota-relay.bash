# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Bash completion for rota-relay(1) and 'rota relay': options are read from its own --help, so that they cannot fall behind.

_rota_relay()
{
    local cur prev line word cut=
    local -a words program offered=()
    COMPREPLY=()
    read -r -a words <<<"${COMP_LINE:0:COMP_POINT}"
    [[ ${COMP_LINE:0:COMP_POINT} == *[[:space:]] ]] && words+=("")
    cur=${words[-1]} prev=${words[-2]-}
    program=("${words[0]/#\~/$HOME}")
    [[ ${words[1]-} == relay && ${words[0]##*/} == rota ]] && program+=(relay)
    case $prev in
    --from) offered=(postgres:// mysql:// mariadb:// sqlite:) ;;
    --to) offered=(amqp:// amqps:// nats:// natss:// redis:// rediss:// redis+unix:) ;;
    --on-dead) offered=(block skip) ;;
    --until) offered=(published processed) ;;
    --map | --metrics) mapfile -t offered < <(compgen -f -- "$cur") ;;
    *)
        while IFS= read -r line; do
            [[ $line =~ ^\ +(-.*)$ ]] || continue
            for word in ${BASH_REMATCH[1]%%  *}; do
                [[ $word == -* ]] && offered+=("${word%,}")
            done
        done < <("${program[@]}" --help 2>/dev/null </dev/null)
        ;;
    esac
    [[ $COMP_WORDBREAKS == *:* && $cur == *:* ]] && cut=${cur%"${cur##*:}"}
    for word in "${offered[@]}"; do
        [[ $word == "$cur"* ]] && COMPREPLY+=("${word#"$cut"}")
    done
    return 0
}

complete -F _rota_relay rota-relay
