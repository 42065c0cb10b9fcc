# SPDX-License-Identifier: Apache-2.0
# A thin front to Meson: installs what each target needs, then hands over.
#
#   make            the library and the command, in build/
#   make run        ... and the demo on the embedded engine
#   make test       everything that must hold; ends with "N passed, N failed"
#   make bench      the benches
#   make install    PREFIX=/usr/local DESTDIR=
#   make format     lets clang-format rewrite the sources
#   make clean

PREFIX ?= /usr/local
MESON_FLAGS ?=

.PHONY: all run test bench install format clean need-build

all: build/build.ninja
	@ninja -C build

need-build:
	@scripts/need.sh build

build/build.ninja: | need-build
	meson setup build --prefix=$(PREFIX) -Dtests=disabled $(MESON_FLAGS)

run: all
	build/rota demo

test:
	@scripts/need.sh build test
	@scripts/test.sh

bench: need-build
	@scripts/bench.sh

install: all
	DESTDIR="$(DESTDIR)" meson install -C build --no-rebuild

format:
	@scripts/need.sh test
	@scripts/sources.sh | xargs clang-format -i

clean:
	rm -rf build build-asan build-tsan build-planted
