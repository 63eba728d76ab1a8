# How programs are built from the native core, for the makefiles of its tests. KIND is plain, a
# sanitizer, fuzz (with libFuzzer) or aarch64.
TESTS := $(dir $(lastword $(MAKEFILE_LIST)))
CORE := $(TESTS)../../cpp
KIND ?= plain
BUILD := $(TESTS)../../build/native/$(KIND)
MACHINE := $(shell uname -m)

FLAGS_address := -fsanitize=address,undefined -fno-sanitize-recover=all
FLAGS_thread := -fsanitize=thread
# not where values are compared, which would take half of the time
FLAGS_fuzz := $(FLAGS_address) -fsanitize=fuzzer -fno-sanitize-coverage=trace-cmp
ifeq ($(KIND),fuzz)
CXX := $(or $(CLANG),clang++)
endif
ifeq ($(KIND),aarch64)
CXX := aarch64-linux-gnu-g++
MACHINE := aarch64
endif

PLAIN_FLAGS := -std=c++20 -O2 -g -Wall -Wextra -Wno-psabi -ffp-contract=off -pthread
FLAGS := $(PLAIN_FLAGS) $(FLAGS_$(KIND))
HEADERS := $(wildcard $(CORE)/*.hpp $(TESTS)*.hpp *.hpp)
OBJECTS := $(BUILD)/reference.o $(BUILD)/kernel_portable.o
ifneq ($(filter x86_64 amd64,$(MACHINE)),)
FLAGS += -DMINRISK_X86
OBJECTS += $(BUILD)/kernel_avx2.o $(BUILD)/kernel_avx512.o
endif

.SECONDARY:
$(BUILD)/kernel_avx2.o: FLAGS += -mavx2
$(BUILD)/kernel_avx512.o: FLAGS += -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vpopcntdq
$(BUILD)/%.o: $(CORE)/%.cpp $(HEADERS)
	mkdir -p $(@D)
	$(CXX) $(FLAGS) -c $< -o $@

# not under sanitizers, where it would take most of the time
$(BUILD)/reference.o: $(TESTS)reference.cpp $(HEADERS)
	mkdir -p $(@D)
	$(CXX) $(PLAIN_FLAGS) -c $< -o $@
