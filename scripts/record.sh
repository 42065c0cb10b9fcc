#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# make record: runs real commands in a tmux of its own and draws what was on the screen as an SVG.
#
#   scripts/record.sh ROTA OUT.svg
#
# Whoever reads it sees keys being typed in two terminals; nothing in the picture is written by hand. Host and process ids
# are those of the recording; a run waits for what it expects on the screen and never by time.
set -eu
rota=$(realpath "$1") out=$(realpath -m "$2")
here=$(cd "$(dirname "$0")" && pwd)
command -v tmux >/dev/null || { echo "record: needs tmux: apt-get install tmux" >&2; exit 69; }

room=$(mktemp -d)
socket=$room/tmux
t() { tmux -S "$socket" -f "$room/conf" "$@"; }
trap 't kill-server 2>/dev/null || true; rm -rf "$room"' EXIT
mkdir "$room/bin" "$room/home"
ln -s "$rota" "$room/bin/rota"
cat >"$room/rc" <<'RC'
PS1='\[\e[32m\]$\[\e[0m\] '
unset HISTFILE
bind 'set enable-bracketed-paste off'
RC
# Before the shells start: a change of size would make them draw their line anew, in the middle of it.
echo 'set -g status off' >"$room/conf"
# shellcheck disable=SC2016 # for that shell
printf '#!/bin/sh\necho "backing up, fence $ROTA_FENCE"\nread -r _ </dev/tty\n' >"$room/bin/backup.sh"
chmod +x "$room/bin/backup.sh"

unset ROTA_URL TMUX
# Two terminals of their own, one above the other in the picture.
for pane in 0 1; do
    t new-session -d -s "p$pane" -x 88 -y 14 "exec env -i HOME='$room/home' PATH='$room/bin:$PATH' \
        TERM=screen-256color LC_ALL=C.UTF-8 bash --rcfile '$room/rc' --noprofile"
done
active=0

frames=0
snap() # SECONDS to show it
{
    local pane
    frames=$((frames + 1))
    printf '%s\n' "$1" >"$room/frame$frames.time"
    for pane in 0 1; do
        t capture-pane -e -p -t "p$pane" >"$room/frame$frames.$pane"
        t display-message -p -t "p$pane" "#{cursor_x} #{cursor_y} $((pane == active))" \
            >"$room/frame$frames.$pane.cursor"
    done
}
await() # PANE TEXT: until it is on the screen
{
    local tries=0
    until t capture-pane -p -t "p$1" | grep -qF -- "$2"; do
        tries=$((tries + 1))
        [ "$tries" -lt 500 ] || { echo "record: '$2' did not come:" >&2; t capture-pane -p -t "p$1" >&2; exit 1; }
        read -r -t 0.02 _ <>"$room/never" || true
    done
}
mkfifo "$room/never"
type_in() # PANE TEXT: word by word, with a frame for each few letters
{
    local pane=$1 text=$2 at so_far
    active=$pane
    for ((at = 0; at < ${#text}; at += 4)); do
        t send-keys -t "p$pane" -l -- "${text:at:4}"
        so_far=${text:0:at + 4}
        await "$pane" "${so_far%"${so_far##*[! ]}"}" # tmux leaves out spaces at the end
        snap 0.12
    done
}
enter() { active=$1; t send-keys -t "p$1" Enter; }
prompts() { t capture-pane -p -t "p$1" | grep -c '^\$' || true; }
prompt() # PANE COUNT: until so many prompts are on the screen
{
    local tries=0
    until [ "$(prompts "$1")" -ge "$2" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 500 ] || { echo "record: no prompt $2" >&2; t capture-pane -p -t "p$1" >&2; exit 1; }
        read -r -t 0.02 _ <>"$room/never" || true
    done
}

. "$here/record-scene.sh"

"$here/record-svg.py" "$room" "$frames" >"$room/out.svg"
mv "$room/out.svg" "$out"
echo "$out: $frames frames, $(wc -c <"$out") bytes"
