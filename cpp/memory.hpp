// Vectors whose memory is used again.
//
// Segment after segment needs the same few megabytes. Given back to the system each time, their
// pages have to be mapped and cleared anew, which took longer than the n-grams themselves.
//
// Nobody waits for the pool: if it is busy, memory comes from the system. A process that was forked
// while another thread had the lock finds it locked for ever.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <mutex>
#include <new>
#include <vector>

namespace minrisk {

class BlockPool {
public:
    static constexpr std::size_t smallest = 1 << 15, largest = 1 << 24;  // bytes of a kept block
    static constexpr std::size_t most = 1 << 26;                         // bytes kept in all

    static BlockPool& shared() {
        static auto* pool = new BlockPool;  // never destroyed: vectors may outlive any order
        return *pool;
    }

    void* take(std::size_t bytes) {
        const std::unique_lock guard(lock_, std::try_to_lock);
        auto& blocks = free_[std::bit_width(bytes - 1)];
        if (!guard || blocks.empty()) return ::operator new(std::bit_ceil(bytes));
        void* block = blocks.back();
        blocks.pop_back();
        kept_ -= std::bit_ceil(bytes);
        return block;
    }

    void give(void* block, std::size_t bytes) noexcept {
        const std::unique_lock guard(lock_, std::try_to_lock);
        auto& blocks = free_[std::bit_width(bytes - 1)];
        if (!guard || kept_ + std::bit_ceil(bytes) > most || blocks.size() == blocks.capacity())
            return ::operator delete(block);
        blocks.push_back(block);
        kept_ += std::bit_ceil(bytes);
    }

private:
    BlockPool() {
        for (auto& blocks : free_) blocks.reserve(256);
    }

    std::mutex lock_;
    std::array<std::vector<void*>, 64> free_;  // by the logarithm of their size
    std::size_t kept_ = 0;
};

template <class T>
struct Recycled {
    using value_type = T;

    Recycled() = default;
    template <class U>
    Recycled(const Recycled<U>&) {}

    static bool pooled(std::size_t bytes) {
        return bytes >= BlockPool::smallest && bytes <= BlockPool::largest;
    }

    T* allocate(std::size_t count) {
        const std::size_t bytes = count * sizeof(T);
        return static_cast<T*>(pooled(bytes) ? BlockPool::shared().take(bytes)
                                             : ::operator new(bytes));
    }

    void deallocate(T* block, std::size_t count) noexcept {
        const std::size_t bytes = count * sizeof(T);
        pooled(bytes) ? BlockPool::shared().give(block, bytes) : ::operator delete(block);
    }

    template <class U>
    bool operator==(const Recycled<U>&) const {
        return true;
    }
};

template <class T>
using Buffer = std::vector<T, Recycled<T>>;

}  // namespace minrisk
