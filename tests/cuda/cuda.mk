# The CUDA plug-in's kernels as C++ on the host: unit tests run them where there
# is no device (tests/cuda/cuda_runtime.h).

EMULATED := $(B)/libmltune-cuda-emulated.so
EMULATED_OBJS := $(patsubst ps/space/cuda/%.cu,$(B)/obj/tests/cuda/%.o,$(wildcard ps/space/cuda/*.cu)) \
	$(B)/obj/tests/cuda/emulation.o
EMULATED_FLAGS = -std=c++20 $(CFLAGS_$(V)) $(CFLAGS) -Itests/cuda -I. -Iinclude -D_GNU_SOURCE \
	-fPIC -fvisibility=hidden -Wall -Wextra -Werror -Wno-unknown-pragmas -fno-strict-aliasing

$(B)/obj/tests/cuda/%.cpp: ps/space/cuda/%.cu tests/cuda/translate.py
	@mkdir -p $(@D)
	$(Q)$(PYTHON) tests/cuda/translate.py $< >$@

$(B)/obj/tests/cuda/%.o: $(B)/obj/tests/cuda/%.cpp $(B)/flags
	$(call say,CXX,ps/space/cuda/$*.cu)
	$(Q)$(CXX) $(EMULATED_FLAGS) -MMD -MP -c $< -o $@

$(B)/obj/tests/cuda/emulation.o: tests/cuda/emulation.cpp $(B)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(EMULATED_FLAGS) -MMD -MP -c $< -o $@

.SECONDARY: $(EMULATED_OBJS:.o=.cpp)
$(EMULATED): $(EMULATED_OBJS) $(patsubst %,$(B)/obj/%.o,base/err base/fault ps/space/budget)
	$(call say,LD,$@)
	$(Q)$(CXX) -shared $(LINK_FLAGS) $^ -o $@

ifneq ($(V),tsan)
$(B)/tests/unit/ps/space/test_space: | $(EMULATED)
endif
