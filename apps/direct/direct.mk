# The shared library, which exports mlt_* alone, and a program that uses it.

# The parameter server, and what makes a program a node of a tuner; of the
# folders below what that needs, from the archive.
SO_OBJS := $(patsubst %.c,$(B)/obj/%.o,$(wildcard ps/*/*.c))

$(B)/libmltune.so: $(SO_OBJS) $(ARCHIVE) apps/direct/libmltune.map
	$(call say,LD,$@)
	$(Q)$(CC) $(LINK_FLAGS) -shared -Wl,-soname,libmltune.so.1 -Wl,-z,defs \
		-Wl,--version-script=apps/direct/libmltune.map \
		$(filter %.o %.a,$^) $(shell pkg-config --libs libzmq jansson) -lm -pthread -o $@

$(B)/direct: $(B)/obj/apps/direct/direct.o $(B)/libmltune.so
	$(call say,LD,$@)
	$(Q)ln -sf libmltune.so $(B)/libmltune.so.1
	$(Q)$(CC) $(LINK_FLAGS) $< -L$(B) -lmltune -lm \
		-Wl,-rpath,'$$ORIGIN' -o $@

# Matrix factorization as a loop, and the same as a plain serial one.
$(B)/factors: $(B)/obj/apps/direct/factors.o $(B)/libmltune.so
	$(call say,LD,$@)
	$(Q)ln -sf libmltune.so $(B)/libmltune.so.1
	$(Q)$(CC) $(LINK_FLAGS) $< -L$(B) -lmltune -lm \
		-Wl,-rpath,'$$ORIGIN' -o $@

$(B)/factors_serial: $(B)/obj/apps/direct/factors_serial.o
	$(call say,LD,$@)
	$(Q)$(CC) $(LINK_FLAGS) $< -lm -o $@

all: $(B)/libmltune.so $(B)/direct $(B)/factors $(B)/factors_serial
