// Hash functions with a random secret per process, so that input cannot be constructed to collide.
// Hash tables number their keys in order of first appearance and are never iterated over: no result
// depends on the secret.
#pragma once

#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string_view>

namespace minrisk {

struct HashSecret {
    std::uint64_t first, second;
};

inline HashSecret random_hash_secret() {
    std::uint32_t words[4];
    const auto time = std::uint64_t(std::chrono::steady_clock::now().time_since_epoch().count());
    const auto address = std::uint64_t(reinterpret_cast<std::uintptr_t>(&words));
    std::seed_seq{time, time >> 32, address, address >> 32}.generate(words, words + 4);
    try {
        std::random_device device;
        for (auto& word : words) word ^= device();
    } catch (const std::exception&) {
        // no source of randomness on this machine: the time and an address remain
    }
    return {std::uint64_t(words[0]) << 32 | words[1], std::uint64_t(words[2]) << 32 | words[3]};
}

inline HashSecret hash_secret = random_hash_secret();  // changed by tests only

// The upper bits are mixed best. Both factors depend on the key: a product with a random number
// alone would, for some numbers, map arithmetic progressions of keys to neighbouring slots.
inline std::uint64_t hash_of(std::uint64_t key) {
    return (key ^ hash_secret.first) * (std::rotl(key, 32) ^ hash_secret.second);
}

// Hash of a sequence of 32-bit values, continued from the hash of what precedes it.
template <class Value>
std::uint64_t hash_of(std::span<const Value> values, std::uint64_t before = 0) {
    static_assert(sizeof(Value) == 4);
    std::uint64_t hash = hash_of(before ^ values.size());
    std::size_t i = 0;
    for (; i + 1 < values.size(); i += 2)
        hash = hash_of(hash ^ (std::uint64_t(values[i]) << 32 | values[i + 1]));
    return i < values.size() ? hash_of(hash ^ values[i]) : hash;
}

struct WordHash {
    std::size_t operator()(std::u32string_view word) const {
        return std::size_t(hash_of(std::span(word)));
    }
};

}  // namespace minrisk
