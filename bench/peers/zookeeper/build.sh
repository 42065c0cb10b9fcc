#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds OUT/curator-peer and OUT/kazoo-peer, of Debian's packages; what cannot be built is a program that only fails.
set -eu
curator=$(realpath "$1")
kazoo=$(realpath "$2")
here=$(cd "$(dirname "$0")" && pwd)
jars=/usr/share/java
classes=$curator.classes
for jar in curator-recipes curator-framework curator-client zookeeper zookeeper-jute guava slf4j-api slf4j-nop; do
    classes=$classes:$jars/$jar.jar
done
fails() # PROGRAM WHY
{
    echo "$(basename "$1"): $2: the benches skip it" >&2
    printf '#!/bin/sh\nexit 77\n' >"$1"
}
if command -v javac >/dev/null && [ -f $jars/curator-recipes.jar ] &&
    javac -d "$curator.classes" -cp "$classes" "$here/CuratorPeer.java"; then
    printf '#!/bin/sh\nexec java -Xmx128m -XX:+UseSerialGC -XX:-UsePerfData -cp %s CuratorPeer "$@"\n' "$classes" >"$curator"
else
    fails "$curator" "there is no Java, or no Curator"
fi
if /usr/bin/python3 -c 'import kazoo'; then
    printf '#!/bin/sh\nexec /usr/bin/python3 -B %s/kazoo_peer.py "$@"\n' "$here" >"$kazoo"
else
    fails "$kazoo" "there is no kazoo"
fi
chmod +x "$curator" "$kazoo"
