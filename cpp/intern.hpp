// Numbers 64-bit keys from 0 in order of first appearance: a hash table with linear probing that
// compares whole keys, so that equal numbers mean equal keys.
#pragma once

#include <bit>
#include <cstdint>

#include "hash.hpp"
#include "memory.hpp"

namespace minrisk {

class InternTable {
public:
    explicit InternTable(std::size_t expected) { resize(std::bit_ceil(expected * 2 + 64)); }

    std::uint32_t operator()(std::uint64_t key) {
        Slot& slot = slots_[place_of(key)];
        return slot.number == 0 ? insert(slot, key) : slot.number - 1;
    }

    // The number of a key plus 1, or 0 if the key is not in the table.
    std::uint32_t find(std::uint64_t key) const { return slots_[place_of(key)].number; }

    // Number of slots that a lookup of this key visits.
    std::size_t probes(std::uint64_t key) const {
        return ((place_of(key) - home(key)) & mask_) + 1;
    }

    std::uint32_t size() const { return size_; }

private:
    struct Slot {
        std::uint64_t key = 0;
        std::uint32_t number = 0;  // of the key, plus 1; 0 marks an empty slot
    };

    std::size_t home(std::uint64_t key) const {
        return std::size_t(hash_of(key) >> shift_);
    }

    // The slot of a key, or the empty slot where it belongs.
    std::size_t place_of(std::uint64_t key) const {
        std::size_t place = home(key);
        while (slots_[place].number != 0 && slots_[place].key != key) place = (place + 1) & mask_;
        return place;
    }

    std::uint32_t insert(Slot& slot, std::uint64_t key) {
        slot = {key, ++size_};
        if (size_ * 2 > mask_) resize((mask_ + 1) * 2);
        return size_ - 1;
    }

    void resize(std::size_t capacity) {
        Buffer<Slot> old(capacity);
        old.swap(slots_);
        mask_ = capacity - 1;
        shift_ = 64 - std::countr_zero(capacity);
        for (const Slot& slot : old) {
            if (slot.number == 0) continue;
            std::size_t place = home(slot.key);
            while (slots_[place].number != 0) place = (place + 1) & mask_;
            slots_[place] = slot;
        }
    }

    Buffer<Slot> slots_;
    std::size_t mask_ = 0;
    int shift_ = 0;
    std::uint32_t size_ = 0;
};

}  // namespace minrisk
