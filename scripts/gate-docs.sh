#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fails unless the documents are well formed and say what the program says: man pages, README in both languages.
#
#   scripts/gate-docs.sh BUILD-FOLDER
set -u
cd "$(dirname "$0")/.." || exit 1
build=$1
rota=$1/rota
bad=0
complain() { echo "$*"; bad=1; }

differ() # WHAT HERE THERE: lists of words, one a line, that must be the same
{
    local only
    only=$(comm -3 <(sort -u <<<"$2") <(sort -u <<<"$3"))
    [ -z "$only" ] || complain "$1:"$'\n'"$only"
}

# ---- Form. Which pages this machine has installed is none of their business.
lint=$(mandoc -T lint -W style docs/man/*.[137] 2>/dev/null | grep -v 'referenced manual not found')
[ -z "$lint" ] || complain "$lint"

# ---- rota(1) and rota-txn(1) have the commands, and for each the long options, that the programs show; every --json has its
# shape on the page.
section() # PROGRAM COMMAND: its part of the page
{
    awk -v title=".Ss $1 $2" '/^\.S[hs] /{ on = $0 == title } on' "docs/man/$1.1"
}
page() # PROGRAM SOURCES EVERYWHERE TITLE: EVERYWHERE: options that each command has; TITLE: as docs/json.md calls it
{
    local program=$1 commands command listed written option
    commands=$("$build/$program" --help | sed -n 's/^  \([a-z][a-z-]*\)  \+[a-z].*/\1/p')
    [ -n "$commands" ] || complain "no list of commands in $program --help"
    differ "commands in $program --help only, or (indented) in $program.1 only" "$commands" \
        "$(sed -n "s/^\\.Ss $program \\([a-z-]*\\).*/\\1/p" "docs/man/$program.1")"
    for command in $commands; do
        [[ "$program $command" != "rota "@(txn|relay) ]] || continue # programs of their own
        listed=$("$build/$program" "$command" --help | grep -E '^ +-' | sed 's/\([^ ]\)   *[^ -].*/\1/' | grep -oE -- '--[a-z-]+')
        written=$(section "$program" "$command" | grep -oE 'Fl -[a-z][a-z-]+' | sed 's/^Fl /-/' | sort -u)
        for option in $listed; do
            [[ " $3 " = *" $option "* ]] || grep -qxF -e "$option" <<<"$written" ||
                complain "$program.1: '$program $command' has $option, its section has not"
        done
        # What is written but not in the help, which has a screen only, is at least an option.
        for option in $written; do
            grep -qrE "\\{\"${option#--}\",|\"$option\"" "$2" || complain "$program.1: '$program $command' has $option, the program has not"
        done
        ! "$build/$program" "$command" --help | grep -q -- '^ *--json' || grep -q "^## $4 $command\b" docs/json.md ||
            complain "docs/json.md does not have '$4 $command'"
    done
}
page rota src/cli "--on --system" rota
page rota-txn src/txn/cli "--journal --resources" "rota txn"
# rota-relay itself, and its one command: the options of their help are in the page.
relay() # TITLE PART WORD...: PART is that of the page
{
    local title=$1 part=$2
    shift 2
    differ "options in $title --help only, or (indented) in rota-relay.1 only" \
        "$("$build/rota-relay" "$@" --help | grep -E '^ +-' | grep -oE -- '--[a-z-]+' | grep -vxE -e '--(help|version)' | sort -u)" \
        "$(grep -oE '^\.It Fl -[a-z-]+' <<<"$part" | sed 's/^\.It Fl /-/' | sort -u)"
}
relay "rota relay" "$(sed '/^\.Ss rota relay consume/,$d' docs/man/rota-relay.1)"
relay "rota relay consume" "$(sed -n '/^\.Ss rota relay consume/,$p' docs/man/rota-relay.1)" consume
for name in $(grep -ohE '"rota_consume_[a-z_]+"' src/txn/relay/cli/consume.c | tr -d '"' | sort -u); do
    grep -qE "^\.Li $name\b" docs/man/rota-relay.1 || complain "rota-relay.1 does not explain the metric $name"
done

# ---- Exit codes: those of the source are in the page.
for code in $(sed -n '/^enum rt_exit/,/^}/s/.*= \([0-9]*\),.*/\1/p' src/cli/cli.h); do
    grep -qE "^\.It (Li )?$code\b" docs/man/rota.1 || complain "rota.1 does not explain exit code $code"
done

grep -oE '\bRT_EXIT_[A-Z]+' -rh src/txn/cli | sort -u | while read -r name; do
    code=$(sed -n "s/^ *$name = \([0-9]*\),.*/\1/p" src/cli/cli.h)
    grep -qE "^\.It $code\b" docs/man/rota-txn.1 || { echo "rota-txn.1 does not explain exit code $code"; exit 1; }
done || bad=1
for name in $(grep -oE '"rota_txn_[a-z_]+"' src/txn/cli/recover.c | tr -d '"' | sort -u); do
    grep -qE "^\.It Li $name\b" docs/man/rota-txn.1 || complain "rota-txn.1 does not explain the metric $name"
done

# ---- Every metric is explained. (The command says its own on the embedded engine, in a folder of its own.)
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
metrics=$("$rota" --on "file:$room/rota" run m -- "$rota" --on "file:$room/rota" metrics --lines |
    sed -n 's/^# TYPE \([a-z_]*\) .*/\1/p')
[ -n "$metrics" ] || complain "rota metrics shows nothing"
differ "metrics of rota metrics --lines only, or (indented) in rota.1 only" "$metrics" \
    "$(sed -n '/^\.Sh METRICS/,/^\.Sh ENV/p' docs/man/rota.1 | grep -oE '^\.It .*' | grep -oE 'rota_[a-z_]+')"

# ---- librota(3) names every function of rota.h and rota_guard.h (what those use themselves is named _impl_), and every error;
# librota_txn(3) those of rota_txn.h.
named() # PAGE HEADER...
{
    local page=$1 name
    shift
    for name in $(cat "$@" | sed 's,/\*.*,,; s,^ \*.*,,' | grep -oE '\brota_[a-z_]+\(' | tr -d '(' | grep -v _impl_ | sort -u); do
        grep -qE "\b$name\b" "docs/man/$page.3" || complain "$page.3 does not name $name"
    done
}
named librota include/rota.h include/rota_guard.h
named librota_txn include/rota_txn.h
for name in $(sed -n 's/^ *X(\([A-Z]*\), -.*/ROTA_\1/p' include/rota.h); do
    grep -q "^\.It Dv $name$" docs/man/librota.3 || complain "librota.3 has no error $name"
done

# ---- The README in Chinese has the same code but for comments, and the same links (to the Chinese page where there is one). Both
# are short.
blocks() # FILE: its code, without comments, blank lines and alignment
{
    awk '/^```/ { on = !on; print; next } on' "$1" |
        sed -E 's,/\*.*\*/,,; s,(^|[ \t])#[^!].*$,,; s,[ \t]+, ,g; s, $,,; /^$/d'
}
diff <(blocks README.md) <(blocks README.zh.md) || complain "the code in README.md and README.zh.md differs"
links() # FILE
{
    grep -oE '\]\([^)]*\)' "$1" | sed -E 's/^\]\((.*)\)$/\1/; s/^README(\.zh)?\.md$/README/; s/\.zh\.md$/.md/; /^#/d; /notes\.md$/d' | sort -u
}
differ "links in README.md only, or (indented) in README.zh.md only" "$(links README.md)" "$(links README.zh.md)"
[ "$(wc -w <README.md)" -le 1600 ] || complain "README.md has $(wc -w <README.md) words: 1,600 at most"
han=$(LC_ALL=C.UTF-8 grep -oP '\p{Han}' README.zh.md | wc -l)
[ "$han" -le 2300 ] || complain "README.zh.md has $han Chinese characters: 2,300 at most"
for link in $(grep -oE '\]\([^)]+\.md\)' README.zh.md | sed -E 's/^\]\((.*)\)$/\1/' | grep -v '\.zh\.md$'); do
    [ "$link" = README.md ] || [ ! -e "${link%.md}.zh.md" ] || complain "README.zh.md links $link: there is ${link%.md}.zh.md"
done

# ---- The ACL line of Redis' page is the one that the tests run with, and allows what the scripts call.
rights() { grep -oE '[+][a-z]+([|][a-z]+)?'; }
acl=$(grep '^ACL SETUSER' docs/engines/redis.md | rights)
differ "rights in docs/engines/redis.md only, or (indented) in tests/lib/redis_server.h only" "$acl" \
    "$(sed -n '/^#define RT_REDIS_RULES/,/[^\\]$/p' tests/lib/redis_server.h | rights)"
called=$(find src/engine/redis/lua -name '*.lua' ! -name '*_test.lua' -exec grep -hoE "call\('[A-Z]+'" {} + |
    sed "s/.*'\(.*\)'/+\L\1/" | sort -u)
[ -n "$called" ] || complain "no calls in the scripts of Redis"
for command in $called; do
    grep -qxF -e "$command" <<<"$acl" || complain "docs/engines/redis.md: the ACL line lacks $command, which the scripts call"
done

# ---- What the documents point at is there.
for file in README.md README.zh.md SECURITY.md CONTRIBUTING.md docs/*.md docs/*/*.md; do # every link to a file
    for link in $(grep -oE '\]\([^)#]+' "$file" | cut -c3- | grep -v '^[a-z]*:'); do
        [ -e "$(dirname "$file")/$link" ] || complain "$file: there is no $link"
    done
done
exit "$bad"
