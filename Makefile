# mltune: one Makefile, no recursion between folders.
#
#   make [V=release|debug|asan|tsan|cov|fuzz]   builds into build/$(V)/
#   make help                                   lists the targets
#
# A module is a folder: the *.c files of its rooms go into one internal archive; the program,
# the shared library and the tests link what they use of it.

V ?= release
# `make bench B=name`: the B of the command line names a benchmark; everywhere
# else it is the build folder.
ifeq ($(origin B),command line)
BENCH := $(B)
endif
override B := build/$(V)
VERSION := 0.1.0

MODULES := base branches ps searchers tuner api cli apps
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
UNITDIR ?= $(PREFIX)/lib/systemd/system
ZSHDIR ?= site-functions
DESTDIR ?=
# Debian's own interpreter has numpy and zmq; a pyenv in PATH does not.
PYTHON ?= $(firstword $(wildcard /usr/bin/python3) python3)
ifneq ($(VERBOSE),1)
Q := @
say = @printf '  %-6s %s\n' $(1) $(2)
endif

CC := $(if $(filter fuzz,$(V)),clang,gcc)
CXX := $(if $(filter fuzz,$(V)),clang++,g++)
PACKAGES := libmicrohttpd gnutls jansson libzmq sqlite3 zlib liblzma

# Flags that the code needs to compile at all stay out of CFLAGS, so that a user's
# CFLAGS never drop the include path or the sanitizers.
WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion \
	-Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef -Wno-psabi -Wno-format-zero-length -Werror
# assert(!"what cannot be") is a conversion that only clang minds.
CLANG_WARNINGS := -Wno-string-conversion
BASE_FLAGS := -std=gnu11 -I. -Iinclude -D_GNU_SOURCE \
	-DMLT_VERSION='"$(VERSION)"' -fPIC -fvisibility=hidden -fno-math-errno \
	-pthread
HARDENED := -fstack-protector-strong -D_FORTIFY_SOURCE=2
# Those that the compiler knows for this machine: a return or an indirect jump goes where the
# program's code says, and no stack frame passes over the guard page.
PROTECTED = $(eval PROTECTED := $(foreach f,-fcf-protection -fstack-clash-protection,\
	$(shell $(CC) -Werror $(f) -x c -c /dev/null -o /dev/null 2>/dev/null && echo $(f))))$(PROTECTED)

# Lines are enough for what a sanitizer tells, and compile in a sixth less time;
# `make V=asan CFLAGS=-g` is for a debugger.
CFLAGS ?= $(if $(filter asan tsan,$(V)),-g1,-g)
CFLAGS_release = -O3 -fno-semantic-interposition $(HARDENED) $(PROTECTED)
CFLAGS_debug := -O0 -DMLT_DEBUG
CFLAGS_asan := -O1 -DMLT_DEBUG -fsanitize=address,undefined \
	-fno-sanitize-recover=all -fno-omit-frame-pointer
CFLAGS_tsan := -O1 -DMLT_DEBUG -fsanitize=thread -fno-omit-frame-pointer
CFLAGS_cov := -O0 -DMLT_DEBUG --coverage
CFLAGS_fuzz := -O1 -DMLT_DEBUG -fsanitize=fuzzer-no-link,address,undefined \
	-fno-sanitize-recover=all $(CLANG_WARNINGS)
LDFLAGS_release := -Wl,-z,relro,-z,now
# Two hundred tests are linked in each: gold, part of binutils, takes half as long.
LINKER := $(if $(shell command -v ld.gold),-fuse-ld=gold)
LDFLAGS_asan := -fsanitize=address,undefined $(LINKER)
LDFLAGS_tsan := -fsanitize=thread $(LINKER)
LDFLAGS_cov := --coverage
LDFLAGS_fuzz := -fsanitize=address,undefined
ifeq ($(filter $(V),release debug asan tsan cov fuzz),)
$(error V=$(V) is none of release debug asan tsan cov fuzz)
endif

# Asked once, and only where something is compiled: `make help`, `clean` and
# `deps` work on a machine that has no package yet.
PKG_CFLAGS = $(eval PKG_CFLAGS := $(shell pkg-config --cflags $(PACKAGES)))$(PKG_CFLAGS)
PKG_LIBS = $(eval PKG_LIBS := $(shell pkg-config --libs $(PACKAGES)))$(PKG_LIBS)
COMPILE_FLAGS = $(BASE_FLAGS) $(WARNINGS) $(CFLAGS_$(V)) $(CFLAGS) $(PKG_CFLAGS)
LINK_FLAGS = $(LDFLAGS_$(V)) $(LDFLAGS)
# GSL's linear algebra on OpenBLAS, not on its own ten times slower cblas.
LIBS = $(PKG_LIBS) -lgsl -lopenblas -lnlopt -lm -ldl -pthread

# Sources in a folder or in one of its rooms; apps/direct, apps/examples and
# apps/plugins are programs of their own.
SRCS := $(filter-out apps/direct/% apps/examples/% apps/plugins/%,\
	$(foreach m,$(MODULES),$(wildcard $(m)/*.c $(m)/*/*.c)))
MAIN := cli/main.c
MAIN_OBJ := $(MAIN:%.c=$(B)/obj/%.o)
LIB_OBJS := $(filter-out $(MAIN_OBJ),$(SRCS:%.c=$(B)/obj/%.o))
ARCHIVE := $(B)/libmltune-internal.a

.PHONY: all
all: program
.PHONY: program
program: $(if $(wildcard $(MAIN)),$(B)/mltune)

# A stamp that changes when the flags do, so that objects are rebuilt.
$(B)/flags: FORCE
	@mkdir -p $(B)
	@echo '$(CC) $(COMPILE_FLAGS) $(LINK_FLAGS)' | cmp -s - $@ || \
		echo '$(CC) $(COMPILE_FLAGS) $(LINK_FLAGS)' > $@
.PHONY: FORCE
FORCE:

$(B)/obj/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(COMPILE_FLAGS) $(REPLAY_FLAGS) -MMD -MP -c $< -o $@
ifeq ($(V),fuzz)
# Loops over numbers, unrolled, which see no outside bytes: sanitized, they take
# clang a gigabyte and minutes.
$(B)/obj/apps/%_kernel.o: CFLAGS_fuzz := -O1 -DMLT_DEBUG
# What compares bytes one by one for everybody, and tells a fuzzer nothing by it:
# of fuzz_config's time, a quarter was this. Edges stay counted.
$(patsubst %,$(B)/obj/base/%.o,mem text json/json json/json_place): \
	CFLAGS_fuzz += -fno-sanitize-coverage=trace-cmp
# Of a configuration, which is text: no bytes of the numbers that are compared stand in it.
$(patsubst %.c,$(B)/obj/%.o,$(filter-out base/json/json.c base/json/json_place.c, \
	$(wildcard base/json/*.c cli/config/*.c searchers/space/*.c))): \
	CFLAGS_fuzz += -fno-sanitize-coverage=trace-cmp
# The same of a request, byte by byte, and of the target's own checks, which no input is to pass.
$(patsubst %,$(B)/obj/%.o,base/crc32c tests/fuzz/fuzz_http tests/fuzz/fuzz_config \
	$(addprefix api/http/,request response route guard)): \
	CFLAGS_fuzz += -fno-sanitize-coverage=trace-cmp
# What it does is no news.
$(B)/obj/tests/fuzz/pool.o: CFLAGS_fuzz := -O2 -fsanitize=address
endif

# Another that changes with the list of objects: one that is gone must leave the
# archive too.
$(B)/objects: FORCE
	@mkdir -p $(B)
	@echo '$(LIB_OBJS)' | cmp -s - $@ || echo '$(LIB_OBJS)' > $@

$(ARCHIVE): $(LIB_OBJS) $(B)/objects
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $(LIB_OBJS)

$(B)/mltune: $(MAIN_OBJ) $(ARCHIVE)
	$(call say,LD,$@)
	$(Q)$(CC) $(LINK_FLAGS) -rdynamic $^ $(LIBS) -o $@

# Each part's own rules: programs that drive the parameter server, benchmarks.
-include api/api.mk
-include cli/cli.mk
-include ps/space/cuda/cuda.mk
-include apps/direct/direct.mk
-include apps/examples/examples.mk
-include apps/plugins/plugins.mk
-include tests/bench/bench.mk
-include tests/cuda/cuda.mk

# ---- tests -------------------------------------------------------------------

# The simulations first: they take longest, and tests/run runs several at once.
# They have one thread, so tsan has nothing to find in them, nor in the tests of
# pure rooms without a shell: those of rooms with threads run the same code.
TEST_SRCS := $(wildcard tests/sim/test_*.c tests/fuzz/test_*.c) $(wildcard tests/unit/*/test_*.c tests/unit/*/*/test_*.c)
TESTS := $(TEST_SRCS:%.c=$(B)/%)
ifeq ($(V),tsan)
ONE_THREAD := $(foreach d,$(sort $(dir $(wildcard $(addsuffix /*.c,\
	ps/rows ps/nodes searchers searchers/* tuner/*)))),\
	$(if $(wildcard $(d)*_io.c),,$(d)))
TESTS := $(filter-out $(B)/tests/sim/% \
	$(foreach d,$(ONE_THREAD),$(patsubst %.c,$(B)/%,$(wildcard tests/unit/$(d)test_*.c))),$(TESTS))
endif
TEST_HELPER_SRCS := $(wildcard tests/unit/fixture/*.c)
TEST_HELPER_OBJS := $(TEST_HELPER_SRCS:%.c=$(B)/obj/%.o)
# The simulator drives the real tuner; tests with a scripted one must not get
# it, so it is linked only where it is used.
SIM_SRCS := $(filter-out $(TEST_SRCS),$(wildcard tests/sim/*.c))
SIM_ARCHIVE := $(B)/libsim.a

$(SIM_ARCHIVE): $(SIM_SRCS:%.c=$(B)/obj/%.o)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

$(TEST_SRCS:%.c=$(B)/%): $(B)/%: $(B)/obj/%.o $(TEST_HELPER_OBJS) $(SIM_ARCHIVE) $(ARCHIVE)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LINK_FLAGS) -rdynamic $(filter-out %.a,$^) $(filter %.a,$^) $(LIBS) -lcmocka -o $@

# Every fuzz target in one program that gives each its committed inputs: found by
# name there, so the names stay visible.
ifneq ($(V),fuzz)
FUZZ_OBJS := $(patsubst %.c,$(B)/obj/%.o,$(wildcard tests/fuzz/fuzz_*.c))
$(FUZZ_OBJS): REPLAY_FLAGS = -DFUZZ_REPLAY \
	-DLLVMFuzzerTestOneInput=replay_$(basename $(notdir $@)) -fvisibility=default
$(B)/tests/fuzz/test_corpora: $(FUZZ_OBJS)
endif

# Simulated runs on simulated disks, SEEDS of them from number FIRST on; with
# ONLY='*together' those alone that have bad disks, kills and a bad line at once.
.PHONY: sim
sim: $(B)/tests/sim/test_storage
	@SEEDS=$(or $(SEEDS),10000) FIRST=$(or $(FIRST),1) nice -n 19 $<

# The same on a disk and in memory that fail at one call, for every call: JOB=name of
# one job, KIND=memory or a kind of call; STEP=n takes each n-th.
.PHONY: fault-sim
fault-sim: $(B)/tests/sim/test_points
	@POINTS_STEP=$(or $(STEP),1) nice -n 10 $<

# Simulated runs whose messages are lost, refused, late, strange: SEEDS of them from
# number FIRST on.
.PHONY: deadline-sim
deadline-sim: $(B)/tests/sim/test_sim_deadlines
	@SEEDS=$(or $(SEEDS),100000) FIRST=$(or $(FIRST),1) nice -n 10 $<

# T='name ...' selects by parts of names; what matches nothing is an error.
T ?=
SELECTED := $(if $(T),$(foreach t,$(TESTS),\
	$(if $(strip $(foreach w,$(T),$(findstring $(w),$(t)))),$(t))),$(TESTS))
.PHONY: unit
unit: $(SELECTED) $(PLUGINS)
	@test -n "$(strip $(SELECTED))" || { echo "no test matches T=$(T)" >&2; exit 2; }
	@tests/run $(SELECTED)

# All tests compiled, none linked or run.
.PHONY: test-objects
test-objects: $(TESTS:$(B)/%=$(B)/obj/%.o) $(TEST_HELPER_OBJS) $(SIM_SRCS:%.c=$(B)/obj/%.o) $(LIB_OBJS)

# Simulated clusters, SEEDS of them from number FIRST on.
.PHONY: cluster-sim
cluster-sim: $(B)/tests/sim/test_cluster
	@SEEDS=$(or $(SEEDS),10000) FIRST=$(or $(FIRST),1) $<

# Where deploy/install-deps.sh puts a Node.js for tests, if the machine's is too old for them. Debian's
# npm finds its parts with Debian's node alone.
NODE_OF_TESTS := $(CURDIR)/tests/node/node_modules/.bin
export PATH := $(NODE_OF_TESTS):$(subst $(NODE_OF_TESTS):,,$(PATH))

# Packages of node for tests of the page: tests/browser/package-lock.json says what.
NODE_MODULES := tests/browser/node_modules/.package-lock.json
$(NODE_MODULES): tests/browser/package.json tests/browser/package-lock.json
	$(call say,NPM,$(@D))
	$(Q)PATH="$(subst $(NODE_OF_TESTS):,,$(PATH))" npm ci --prefix tests/browser --ignore-scripts --loglevel=error && touch $@

# Lets calls fail, in whatever build it is loaded: no sanitizer, no flags of one.
FAULT_SHIM := $(B)/tests/faults/shim.so
$(FAULT_SHIM): tests/faults/shim.c
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -std=gnu11 -O1 -g -Wall -Wextra -Werror -fPIC -shared -o $@ $< -ldl

# What tests/process/test_deb.py installs, and where; of release builds.
BARE_DEBIAN := build/bare-debian.tar
$(BARE_DEBIAN): tests/process/fixtures/bare_debian.sh | deb
	$(call say,DEB,$@)
	$(Q)$< $@ build/deb/*.deb
PACKAGED := $(if $(filter release,$(V)),$(if $(or $(findstring test_deb,$(T)),$(if $(T),,all)),deb $(BARE_DEBIAN)))

# One more at a time than there are cores: half of their time they wait.
.PHONY: process
process: all $(NODE_MODULES) $(FAULT_SHIM) $(PACKAGED)
	@MLTUNE_BUILD=$(CURDIR)/$(B) PYTHON=$(PYTHON) MLTUNE_JOBS=$(shell expr $(JOBS) + 1) \
		tests/process/run $(T)

# Each view and dialog of the page at three widths, light and dark, of runs that are
# made for it.
SCREENSHOTS ?= $(CURDIR)/build/screenshots
.PHONY: screenshots
screenshots:
	@mkdir -p $(SCREENSHOTS)
	@MLTUNE_SHOTS=$(SCREENSHOTS) MLTUNE_TEST_SECONDS=1800 $(MAKE) --no-print-directory process T=test_views
	@echo "in $(SCREENSHOTS)"

# Whoever of a run is killed with SIGKILL, wherever, until so many kills were made;
# SEED=s draws others, FIRST=n begins with the n-th.
.PHONY: kill-test
kill-test: all $(FAULT_SHIM)
	@MLTUNE_BUILD=$(CURDIR)/$(B) PYTHON=$(PYTHON) KILLS=$(or $(KILLS),200) \
		SEED=$(or $(SEED),1) FIRST=$(or $(FIRST),0) MLTUNE_STRICT=1 \
		MLTUNE_TEST_SECONDS=36000 tests/process/run $(or $(T),test_kills test_program_kills)

# Connections that break, networks that lose and fall silent, nodes that stop and die:
# N rounds of each kind and form (tests/bench/links.py; KINDS=cut10,kill some of them).
.PHONY: link-test
link-test: all
	@$(PYTHON) tests/bench/links.py --mltune $(CURDIR)/$(B)/mltune --n $(or $(N),100) \
		--seed $(or $(SEED),1) --lanes $(or $(LANES),8) $(if $(KINDS),--kinds $(KINDS))

# Random schedules of branches of programs in Python: each clock's loss follows from
# the branch's own clocks; SCHEDULES over the features, of each other program a
# seventh of them; SEED=n repeats one.
.PHONY: identity-test
identity-test: all
	@MLTUNE_BUILD=$(CURDIR)/$(B) PYTHON=$(PYTHON) MLTUNE_SCHEDULES=$(or $(SCHEDULES),1400) \
		MLTUNE_TEST_SECONDS=3600 MLTUNE_JOBS=$(JOBS) \
		tests/process/run $(or $(T),test_python.Identity)

# The N-th write, flush, rename, ... of each process fails, for every N; of
# allocations the first and the last of each way through the program to one.
# FAULT_STEP=n: each n-th N from FAULT_FIRST on, of allocations, too.
# FAULT_KINDS='alloc write', FAULT_PASSES=first:once, FAULT_NEWS=program take some,
# FAULT_DONE=FILE goes on where it was ended. The folders are in memory
# (FAULT_TMP): a point takes half the time there.
.PHONY: fault-loop
fault-loop: all $(FAULT_SHIM)
	@MLTUNE_BUILD=$(CURDIR)/$(B) PYTHON=$(PYTHON) FAULT_LOOP=1 TMPDIR=$(or $(FAULT_TMP),/dev/shm) \
		MLTUNE_STRICT=1 MLTUNE_TEST_SECONDS=360000 MLTUNE_JOBS=$(JOBS) \
		tests/process/run $(or $(T),test_faults)

# `make test` runs every tier; `make V=asan test` those of one build.
.PHONY: test test-one
ifeq ($(origin V),command line)
test: test-one
else
test: deps-test
	@rm -f build/counts
	@export MLTUNE_COUNTS=$(CURDIR)/build/counts; mkdir -p build; \
	$(MAKE) --no-print-directory -j$(JOBS) lint && \
	$(MAKE) --no-print-directory -j$(JOBS) V=release unit && \
	$(MAKE) --no-print-directory -j$(JOBS) V=release process sanitized-objects && \
	$(MAKE) --no-print-directory -j$(JOBS) V=asan unit && \
	$(MAKE) --no-print-directory -j$(JOBS) V=tsan unit; \
	status=$$?; tests/total build/counts $$status
endif
test-one:
	@$(MAKE) --no-print-directory unit
	@$(MAKE) --no-print-directory process

# What is compiled for the next two tiers is compiled in the time that the tests of
# processes leave: half of it they wait. It gives way to them.
.PHONY: sanitized-objects
sanitized-objects:
	@nice -n 19 $(MAKE) --no-print-directory V=asan test-objects
	@nice -n 19 $(MAKE) --no-print-directory V=tsan test-objects

JOBS ?= $(shell nproc)

.PHONY: bench
bench: bench-run

# ---- fuzzing -----------------------------------------------------------------

# Each target of tests/fuzz for FUZZ_SECONDS, one at a time, with executions a
# second by target: `make fuzz [FUZZ_SECONDS=60] [T=name]`. New inputs go to
# build/fuzz-corpus; what is committed is only read. `make fuzz-grow` runs them,
# too, and then keeps in tests/fuzz/grown the fewest inputs that reach what
# tests/fuzz/corpus, which people write, does not.
FUZZERS := $(patsubst tests/fuzz/%.c,$(B)/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_SECONDS ?= 60
FUZZ_CHOSEN = $(if $(T),$(foreach f,$(FUZZERS),$(if $(findstring $(T),$(f)),$(f))),$(FUZZERS))
$(B)/fuzz_head $(B)/fuzz_salvage: $(patsubst %,$(B)/obj/tests/sim/%.o,disk disk_vfs)
# Those that look for leaks themselves have their small blocks from a pool.
POOLED := $(shell grep -lE 'mem_outstanding|config_check\.h' tests/fuzz/fuzz_*.c)
POOLED := $(patsubst tests/fuzz/%.c,$(B)/%,$(POOLED))
$(POOLED): $(B)/obj/tests/fuzz/pool.o
$(POOLED): POOL := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free
$(FUZZERS): $(B)/%: $(B)/obj/tests/fuzz/%.o $(B)/obj/tests/fuzz/asan_options.o $(ARCHIVE)
	$(Q)$(CC) $(LINK_FLAGS) $(POOL) -fsanitize=fuzzer $(filter-out %.a,$^) $(filter %.a,$^) $(LIBS) -o $@
.PHONY: fuzz fuzz-grow
ifeq ($(V),fuzz)
fuzz: $(FUZZ_CHOSEN)
	@test -n "$^" || { echo "no fuzz target matches T=$(T)" >&2; exit 2; }
	@tests/fuzz/run $(FUZZ_SECONDS) $^
fuzz-grow: fuzz
	@tests/fuzz/grow $(FUZZ_CHOSEN)
else
fuzz fuzz-grow:
	@$(MAKE) --no-print-directory V=fuzz $@
endif

# ---- lint --------------------------------------------------------------------

C_FILES = $(shell git ls-files -co --exclude-standard '*.c' '*.h' 2>/dev/null || find . -name '*.[ch]')
LINT_HEADERS = $(filter-out tests/cuda/%,$(filter %.h,$(C_FILES)))
TIDY_SRCS = $(filter %.c,$(filter-out tests/%,$(C_FILES)))
# Paths that the analyzer follows in a function: with clang's own 225000 it takes
# three times as long, which is for `make lint-tidy TIDY_NODES=225000`.
TIDY_NODES ?= 50000
TIDY_DEPTH = -Xclang -analyzer-config -Xclang max-nodes=$(TIDY_NODES)
.PHONY: lint lint-format lint-layers lint-fanin lint-page lint-headers lint-tidy
lint: lint-format lint-layers lint-docs lint-fanin lint-page lint-headers lint-tidy
	@echo "lint: clean"
lint-format:
	$(call say,LINT,format)
	@clang-format --dry-run -Werror $(C_FILES)
lint-layers:
	$(call say,LINT,layers)
	@PYTHON=$(PYTHON) sh tests/lint/selftest.sh
	@$(PYTHON) tests/lint/layers.py .
	@$(PYTHON) tests/lint/names.py .
	@$(PYTHON) tests/lint/statuses.py .
	@$(PYTHON) tests/lint/dropped.py .
# No struct is reached into by twenty files.
lint-fanin:
	$(call say,LINT,fanin)
	@PYTHON=$(PYTHON) sh tests/lint/selftest_fanin.sh
	@$(PYTHON) tests/lint/fanin.py .
# Every name of the page's modules is defined or imported.
lint-page: $(NODE_MODULES)
	$(call say,LINT,page)
	@sh tests/browser/names_selftest.sh
	@node tests/browser/names.js api/web
lint-docs:
	$(call say,LINT,docs)
	@PYTHON=$(PYTHON) sh tests/lint/selftest_docs.sh
	@$(PYTHON) tests/lint/words.py .
	@$(PYTHON) tests/lint/links.py .
	@$(PYTHON) tests/lint/where.py .
# Every header compiles alone.
lint-headers: $(LINT_HEADERS:%=build/lint/%.ok)
build/lint/%.h.ok: %.h $(B)/flags
	@mkdir -p $(@D)
	@printf '#include "%s"\n' '$*.h' | sed 's,"include/mltune,"mltune,' | \
		$(CC) $(filter-out -fPIC,$(BASE_FLAGS)) $(WARNINGS) $(PKG_CFLAGS) \
		-Wno-unused -MMD -MP -MF $(@:.ok=.d) -MT $@ -x c -fsyntax-only -
	@touch $@
lint-tidy: $(TIDY_SRCS:%=build/lint/%.tidy)
	@PYTHON=$(PYTHON) sh tests/lint/selftest_tidy.sh
build/lint/%.c.tidy: %.c .clang-tidy tests/lint/tidy.py $(B)/flags
	@mkdir -p $(@D)
	$(call say,TIDY,$<)
	@$(PYTHON) tests/lint/tidy.py $< $(BASE_FLAGS) $(WARNINGS) $(PKG_CFLAGS) -- -Wno-unknown-warning-option $(CLANG_WARNINGS) $(TIDY_DEPTH)
	@$(CC) $(BASE_FLAGS) $(PKG_CFLAGS) -MM -MP -MT $@ -MF $(@:.tidy=.d) $<
	@touch $@

.PHONY: format
format:
	clang-format -i $(C_FILES)

# ---- packages, demo, installation --------------------------------------------

.PHONY: deps deps-test
deps:
	@deploy/install-deps.sh
deps-test:
	@deploy/install-deps.sh --test

.PHONY: demo
demo: deps
	@$(MAKE) --no-print-directory -j$(JOBS) V=release all
	@deploy/demo.sh build/release/mltune

# The manual of the installed header is made from it: one page, and its
# functions' names lead to it.
PS_HEADER := include/mltune/ps.h
PS_PAGE = awk -f docs/man/header.awk -v page=mltune-ps -v header=mltune/ps.h \
	-v brief='parameter server: the client interface' $(PS_HEADER)

.PHONY: install install-built
install: all
	$(Q)$(MAKE) --no-print-directory install-built

install-built: # without building anything
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(LIBDIR)/pkgconfig \
		$(DESTDIR)$(PREFIX)/include/mltune $(DESTDIR)$(PREFIX)/share/man/man1 \
		$(DESTDIR)$(PREFIX)/share/man/man3 $(DESTDIR)$(PREFIX)/share/man/man5
	install -m 755 $(B)/mltune $(DESTDIR)$(PREFIX)/bin/
	install -d $(DESTDIR)$(PREFIX)/lib/mltune/plugins
	install -m 644 $(PLUGINS) $(DESTDIR)$(PREFIX)/lib/mltune/plugins/
	$(if $(CUDA_PLUGIN),install -m 644 $(CUDA_PLUGIN) $(DESTDIR)$(PREFIX)/lib/mltune/)
	install -m 755 apps/plugins/*.py $(DESTDIR)$(PREFIX)/lib/mltune/plugins/
	rm -rf $(DESTDIR)$(PREFIX)/lib/mltune/python/mltune
	install -d $(DESTDIR)$(PREFIX)/lib/mltune/python/mltune
	install -m 644 apps/python/mltune/*.py apps/python/mltune/py.typed \
		$(DESTDIR)$(PREFIX)/lib/mltune/python/mltune/
	echo 'VERSION = "$(VERSION)"' >$(DESTDIR)$(PREFIX)/lib/mltune/python/mltune/_built.py
	install -m 644 include/mltune/*.h $(DESTDIR)$(PREFIX)/include/mltune/
	install -m 755 $(B)/libmltune.so $(DESTDIR)$(LIBDIR)/libmltune.so.1
	ln -sf libmltune.so.1 $(DESTDIR)$(LIBDIR)/libmltune.so
	sed -e 's,@PREFIX@,$(PREFIX),' -e 's,@LIBDIR@,$(LIBDIR),' -e 's,@VERSION@,$(VERSION),' \
		deploy/mltune.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/mltune.pc
	install -m 644 docs/man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1/
	for v in $$($(B)/mltune --help | sed -n 's/^  \([a-z-]*\) .*/\1/p'); do \
		$(B)/mltune man $$v >$(DESTDIR)$(PREFIX)/share/man/man1/mltune-$$v.1 || exit 1; done
	$(B)/mltune man config >$(DESTDIR)$(PREFIX)/share/man/man5/mltune-config.5
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions \
		$(DESTDIR)$(PREFIX)/share/zsh/$(ZSHDIR) \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(B)/mltune completions bash >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/mltune
	$(B)/mltune completions zsh >$(DESTDIR)$(PREFIX)/share/zsh/$(ZSHDIR)/_mltune
	$(B)/mltune completions fish >$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/mltune.fish
	$(PS_PAGE) >$(DESTDIR)$(PREFIX)/share/man/man3/mltune-ps.3
	for name in $$(awk -f docs/man/header.awk -v names=1 $(PS_HEADER)); do \
		echo '.so man3/mltune-ps.3' \
			>$(DESTDIR)$(PREFIX)/share/man/man3/$$name.3; done

# The service for systemd, its user and its folder.
.PHONY: install-service install-doc deb
install-service:
	install -d $(DESTDIR)$(UNITDIR) $(DESTDIR)$(PREFIX)/lib/sysusers.d $(DESTDIR)$(PREFIX)/lib/tmpfiles.d
	sed 's,/usr/local/bin/,$(PREFIX)/bin/,' deploy/mltune.service >$(DESTDIR)$(UNITDIR)/mltune.service
	install -m 644 deploy/mltune.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/mltune.conf
	install -m 644 deploy/mltune.tmpfiles $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/mltune.conf

# Where its links find one another.
install-doc:
	install -d $(DESTDIR)$(PREFIX)/share/doc/mltune
	tar -c --exclude=docs/man README.md docs apps/examples | \
		tar -x --no-same-owner -C $(DESTDIR)$(PREFIX)/share/doc/mltune

# Debian packages, in build/deb: the program and its service, the library, its
# headers, the documentation.
ifeq ($(V),release)
deb: all
	$(call say,DEB,build/deb)
	$(Q)deploy/make-deb.sh $(VERSION) $(CURDIR)/build/deb
else
deb:
	$(Q)$(MAKE) --no-print-directory V=release deb
endif

# The Python package for pip, in build/dist; needs no network.
.PHONY: wheel
wheel:
	@$(PYTHON) apps/python/build_mltune.py sdist build/dist
	@$(PYTHON) apps/python/build_mltune.py wheel build/dist

.PHONY: clean
clean:
	rm -rf build

.PHONY: help
help:
	@echo 'make demo                 set up, build, train on generated data'
	@echo 'make test                 set up, lint, every tier of tests'
	@echo 'make [CUDA=/usr/local/cuda]  build/release/mltune, libmltune.so; where nvcc is, libmltune-cuda.so'
	@echo 'make unit [T=name]        C tests; V=asan|tsan|debug|cov for other builds'
	@echo 'make process [T=name]     tests of the whole program'
	@echo 'make kill-test [KILLS=200] [SEED=1]  runs killed at calls and moments, and resumed'
	@echo 'make link-test [N=100] [KINDS=cut10,kill]  faults between nodes in network namespaces'
	@echo 'make identity-test [SCHEDULES=1400]  random schedules of branches, bit for bit'
	@echo 'make fault-loop [T=test_faults.ROLE] each call that can fail does, one after another'
	@echo 'make fault-sim [JOB=run] [KIND=memory] [STEP=1]  the same in simulated runs, milliseconds each'
	@echo 'make cluster-sim [SEEDS=10000] [FIRST=1]  simulated clusters of many nodes'
	@echo 'make sim [SEEDS=10000] [FIRST=1]  simulated runs on disks that lose and fail'
	@echo 'make bench [B=name]       benchmarks, one line a measurement'
	@echo 'make lint, make format    checks of form and structure; clang-format'
	@echo 'make fuzz [FUZZ_SECONDS=60] [T=name]  fuzz targets, with executions a second'
	@echo 'make fuzz-grow            the same, and keeps the inputs that reach more'
	@echo 'make install [PREFIX=/usr/local] [DESTDIR=]'
	@echo 'make deb                  Debian packages: build/deb'
	@echo 'make wheel                the Python package for pip: build/dist'
	@echo 'make deps, make clean'

-include $(shell find build -name '*.d' -type f 2>/dev/null)
