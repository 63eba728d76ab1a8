// Texts as sets of columns.
//
// The sum of min(count, count) over n-grams is the size of a set intersection once each n-gram is
// split into (n-gram, t-th occurrence in the text): a column.
//
// A text position is looked up once, by its longest n-gram (its window); the n-grams of every
// shorter length are prefixes of windows, and there are far fewer distinct windows than positions.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "intern.hpp"
#include "parallel.hpp"
#include "text.hpp"

namespace minrisk {

// The n-grams of one length. Column x is the first occurrence of n-gram x in a text, next[x] the
// second, and so on; 0 ends the chain (column 0 is a first occurrence, so it follows none).
struct Order {
    std::uint32_t ngrams = 0;
    Numbers next;                     // (columns)
    std::vector<std::size_t> starts;  // (texts + 1)
    Numbers columns;                  // of each text, without repetition

    std::size_t total(std::size_t text) const { return starts[text + 1] - starts[text]; }
};

namespace detail {

// The distinct windows of `order` symbols; 0 stands past the end of a text.
struct Windows {
    struct Example {
        std::size_t position;
        std::size_t length;  // up to the end of the text
    };
    Numbers at;                     // the window at each position
    Buffer<Example> examples;  // where each window was first seen
};

// Packs the `count` symbols that follow `skip` symbols after each position.
struct Packing {
    const Symbols& symbols;
    std::size_t skip;
    int count, bits;

    // Calls use(position, symbols up to the end of the text, key) for each position of a text.
    template <class Use>
    void each(std::size_t text, Use&& use) const {
        const std::size_t start = symbols.starts[text], end = symbols.starts[text + 1];
        const int top = (count - 1) * bits;
        std::uint64_t key = 0;
        for (std::size_t i = end; i-- > start;) {
            const std::uint64_t entering = i + skip < end ? symbols.values[i + skip] : 0;
            key = (key >> bits) | (entering << top);
            use(i, end - i, key);
        }
    }
};

// As many symbols as fit into 64 bits are interned at once, then as many as fit beside a number.
inline Windows windows_of(const Symbols& symbols, int order, const Workers& workers) {
    const int bits = std::max(1, int(std::bit_width(symbols.alphabet - 1)));
    Windows windows;
    windows.at.resize(symbols.values.size());
    for (int done = 0; done < order;) {
        const int more = std::min(order - done, (done == 0 ? 64 : 32) / bits);
        const Packing packing{symbols, std::size_t(done), more, bits};
        Intern intern(symbols.values.size() / 16);
        windows.examples.clear();
        const auto look_up = [&](std::size_t i, std::size_t length, std::uint64_t key) {
            const std::uint64_t before = done == 0 ? 0 : std::uint64_t(windows.at[i]) << 32;
            windows.at[i] = intern(before | key);
            if (windows.at[i] == windows.examples.size()) windows.examples.push_back({i, length});
        };
        for (std::size_t t = 0; t < symbols.texts(); ++t) packing.each(t, look_up);
        done += more;
        workers.poll();
    }
    return windows;
}

constexpr std::uint32_t none = ~0u;

// The n-grams of one length that the windows start with.
struct Prefixes {
    Numbers ngram;             // of each window; `none` where the text is too short
    std::uint32_t ngrams = 0;  // distinct
};

inline std::vector<Prefixes> prefixes_of(const Windows& windows, const Symbols& symbols,
                                         std::size_t order) {
    const std::size_t count = windows.examples.size();
    std::vector<Prefixes> result;
    for (std::size_t n = 1; n <= order; ++n) {
        Intern intern(n == 1 ? symbols.alphabet : result.back().ngrams);
        Numbers ngram(count, none);
        for (std::size_t w = 0; w < count; ++w) {
            const auto [position, length] = windows.examples[w];
            if (length < n) continue;
            const std::uint64_t shorter = n == 1 ? 0 : result.back().ngram[w];
            ngram[w] = intern(shorter << 32 | symbols.values[position + n - 1]);
        }
        result.push_back({std::move(ngram), intern.size()});
    }
    return result;
}

// Numbers the occurrences of one order's n-grams, text by text.
inline Order order_of(const Symbols& symbols, const Windows& windows, const Prefixes& prefixes,
                      std::size_t n) {
    struct Last {
        std::uint32_t text = none, column = 0;
    };
    Order order;
    order.ngrams = prefixes.ngrams;
    order.next.assign(prefixes.ngrams, 0);
    order.starts.push_back(0);
    order.columns.resize(symbols.values.size());
    Buffer<Last> last(prefixes.ngrams);
    std::uint32_t* out = order.columns.data();
    for (std::uint32_t t = 0; t < symbols.texts(); ++t) {
        const std::size_t length = symbols.length(t);
        const std::uint32_t* window = windows.at.data() + symbols.starts[t];
        for (std::size_t i = 0; i + n <= length; ++i) {
            const std::uint32_t ngram = prefixes.ngram[window[i]];
            // both candidates are loaded: whether a text repeats an n-gram is hard to predict
            const bool again = last[ngram].text == t;
            const std::uint32_t next = order.next[last[ngram].column];
            std::uint32_t column = again ? next : ngram;
            if (again && next == 0) [[unlikely]] {
                column = static_cast<std::uint32_t>(order.next.size());
                order.next[last[ngram].column] = column;
                order.next.push_back(0);
            }
            last[ngram] = {t, column};
            *out++ = column;
        }
        order.starts.push_back(out - order.columns.data());
    }
    order.columns.resize(order.starts.back());
    return order;
}

}  // namespace detail

// The orders 1 to `order`, appended to `orders`.
inline void index_ngrams(const Symbols& symbols, int order, const Workers& workers,
                         std::vector<Order>& orders) {
    if (symbols.values.size() >= detail::none || symbols.texts() >= detail::none)
        throw std::length_error("too much text for one index: over four billion symbols");
    const detail::Windows windows = detail::windows_of(symbols, order, workers);
    const auto prefixes = detail::prefixes_of(windows, symbols, order);
    const std::size_t first = orders.size();
    orders.resize(first + order);
    workers.each(order, [&](std::size_t i, int) {
        orders[first + i] = detail::order_of(symbols, windows, prefixes[i], i + 1);
    });
}

}  // namespace minrisk
