// Which instruction sets this machine has, and which one is in use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernel.hpp"

namespace minrisk {

// Best first.
inline std::vector<const Kernels*> available_kernels() {
    std::vector<const Kernels*> found;
#if defined(MINRISK_X86)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vpopcntdq"))
        found.push_back(&avx512_kernels);
    if (__builtin_cpu_supports("avx2")) found.push_back(&avx2_kernels);
#endif
    found.push_back(&portable_kernels);
    return found;
}

// Null if this machine has no kernels of that name.
inline const Kernels* kernels_named(std::string_view name) {
    for (const Kernels* kernels : available_kernels())
        if (kernels->name == name) return kernels;
    return nullptr;
}

}  // namespace minrisk
