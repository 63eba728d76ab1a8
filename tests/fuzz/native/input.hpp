// What the fuzz targets read: texts from the front of the input, options from its end, so that any
// file of text is a fair start for all of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "../../native/checks.hpp"

namespace fuzz {

inline void require(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "the core differs from the formula: %s\n", what);
    std::abort();
}

class Input {
public:
    Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

    // The next option, below `limit`; 0 when there is nothing left.
    int option(int limit) { return size_ == 0 ? 0 : data_[--size_] % limit; }

    // Results must not depend on it.
    void set_hash_secret() {
        const auto first = std::uint64_t(option(256)), second = std::uint64_t(option(256));
        minrisk::hash_secret = {first * 0x0101010101010101u, second << 56 | second};
    }

    // All that is left, apart at each byte 0xff, which UTF-8 does not have.
    reference::Strings texts(std::size_t most) {
        reference::Strings result(1);
        while (size_ > 0) {
            if (*data_ != 0xff) {
                result.back().push_back(character());
                continue;
            }
            ++data_, --size_;
            if (result.size() == most) break;
            result.emplace_back();
        }
        return result;
    }

    std::string_view bytes() const { return {reinterpret_cast<const char*>(data_), size_}; }

private:
    // UTF-8; a byte that is none becomes a lone surrogate, as Python's strings may have them.
    char32_t character() {
        const std::uint8_t lead = *data_;
        const std::size_t more = bytes_after(lead);
        char32_t c = more == 0 ? lead : lead & (0x3f >> (more & 3));
        bool valid = more < size_;
        for (std::size_t i = 1; valid && i <= more; ++i) {
            valid = data_[i] >> 6 == 2;
            c = c << 6 | (data_[i] & 0x3f);
        }
        valid = valid && c <= 0x10ffff;
        data_ += valid ? more + 1 : 1;
        size_ -= valid ? more + 1 : 1;
        return valid ? c : 0xdc00 + lead;
    }

    static std::size_t bytes_after(std::uint8_t lead) {
        if (lead < 0x80) return 0;
        if (lead < 0xc0 || lead >= 0xf8) return ~std::size_t(0);  // not the first of a character
        return lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    }

    const std::uint8_t* data_;
    std::size_t size_;
};

// Weights are sixteenths, so that sums of them are exact: BLEU's smoothing of averages jumps where
// a match is exactly half.
inline checks::Case case_of(Input& input) {
    constexpr int most = 10;
    int cuts[most], chosen[most], weights[most];
    const int groups = 1 + input.option(most);
    for (int i = 0; i < most; ++i) {
        cuts[i] = input.option(most + 1);
        chosen[i] = input.option(4);
        weights[i] = input.option(33);
    }
    checks::Case result{input.texts(most), {}, {}, {0}};
    const int count = int(result.texts.size());
    for (int i = 0; i < count; ++i) {
        if (chosen[i] != 1) result.hyps.push_back(i);
        if (chosen[i] == 2) result.hyps.push_back(i);  // some twice
        result.weights.push_back(weights[i] / 16.0);
    }
    std::sort(cuts, cuts + groups - 1);
    for (int g = 0; g < groups - 1; ++g) result.offsets.push_back(std::min(cuts[g], count));
    result.offsets.push_back(count);
    return result;
}

// Every way to score a case.
template <class FrontEnd, class Metric>
void check_metric(Input& input, const FrontEnd& front_end, const Metric& metric) {
    input.set_hash_secret();
    const std::vector<int> threads = input.option(8) == 1 ? std::vector{1, 3} : std::vector{1};
    const int middle = input.option(11);
    const checks::Case given = case_of(input);
    checks::check_scores(given, front_end, metric, threads, require);
    checks::check_parts(given, front_end, metric, std::min(std::size_t(middle), given.texts.size()),
                        require);
}

}  // namespace fuzz
