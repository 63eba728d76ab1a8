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
// second, and so on; 0 ends the chain (column 0 is a first occurrence, so it follows no other).
struct Order {
    std::uint32_t ngrams = 0;
    Numbers next;                     // (columns)
    std::vector<std::size_t> starts;  // (texts + 1)
    Numbers columns;                  // of each text, without repetition

    std::size_t total(std::size_t text) const { return starts[text + 1] - starts[text]; }
};

namespace detail {

// The distinct windows of `order` symbols; the symbol after the end of a text is 0.
struct Windows {
    struct Example {
        std::size_t position;
        std::size_t length;  // up to the end of the text
    };
    Numbers ids;               // (positions)
    Buffer<Example> examples;  // (windows) where each was first seen
};

// N-grams are numbered in steps: first as many symbols as fit into 64 bits, then as many as fit
// into the 32 bits beside the number of the symbols before them.
struct PackingSteps {
    int bits;  // of a symbol

    explicit PackingSteps(const Symbols& symbols)
        : bits(std::max(1, int(std::bit_width(symbols.alphabet - 1)))) {}

    // Calls step(done, more): `more` symbols are to be numbered after `done`, up to `order`.
    template <class Step>
    void each(int order, Step&& step) const {
        for (int done = 0; done < order;) {
            const int more = std::min(order - done, (done == 0 ? 64 : 32) / bits);
            step(done, more);
            done += more;
        }
    }
};

inline Windows windows_of(const Symbols& symbols, int order, const Workers& workers) {
    const PackingSteps steps(symbols);
    Windows windows;
    windows.ids.resize(symbols.values.size());
    steps.each(order, [&](std::size_t done, int more) {
        const int top = (more - 1) * steps.bits;
        InternTable intern(symbols.values.size() / 16);
        windows.examples.clear();
        for (std::size_t t = 0; t < symbols.texts(); ++t) {
            const std::size_t start = symbols.starts[t], end = symbols.starts[t + 1];
            std::uint64_t key = 0;  // of the symbols that follow `done` symbols after position i
            for (std::size_t i = end; i-- > start;) {
                const std::uint64_t entering = i + done < end ? symbols.values[i + done] : 0;
                key = (key >> steps.bits) | (entering << top);
                const std::uint64_t before = done == 0 ? 0 : std::uint64_t(windows.ids[i]) << 32;
                windows.ids[i] = intern(before | key);
                if (windows.ids[i] == windows.examples.size())
                    windows.examples.push_back({i, end - i});
            }
        }
        workers.poll();
    });
    return windows;
}

constexpr std::uint32_t no_ngram = ~0u;

// The n-grams of one length that are prefixes of windows.
struct Prefixes {
    Numbers ngram;             // of each window; `no_ngram` where the text is too short
    std::uint32_t ngrams = 0;  // distinct
};

inline Prefixes prefixes_of(const Windows& windows, const Symbols& symbols, std::size_t n) {
    const PackingSteps steps(symbols);
    Prefixes result{Numbers(windows.examples.size(), no_ngram)};
    steps.each(int(n), [&](std::size_t done, int more) {
        InternTable intern(windows.examples.size() / 2);
        for (std::size_t w = 0; w < windows.examples.size(); ++w) {
            const auto [position, length] = windows.examples[w];
            if (length < n) continue;
            std::uint64_t key = done == 0 ? 0 : result.ngram[w];
            if (done > 0) key <<= 32 - more * steps.bits;  // the symbols take the rest of 32 bits
            for (int i = 0; i < more; ++i)
                key = key << steps.bits | symbols.values[position + done + i];
            result.ngram[w] = intern(key);
        }
        result.ngrams = intern.size();
    });
    return result;
}

// Numbers the occurrences of one order's n-grams, text by text.
inline Order order_of(const Symbols& symbols, const Windows& windows, const Prefixes& prefixes,
                      std::size_t n) {
    struct Last {
        std::uint32_t text = no_ngram, column = 0;
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
        const std::uint32_t* window = windows.ids.data() + symbols.starts[t];
        for (std::size_t i = 0; i + n <= length; ++i) {
            const std::uint32_t ngram = prefixes.ngram[window[i]];
            // loads both candidates: a branch on whether the text repeats an n-gram is hard to
            // predict
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

// All orders of a batch of texts.
struct Index {
    std::vector<Order> orders;
    std::size_t texts = 0;

    // Number of orders from `first` to `last` of which a text has n-grams.
    std::size_t orders_of(std::size_t text, std::size_t first, std::size_t last) const {
        std::size_t count = 0;
        for (std::size_t k = first; k < last; ++k) count += orders[k].total(text) > 0;
        return count;
    }
};

using Texts = std::vector<std::int64_t>;  // some texts of an index

// The orders 1 to `order`, appended to `orders`.
inline void index_ngrams(const Symbols& symbols, int order, const Workers& workers,
                         std::vector<Order>& orders) {
    if (symbols.values.size() >= 1u << 31 || symbols.texts() >= 1u << 31)
        throw std::length_error("the texts have more than 2^31 symbols, too many for one index; "
                                "split them into smaller batches");
    const detail::Windows windows = detail::windows_of(symbols, order, workers);
    const std::size_t first = orders.size();
    orders.resize(first + order);
    workers.each(order, [&](std::size_t i, int) {
        const auto prefixes = detail::prefixes_of(windows, symbols, i + 1);
        orders[first + i] = detail::order_of(symbols, windows, prefixes, i + 1);
    });
}

}  // namespace minrisk
