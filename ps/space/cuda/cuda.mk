# The plug-in libmltune-cuda.so: where CUDA's compiler is, and no sanitizer.
# Layers (apps/nn/cuda) bring cuBLAS and cuDNN with them.

CUDA ?= /usr/local/cuda
NVCC := $(wildcard $(CUDA)/bin/nvcc)
CUDA_LAYERS := $(wildcard apps/nn/cuda/*.cu)
CUDA_SRCS := $(wildcard ps/space/cuda/*.cu) $(CUDA_LAYERS)
# Ampere and Hopper; later devices translate what is kept for them.
CUDA_ARCH ?= -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 \
	-gencode arch=compute_90,code=compute_90
CUDA_FLAGS := -std=c++20 -O3 -I. -Iinclude -D_GNU_SOURCE $(if $(CUDA_LAYERS),-DSPACE_NN) \
	-Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra
CUDA_LIBS := $(if $(CUDA_LAYERS),-lcublas -lcudnn -Xlinker -rpath=$(CUDA)/lib64)
CUDA_OBJS := $(CUDA_SRCS:%.cu=$(B)/obj/%.cuda.o)
CUDA_PLUGIN := $(if $(NVCC),$(if $(filter release debug,$(V)),$(B)/libmltune-cuda.so))

all: $(CUDA_PLUGIN)

$(B)/obj/%.cuda.o: %.cu ps/space/cuda/cuda.mk
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(CUDA_FLAGS) $(CUDA_ARCH) -MMD -MF $(@:.o=.d) -MT $@ -c $< -o $@

$(B)/libmltune-cuda.so: $(CUDA_OBJS) $(patsubst %,$(B)/obj/%.o,base/err base/fault ps/space/budget)
	$(call say,LD,$@)
	$(Q)$(NVCC) -shared -cudart static $^ $(CUDA_LIBS) -o $@
