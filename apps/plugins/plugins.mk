# Plug-ins, built as a user would: nothing but the installed headers.

# Searchers.
PLUGINS := $(patsubst apps/plugins/%.c,$(B)/plugins/%.so,\
	$(filter-out apps/plugins/app_% apps/plugins/model_% apps/plugins/rule_%,$(wildcard apps/plugins/*.c)))

# Applications, in C and C++, which are examples and not installed.
APP_PLUGINS := $(patsubst apps/plugins/%,$(B)/app_plugins/%.so,\
	$(basename $(wildcard apps/plugins/app_*.c apps/plugins/app_*.cc)))

# Consistency models, and update rules: the same.
MODEL_PLUGINS := $(patsubst apps/plugins/%.c,$(B)/model_plugins/%.so,\
	$(wildcard apps/plugins/model_*.c))
RULE_PLUGINS := $(patsubst apps/plugins/%.c,$(B)/rule_plugins/%.so,\
	$(wildcard apps/plugins/rule_*.c))
PLUGIN_FLAGS := -O2 -g -Wall -Wextra -Werror -Iinclude

$(B)/plugins/%.so: apps/plugins/%.c include/mltune/searcher.h $(B)/flags
	@mkdir -p $(@D)
	$(call say,SO,$@)
	$(Q)$(CC) -std=gnu11 $(PLUGIN_FLAGS) -shared -fPIC -o $@ $< -lm

$(B)/app_plugins/%.so: apps/plugins/%.c include/mltune/app.h include/mltune/ps.h $(B)/flags
	@mkdir -p $(@D)
	$(call say,SO,$@)
	$(Q)$(CC) -std=gnu11 $(PLUGIN_FLAGS) -shared -fPIC -o $@ $< -lm

$(B)/app_plugins/%.so: apps/plugins/%.cc include/mltune/app.h include/mltune/ps.h $(B)/flags
	@mkdir -p $(@D)
	$(call say,SO,$@)
	$(Q)$(CXX) -std=c++17 $(PLUGIN_FLAGS) -shared -fPIC -o $@ $<

$(B)/model_plugins/%.so: apps/plugins/%.c include/mltune/model.h include/mltune/ps.h $(B)/flags
	@mkdir -p $(@D)
	$(call say,SO,$@)
	$(Q)$(CC) -std=gnu11 $(PLUGIN_FLAGS) -shared -fPIC -o $@ $<

$(B)/rule_plugins/%.so: apps/plugins/%.c include/mltune/rule.h include/mltune/ps.h $(B)/flags
	@mkdir -p $(@D)
	$(call say,SO,$@)
	$(Q)$(CC) -std=gnu11 $(PLUGIN_FLAGS) -shared -fPIC -o $@ $<

# The second one as a program that is the training process itself.
$(B)/rings: apps/plugins/app_rings.cc $(B)/libmltune.so
	$(call say,LD,$@)
	$(Q)ln -sf libmltune.so $(B)/libmltune.so.1
	$(Q)$(CXX) -std=c++17 -DPROGRAM $(PLUGIN_FLAGS) $(LINK_FLAGS) $< -L$(B) -lmltune \
		-Wl,-rpath,'$$ORIGIN' -o $@

.PHONY: plugins
plugins: $(PLUGINS) $(APP_PLUGINS) $(MODEL_PLUGINS) $(RULE_PLUGINS) $(B)/rings
all: plugins
