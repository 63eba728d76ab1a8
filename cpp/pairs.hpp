// Exact scores of all pairs: columns of many texts are bits, columns of few texts posting lists.
//
// Most columns are in few texts, and walking their list of texts is cheaper than a bit in every
// row; for the columns of many texts, AND and POPCOUNT are cheaper.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernel.hpp"
#include "ngrams.hpp"
#include "parallel.hpp"

namespace minrisk {

inline std::size_t blocks_for(std::size_t texts) { return (texts + lanes - 1) / lanes; }

namespace detail {

constexpr std::int64_t absent = -1;

// Where the columns of one order are stored: in bits, in lists, or nowhere if no pair shares them.
struct Placement {
    static constexpr std::uint32_t nowhere = ~0u, list = 1u << 31;
    Numbers place;  // (columns) a bit number, or `list` + a list number
    std::uint32_t bits = 0, lists = 0;
};

inline Numbers frequencies(const Order& order, const Texts& texts) {
    Numbers count(order.next.size(), 0);
    for (std::int64_t text : texts)
        for (std::size_t i = order.starts[text]; i < order.starts[text + 1]; ++i)
            ++count[order.columns[i]];
    return count;
}

inline Placement place_columns(const Numbers& in_hyps, const Numbers& in_refs,
                               double max_list_pairs) {
    Placement result;
    result.place.resize(in_hyps.size());
    for (std::size_t c = 0; c < in_hyps.size(); ++c) {
        const double pairs = double(in_hyps[c]) * in_refs[c];
        result.place[c] = pairs == 0             ? Placement::nowhere
                          : pairs <= max_list_pairs ? Placement::list + result.lists++
                                                : result.bits++;
    }
    return result;
}

// Rows of numbers of different lengths.
struct CompressedRows {
    Numbers starts{0};  // (rows + 1)
    Numbers values;     // of all rows, end to end
};

// For each value up to `count`, the rows that contain it.
inline CompressedRows transposed(const CompressedRows& from, std::uint32_t count) {
    CompressedRows result;
    result.starts.assign(count + 1, 0);
    for (std::uint32_t value : from.values) ++result.starts[value + 1];
    for (std::uint32_t i = 0; i < count; ++i) result.starts[i + 1] += result.starts[i];
    result.values.resize(from.values.size());
    Numbers next(result.starts);
    for (std::uint32_t row = 0; row + 1 < from.starts.size(); ++row)
        for (std::uint32_t i = from.starts[row]; i < from.starts[row + 1]; ++i)
            result.values[next[from.values[i]]++] = row;
    return result;
}

// Stores each text's columns of one order: bits in `words`, which are `lanes` apart, and the
// numbers of its lists in a row of the result.
inline CompressedRows distribute(const Order& order, const Placement& placement, const Texts& texts,
                        std::size_t block_words, std::uint64_t* words) {
    CompressedRows lists;
    std::size_t size = 0;
    for (std::size_t slot = 0; slot < texts.size(); ++slot) {
        std::uint64_t* own = words + slot / lanes * block_words * lanes + slot % lanes;
        const std::int64_t text = texts[slot];
        lists.values.resize(size + order.total(text));
        // no branches: whether a column is a bit or a list is hard to predict
        std::uint64_t elsewhere = 0;
        for (std::size_t i = order.starts[text]; i < order.starts[text + 1]; ++i) {
            const std::uint32_t place = placement.place[order.columns[i]];
            const bool is_bit = place < Placement::list;
            std::uint64_t* word = is_bit ? own + (place / 64) * lanes : &elsewhere;
            *word |= std::uint64_t(1) << (place % 64);
            lists.values[size] = place - Placement::list;
            size += !is_bit & (place != Placement::nowhere);
        }
        lists.starts.push_back(static_cast<std::uint32_t>(size));
    }
    lists.values.resize(size);
    return lists;
}

}  // namespace detail

// Hypotheses and references of an index, prepared for comparison. No side contains a text twice.
template <class Metric>
class Pairs {
public:
    Pairs(const Index& index, Texts hyps, Texts refs, const Metric& metric, const Kernels& kernels,
          const Workers& workers)
        : index_(index), hyps_(std::move(hyps)), refs_(std::move(refs)),
          symmetric_(hyps_ == refs_), metric_(metric), kernels_(Metric::kernels(kernels)),
          workers_(workers) {
        place_columns(kernels.max_list_share);
        for (const Texts* side : sides())  // a spare block, for pointers of orders without bits
            bits_.emplace_back((blocks_for(side->size()) * order_words_.back() + 1) * lanes);
        distribute_columns();
        slot_of_.assign(index_.texts, detail::absent);
        for (std::size_t r = 0; r < refs_.size(); ++r) slot_of_[refs_[r]] = r;
        for (const Texts* side : sides()) precomputed_.emplace_back(metric_, index_, *side);
        problem_ = metric_.problem({{bits_.back().data(), std::int64_t(blocks_for(hyps_.size()))},
                                    {bits_.front().data(), std::int64_t(blocks_for(refs_.size()))},
                                    order_words_.data(), int(index_.orders.size())},
                                   precomputed_.back(), precomputed_.front());
    }

    // (H, R)
    std::vector<double> scores() const {
        const std::size_t width = problem_.refs.blocks * lanes;
        std::vector<double> result(hyps_.size() * refs_.size());
        std::vector<std::vector<double>> padded(workers_.threads);
        each_rows([&](const Rows& group, std::size_t count, int worker) {
            padded[worker].resize(rows * width);
            kernels_.scores(problem_, group, padded[worker].data(), width);
            for (std::size_t i = 0; i < count; ++i)
                std::copy_n(padded[worker].data() + i * width, refs_.size(),
                            result.data() + (group.first + i) * refs_.size());
        });
        return result;
    }

    // (H,) scores times the mass of each reference, one chunk of hypotheses at a time. The chunks
    // and the order of every sum depend on the sizes alone, never on the threads.
    std::vector<double> utility(const double* mass) const {
        std::vector<double> padded_mass(problem_.refs.blocks * lanes);
        std::copy_n(mass, refs_.size(), padded_mass.data());
        std::vector<double> result(hyps_.size());
        std::vector<Buffer<double>> backward(symmetric_ ? chunks() : 0);
        each_chunk([&](std::size_t chunk, std::size_t first, std::size_t last, Rows& group,
                       Buffer<std::uint16_t>& list_matches) {
            if (symmetric_) backward[chunk].resize(padded_mass.size());
            for (std::size_t h = first; h < last; h += rows) {
                double forward[rows * lanes];
                fill(group, list_matches, h, symmetric_ ? h / lanes * lanes : 0);
                kernels_.utility(problem_, group,
                                 {padded_mass.data(), forward,
                                  symmetric_ ? backward[chunk].data() : nullptr});
                for (std::size_t i = 0; i < rows && h + i < last; ++i)
                    result[h + i] = sum_of_lanes(forward + i * lanes);
            }
        });
        for (const auto& part : backward)
            for (std::size_t h = 0; h < hyps_.size(); ++h) result[h] += part[h];
        return result;
    }

private:
    // References, then hypotheses unless they are the same.
    std::vector<const Texts*> sides() const {
        return symmetric_ ? std::vector{&refs_} : std::vector{&refs_, &hyps_};
    }

    void place_columns(double max_list_share) {
        const std::size_t orders = index_.orders.size();
        const double all_pairs = double(hyps_.size()) * double(refs_.size());
        // list matches are counted in 16 bits
        std::size_t longest = 0;
        for (const Order& order : index_.orders)
            for (std::int64_t text : hyps_) longest = std::max(longest, order.total(text));
        const bool lists = longest <= std::numeric_limits<std::uint16_t>::max();
        placements_.resize(orders);
        workers_.each(orders, [&](std::size_t k, int) {
            Numbers in_refs = detail::frequencies(index_.orders[k], refs_);
            // a column of a single text is in no pair but that with itself, whose score is known
            if (symmetric_) std::replace(in_refs.begin(), in_refs.end(), 1u, 0u);
            placements_[k] = detail::place_columns(
                symmetric_ ? in_refs : detail::frequencies(index_.orders[k], hyps_), in_refs,
                lists ? all_pairs * max_list_share : 0.0);
        });
        order_words_.push_back(0);
        for (const auto& placement : placements_)
            order_words_.push_back(order_words_.back() + (placement.bits + 63) / 64);
    }

    void distribute_columns() {
        const std::size_t orders = index_.orders.size();
        lists_of_hyp_.resize(orders);
        refs_of_list_.resize(orders);
        const auto one_side = [&](std::size_t k, const Texts& texts, BitWords& bits) {
            return detail::distribute(index_.orders[k], placements_[k], texts, order_words_.back(),
                                      bits.data() + order_words_[k] * lanes);
        };
        workers_.each(orders, [&](std::size_t k, int) {
            detail::CompressedRows lists_of_ref = one_side(k, refs_, bits_.front());
            refs_of_list_[k] = detail::transposed(lists_of_ref, placements_[k].lists);
            lists_of_hyp_[k] = symmetric_ ? std::move(lists_of_ref)
                                          : one_side(k, hyps_, bits_.back());
        });
    }

    std::size_t chunks() const {
        return std::clamp<std::size_t>(hyps_.size() / (4 * lanes), 1, 128);
    }

    template <class Use>
    void each_chunk(Use&& use) const {
        const std::size_t width = problem_.refs.blocks * lanes;
        const std::size_t blocks = blocks_for(hyps_.size()), count = chunks();
        std::vector<Buffer<std::uint16_t>> list_matches(workers_.threads);
        workers_.each(count, [&](std::size_t chunk, int worker) {
            list_matches[worker].resize(rows * index_.orders.size() * width);
            Rows group{};
            const std::size_t first = blocks * chunk / count * lanes;
            const std::size_t last = std::min(blocks * (chunk + 1) / count * lanes, hyps_.size());
            use(chunk, first, last, group, list_matches[worker]);
        });
    }

    template <class Use>
    void each_rows(Use&& use) const {
        const std::size_t width = problem_.refs.blocks * lanes;
        std::vector<Buffer<std::uint16_t>> list_matches(workers_.threads);
        workers_.each((hyps_.size() + rows - 1) / rows, [&](std::size_t i, int worker) {
            list_matches[worker].resize(rows * index_.orders.size() * width);
            Rows group{};
            fill(group, list_matches[worker], i * rows, 0);
            use(group, std::min<std::size_t>(rows, hyps_.size() - i * rows), worker);
        });
    }

    // Prepares `rows` hypotheses from `first` on for comparison with the references from `from` on.
    void fill(Rows& group, Buffer<std::uint16_t>& list_matches, std::size_t first,
              std::size_t from) const {
        const std::size_t width = problem_.refs.blocks * lanes;
        for (std::size_t i = 0; i < list_matches.size(); i += width)
            std::fill(list_matches.begin() + i + from, list_matches.begin() + i + width, 0);
        group.first = first;
        group.list_matches = list_matches.data();
        for (std::size_t i = 0; i < rows; ++i) {
            const bool real = first + i < hyps_.size();
            group.self[i] = real ? slot_of_[hyps_[first + i]] : detail::absent;
            if (!real) continue;
            group.self_score[i] = metric_.self_score(index_, hyps_[first + i]);
            count_lists(first + i, from, list_matches.data() + i * list_matches.size() / rows);
        }
    }

    // Adds the matches that are not in bits.
    void count_lists(std::size_t hyp, std::size_t from, std::uint16_t* counts) const {
        for (std::size_t k = 0; k < index_.orders.size(); ++k) {
            const detail::CompressedRows &lists = lists_of_hyp_[k], &refs = refs_of_list_[k];
            for (std::uint32_t i = lists.starts[hyp]; i < lists.starts[hyp + 1]; ++i) {
                const std::uint32_t list = lists.values[i], start = refs.starts[list];
                for (std::uint32_t j = refs.starts[list + 1]; j-- > start;) {
                    if (refs.values[j] < from) break;
                    ++counts[refs.values[j]];
                }
            }
            counts += problem_.refs.blocks * lanes;
        }
    }

    static double sum_of_lanes(const double* v) {
        return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
    }

    using BitWords = Buffer<std::uint64_t>;

    const Index& index_;
    Texts hyps_, refs_;
    bool symmetric_;
    const Metric& metric_;
    const PairKernels<typename Metric::Problem>& kernels_;
    const Workers& workers_;
    std::vector<detail::Placement> placements_;
    std::vector<detail::CompressedRows> lists_of_hyp_, refs_of_list_;  // (orders)
    Numbers order_words_;
    std::vector<BitWords> bits_;                             // (sides)
    std::vector<typename Metric::Precomputed> precomputed_;  // (sides)
    Texts slot_of_;  // (texts) index among the references, or `absent`
    typename Metric::Problem problem_{};
};

}  // namespace minrisk
