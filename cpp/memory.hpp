// Vectors with a pool of memory blocks.
//
// Every segment needs the same few megabytes. If they were returned to the system, their pages
// would be mapped and cleared again each time, which takes longer than the n-grams themselves.
//
// The pool never blocks: if its lock is taken, memory comes from the system. In a process that was
// forked while another thread held the lock, it is taken for ever.
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
    static constexpr std::size_t min_block_bytes = 1 << 15, max_block_bytes = 1 << 24;
    static constexpr std::size_t max_pooled_bytes = 1 << 26;  // of all free blocks

    static BlockPool& shared() {
        static auto* pool = new BlockPool;  // never destroyed: vectors may outlive it
        return *pool;
    }

    void* allocate(std::size_t bytes) {
        const std::unique_lock guard(lock_, std::try_to_lock);
        auto& blocks = free_[std::bit_width(bytes - 1)];
        if (!guard || blocks.empty()) return ::operator new(std::bit_ceil(bytes));
        void* block = blocks.back();
        blocks.pop_back();
        pooled_bytes_ -= std::bit_ceil(bytes);
        return block;
    }

    void release(void* block, std::size_t bytes) noexcept {
        const std::unique_lock guard(lock_, std::try_to_lock);
        auto& blocks = free_[std::bit_width(bytes - 1)];
        if (!guard || pooled_bytes_ + std::bit_ceil(bytes) > max_pooled_bytes ||
            blocks.size() == blocks.capacity())
            return ::operator delete(block);
        blocks.push_back(block);
        pooled_bytes_ += std::bit_ceil(bytes);
    }

private:
    BlockPool() {
        for (auto& blocks : free_) blocks.reserve(256);
    }

    std::mutex lock_;
    std::array<std::vector<void*>, 64> free_;  // by the logarithm of their size
    std::size_t pooled_bytes_ = 0;
};

template <class T>
struct PooledAllocator {
    using value_type = T;

    PooledAllocator() = default;
    template <class U>
    PooledAllocator(const PooledAllocator<U>&) {}

    static bool uses_pool(std::size_t bytes) {
        return bytes >= BlockPool::min_block_bytes && bytes <= BlockPool::max_block_bytes;
    }

    T* allocate(std::size_t count) {
        const std::size_t bytes = count * sizeof(T);
        return static_cast<T*>(uses_pool(bytes) ? BlockPool::shared().allocate(bytes)
                                                : ::operator new(bytes));
    }

    void deallocate(T* block, std::size_t count) noexcept {
        const std::size_t bytes = count * sizeof(T);
        uses_pool(bytes) ? BlockPool::shared().release(block, bytes) : ::operator delete(block);
    }

    template <class U>
    bool operator==(const PooledAllocator<U>&) const {
        return true;
    }
};

template <class T>
using Buffer = std::vector<T, PooledAllocator<T>>;

}  // namespace minrisk
