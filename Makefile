# SPDX-License-Identifier: Apache-2.0
# A thin front to Meson: installs what each target needs, then hands over.
#
#   make            the library and the command, in build/
#   make run        the command alone, in build/, and its demo on the embedded engine
#   make test       decides: every engine, journal, broker and command, in one build, with fixed seeds; minutes. The last line
#                   is "N passed, N failed". One test: scripts/test.py NAME
#   make explore    searches: fresh seeds, sanitizers, planted bugs, every topology, outages; an hour or as long as MINUTES=
#                   says for the seeds; PART="seeds asan tsan planted topologies gates": only these. It writes a report
#   make test-all   both, and a sample of mutants: bugs of one line, which the quick tests must find
#   make mutants    a larger sample (about 25 minutes), with a score per folder; N=50 of each folder (0: all), SEED=x,
#                   FOLDER=core (client, guard, lua, mem, file, kit, net, redis, resp, etcd), JOBS=2
#   make bench      the benches (BENCH=etcd: only those; BENCH=scale: what grows, 25 minutes, only on request)
#   make torture    the fault programme at length, with a report (about 50 minutes; FACTOR=n,
#                   SUITE=redis, etcd, sql, zookeeper, txn or relay: only that; relay is on request only)
#   make interop    other clients of etcd, ZooKeeper and Redis (they need Go, Java, Node, Python) contend with Rota, and current etcds
#                   (about an hour; QUICK=1: a few minutes; ON=etcd, zookeeper, redis, shedlock, sessions or dtm: only those)
#   make install    PREFIX=/usr/local LIBDIR=lib DESTDIR=
#   make uninstall  what the last install put there
#   make deb        Debian packages, in build-deb/
#   make deb-check  ... installed by apt on a bare Debian, in a folder, and tried there
#   make record     the picture in the README, anew
#   make format     lets clang-format rewrite the sources
#   make clean

PREFIX ?= /usr/local
# Where pkg-config and the loader look, under /usr/local as under /usr; Meson's own guess is neither.
LIBDIR ?= lib
MESON_FLAGS ?=
export MESON_FLAGS

.PHONY: all run test explore test-all mutants bench torture interop install uninstall deb deb-check record format clean need-build

all: build/build.ninja
	@ninja -C build

need-build:
	@scripts/need.sh build

build/build.ninja: | need-build
	meson setup build --prefix=$(PREFIX) --libdir=$(LIBDIR) -Dtests=disabled $(MESON_FLAGS)

run: build/build.ninja
	@echo "building rota"
	@ninja -C build rota
	@build/rota demo
	@echo
	@echo "Next, to hold a lock, ask who holds it, and see locks fail and hold:"
	@echo "    build/rota run nightly -- sleep 60"
	@echo "    build/rota why nightly                # in another shell"
	@echo "    build/rota demo traps"

test:
	@scripts/need.sh build test
	@scripts/test.py

explore:
	@scripts/need.sh build test explore
	@scripts/explore.py $(if $(MINUTES),--minutes $(MINUTES)) $(PART)

test-all: test explore
	@nice scripts/mutants.py -n 8 --at-least 60

mutants:
	@scripts/need.sh build test
	@nice scripts/mutants.py $(if $(N),-n $(N)) $(if $(SEED),--seed $(SEED)) $(if $(FOLDER),--folder $(FOLDER)) $(if $(JOBS),--jobs $(JOBS))

bench:
	@scripts/need.sh build test bench
	@scripts/bench.sh $(BENCH)

torture:
	@scripts/need.sh build test
	@scripts/torture.sh $(or $(FACTOR),17) $(SUITE)

interop:
	@scripts/need.sh build test $(if $(ON),$(if $(filter-out dtm,$(ON)),interop),interop)
	@scripts/interop.sh $(if $(QUICK),--quick) $(ON)

install: all
	@meson configure build --prefix=$(PREFIX) --libdir=$(LIBDIR)
	@ninja -C build
	DESTDIR="$(if $(DESTDIR),$(abspath $(DESTDIR)))" meson install -C build --no-rebuild
	@# So that programs find it at once.
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" != 0 ] || ldconfig

uninstall:
	@ninja -C build uninstall

deb:
	@scripts/need.sh build deb
	@scripts/deb.sh

deb-check:
	@scripts/need.sh build deb deb-check
	@scripts/deb-check.sh

record: all
	@scripts/record.sh build/rota docs/demo.svg

format:
	@scripts/need.sh test
	@scripts/sources.sh | xargs clang-format -i

clean:
	rm -rf build build-test build-explore build-asan build-tsan build-planted build-torture build-interop build-deb build-mutants build-engines build-bench
