#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds seata-peer and dtm-peer: build.sh SEATA-PEER DTM-PEER. What they need comes from where Maven's and Go's settings
# say, once; what cannot be built is a program that only fails.
set -eu
mkdir -p "$1.parts"
seata=$(realpath "$1")
dtm=$(realpath "$2")
parts=$(realpath "$1.parts")
cd "$(dirname "$0")"

fails() # PROGRAM WHY
{
    echo "$(basename "$1"): $2: the benches skip it" >&2
    printf '#!/bin/sh\nexit 77\n' >"$1"
}

jars() # client|server
{
    cmp -s "seata/$1.xml" "$parts/$1.xml" && return
    mvn -q -B -f "seata/$1.xml" dependency:copy-dependencies -DoutputDirectory="$parts/$1" || return
    cp "seata/$1.xml" "$parts/$1.xml"
}

if command -v mvn >/dev/null && command -v javac >/dev/null && jars client && jars server &&
    javac -d "$parts/classes" -cp "$parts/client/*:$parts/server/*" seata/*.java; then
    cp seata/*.conf "$parts/classes"
    cat >"$seata" <<END
#!/bin/sh
exec java -Xmx256m -XX:-UsePerfData --add-opens=java.base/java.lang=ALL-UNNAMED \\
    -Drota.server='$parts/classes:$parts/server/*' -cp '$parts/classes:$parts/client/*' SeataPeer "\$@"
END
else
    fails "$seata" "there is no Java, no Maven, or no Seata"
fi
sqls() # DTM's own statements, for its tables
{
    mkdir -p "$dtm.parts/sqls"
    install -m 644 "$(go list -m -f '{{.Dir}}' github.com/dtm-labs/dtm)"/sqls/dtmsvr.storage.*.sql "$dtm.parts/sqls"
}

rm -f "$dtm" # one that only fails is no object file, which go would not overwrite
if ! { command -v go >/dev/null && cd dtm && go build -buildvcs=false -o "$dtm" . && sqls; }; then
    fails "$dtm" "there is no Go (1.23 or later), or not its modules"
fi
chmod +x "$seata" "$dtm"
