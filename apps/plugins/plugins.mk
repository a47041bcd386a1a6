# Searcher plug-ins, built as a user would: nothing but the installed header.

PLUGINS := $(patsubst apps/plugins/%.c,$(B)/plugins/%.so,$(wildcard apps/plugins/*.c))

$(B)/plugins/%.so: apps/plugins/%.c include/mltune/searcher.h $(B)/flags
	@mkdir -p $(@D)
	$(call say,SO,$@)
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -Wextra -Werror -Iinclude -shared -fPIC \
		-o $@ $< -lm

.PHONY: plugins
plugins: $(PLUGINS)
all: plugins
