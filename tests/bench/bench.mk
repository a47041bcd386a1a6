# make bench [B=name]: builds and runs tests/bench/NAME.c, or NAME.py, one after
# another, in the release build. BENCH is B as the user gave it (see the Makefile).

BENCH_HELPER := $(B)/obj/tests/bench/bench.o
# Parts of others.
BENCH_PARTS := tests/bench/bench.c tests/bench/ps_nodes.c tests/bench/straggler_model.c

# Those that drive the program: NAME.py.
BENCHES_PY := loops quality
BENCHES_C := $(patsubst tests/bench/%.c,%,$(filter-out $(BENCH_PARTS),$(wildcard tests/bench/*.c)))
BENCHES := $(BENCHES_C) $(BENCHES_PY)
BENCH_SELECTED := $(if $(BENCH),$(filter $(BENCH),$(BENCHES)),$(BENCHES))

# One that drives the simulator.
BENCHES_SIM := sim_gates sim_bias sim_ends sim_rates sim_managed sim_traces stragglers
$(BENCHES_SIM:%=$(B)/tests/bench/%): $(B)/tests/bench/%: $(B)/obj/tests/bench/%.o $(B)/libsim.a $(ARCHIVE)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LINK_FLAGS) -rdynamic $^ $(LIBS) -o $@

# Leaves out a part of what programs say that they will touch.
$(B)/tests/bench/access: LINK_FLAGS += -Wl,--wrap=mlt_ps_expect

BENCHES_PLAIN := $(filter-out $(BENCHES_SIM),$(BENCHES_C))
$(B)/tests/bench/ps: $(B)/obj/tests/bench/ps_nodes.o
$(B)/tests/bench/stragglers $(B)/tests/bench/stragglers_nodes: $(B)/obj/tests/bench/straggler_model.o

$(BENCHES_PLAIN:%=$(B)/tests/bench/%): $(B)/tests/bench/%: $(B)/obj/tests/bench/%.o $(BENCH_HELPER) $(ARCHIVE)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LINK_FLAGS) -rdynamic $^ $(LIBS) -o $@

$(BENCHES_PY:%=$(B)/tests/bench/%): $(B)/tests/bench/%: tests/bench/%.py $(B)/mltune
	@mkdir -p $(@D)
	$(Q)printf '#!/bin/sh\nexec %s %s --mltune %s "$$@"\n' "$(PYTHON)" "$(CURDIR)/$<" "$(CURDIR)/$(B)/mltune" > $@
	$(Q)chmod +x $@

.PHONY: bench-run
bench-run: $(BENCH_SELECTED:%=$(B)/tests/bench/%)
	@test -n "$(strip $^)" || { \
		echo "no benchmark B=$(BENCH); there are: $(BENCHES)" >&2; exit 2; }
	@for b in $^; do $$b || exit 1; done
