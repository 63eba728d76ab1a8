// Edits of the translation edit rate (Snover et al. 2006) with sacreBLEU's numbers: blocks of words
// are shifted as long as that reduces the edit distance.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

namespace minrisk {

using Words = std::span<const std::int64_t>;

// Bit-parallel edit distance to a reference of at most 64 words (Hyyrö 2003). It considers all
// paths and TER only those near the diagonal, so it is a lower bound of TER's edit distance.
class BitDistance {
public:
    void set_reference(Words ref) {
        for (const auto word : ref_) masks_[word] = 0;
        ref_.clear();
        if (ref.size() <= 64) ref_.assign(ref.begin(), ref.end());
        for (std::size_t j = 0; j < ref_.size(); ++j) {
            if (std::size_t(ref_[j]) >= masks_.size()) masks_.resize(ref_[j] + 1);
            masks_[ref_[j]] |= std::uint64_t(1) << j;
        }
    }

    // Stores the columns of these words, for words with the same prefix.
    void set_words(Words words) {
        columns_.assign(1, {~std::uint64_t(0), 0, int(ref_.size())});
        for (const auto word : words) columns_.push_back(step(columns_.back(), word));
    }

    // A lower bound of the distance of these words, the first `same` of which are those of
    // `set_words`; 0 for references that are too long.
    int lower_bound(Words words, std::size_t same) const {
        if (ref_.empty()) return 0;
        Column column = columns_[same];
        for (std::size_t i = same; i < words.size(); ++i) column = step(column, words[i]);
        return column.distance;
    }

private:
    struct Column {
        std::uint64_t up, down;  // reference words at which the distance grows or shrinks by 1
        int distance;
    };

    Column step(const Column& from, std::int64_t word) const {
        if (ref_.empty()) return from;
        const std::uint64_t equal = std::size_t(word) < masks_.size() ? masks_[word] : 0;
        const std::uint64_t zero = (((equal & from.up) + from.up) ^ from.up) | equal | from.down;
        std::uint64_t plus = from.down | ~(zero | from.up), minus = zero & from.up;
        const std::size_t last = ref_.size() - 1;
        const int distance = from.distance + int(plus >> last & 1) - int(minus >> last & 1);
        plus = plus << 1 | 1;
        minus <<= 1;
        return {minus | ~(zero | plus), plus & zero, distance};
    }

    std::vector<std::int64_t> ref_;  // a copy: its masks are cleared for the next reference
    std::vector<std::uint64_t> masks_;
    std::vector<Column> columns_;
};

// Counts the edits of pairs of texts; the memory is reused from pair to pair.
class TerCounter {
public:
    int edits(Words hyp, Words ref) {
        if (ref.empty()) return int(hyp.size());
        ref_ = ref;
        bits_.set_reference(ref);
        words_.assign(hyp.begin(), hyp.end());
        lay_out_rows();
        candidates_checked_ = 0;
        int shifts = 0;
        fill_matrix();
        while (find_shift() && candidates_checked_ < max_candidates) {
            words_.swap(best_words_);
            ++shifts;
            fill_matrix();
        }
        return shifts + cost_[last_cell()];
    }

private:
    static constexpr std::size_t max_size = 10, max_distance = 50;  // of a shift
    static constexpr int max_candidates = 1000, beam = 25, infinity = 1 << 28;

    enum Op : char { none, match, substitute, remove, insert };

    // A row of the matrix of edit distances.
    struct Row {
        std::size_t begin, end;  // columns in the band
        std::size_t offset;      // of column 0, which is only virtual if the band begins later
    };

    std::size_t cell(std::size_t i, std::size_t j) const { return rows_[i].offset + j; }
    std::size_t last_cell() const { return cell(words_.size(), ref_.size()); }

    // The columns of row i in the band around the (slanted) diagonal.
    std::pair<std::size_t, std::size_t> band(std::size_t i) const {
        if (i == 0) return {0, ref_.size() + 1};
        const double ratio = double(ref_.size()) / double(words_.size());
        const int width = beam < ratio / 2 ? int(std::ceil(ratio / 2 + beam)) : beam;
        const auto diagonal = std::int64_t(std::floor(double(i) * ratio));
        const auto end = std::min<std::int64_t>(ref_.size() + 1, diagonal + width);
        return {std::size_t(std::max<std::int64_t>(0, diagonal - width)),
                i == words_.size() ? ref_.size() + 1 : std::size_t(end)};
    }

    // Only the band is stored, so that memory grows with the length of the texts and not with its
    // square. Each row has a margin of infinite costs for what the next row reads outside of the
    // band: the cell before it, and those up to the end of the next row's band.
    void lay_out_rows() {
        rows_.clear();
        std::size_t size = 0;
        for (std::size_t i = 0; i <= words_.size(); ++i) {
            const auto [begin, end] = band(i);
            rows_.push_back({begin, end, size + 1 - begin});
            size += (i < words_.size() ? std::max(end, band(i + 1).second) : end) + 1 - begin;
        }
        cost_.assign(size, infinity);
        moved_cost_.assign(size, infinity);
        op_.assign(size, none);
        for (std::size_t j = 0; j <= ref_.size(); ++j)
            cost_[cell(0, j)] = int(j), op_[cell(0, j)] = insert;
    }

    void fill_matrix() {
        for (std::size_t i = 1; i <= words_.size(); ++i) fill_row(i);
        align();
        bits_.set_words(words_);
    }

    // On equal costs a match or substitution wins over a deletion, and that over an insertion.
    void fill_row(std::size_t i) {
        const auto [begin, end, offset] = rows_[i];
        const int* above = &cost_[rows_[i - 1].offset];
        int* cost = &cost_[offset];
        Op* op = &op_[offset];
        for (std::size_t j = begin; j < end; ++j) {
            int best = infinity;
            Op best_op = none;
            const auto consider = [&](int candidate, Op candidate_op) {
                if (candidate < best) best = candidate, best_op = candidate_op;
            };
            if (j > 0) {
                const bool same = words_[i - 1] == ref_[j - 1];
                consider(above[j - 1] + !same, same ? match : substitute);
            }
            consider(above[j] + 1, remove);
            if (j > 0) consider(cost[j - 1] + 1, insert);
            cost[j] = best;
            op[j] = best_op;
        }
    }

    // Follows the cheapest path back: which words are edited, and for each word of the reference
    // the word of the hypothesis that is aligned with it or precedes it.
    void align() {
        aligned_.assign(ref_.size(), -1);
        hyp_wrong_.assign(words_.size() + 1, 0);
        ref_wrong_.assign(ref_.size() + 1, 0);
        std::size_t i = words_.size(), j = ref_.size();
        while (i > 0 || j > 0) {
            const Op op = op_[cell(i, j)];
            if (op != insert) hyp_wrong_[i--] = op != match;
            if (op != remove) {
                ref_wrong_[j--] = op != match;
                aligned_[j] = std::int64_t(op == insert ? i : i + 1) - 1;
            }
        }
        // prefix sums, for the number of edited words in a range
        for (i = 1; i < hyp_wrong_.size(); ++i) hyp_wrong_[i] += hyp_wrong_[i - 1];
        for (j = 1; j < ref_wrong_.size(); ++j) ref_wrong_[j] += ref_wrong_[j - 1];
    }

    // Finds the shift that saves most edits; on ties the longest block, then the first, then the
    // first target wins.
    bool find_shift() {
        const int before = cost_[last_cell()];
        best_ = {-(before - 1), 0, 0, 0};  // a shift must save at least one edit
        bool found = false;
        for (std::size_t h = 0; h < words_.size(); ++h) {
            for (std::size_t r = h > max_distance ? h - max_distance : 0;
                 r < std::min(ref_.size(), h + max_distance + 1); ++r) {
                for (std::size_t size = 1; size <= max_size && h + size <= words_.size() &&
                                           r + size <= ref_.size() &&
                                           words_[h + size - 1] == ref_[r + size - 1]; ++size) {
                    if (is_candidate(h, r, size)) found |= try_targets(h, r, size);
                    if (candidates_checked_ >= max_candidates) return found;
                }
            }
        }
        return found;
    }

    bool is_candidate(std::size_t h, std::size_t r, std::size_t size) const {
        const auto place = aligned_[r];
        return hyp_wrong_[h + size] > hyp_wrong_[h] && ref_wrong_[r + size] > ref_wrong_[r] &&
               (place < std::int64_t(h) || place >= std::int64_t(h + size));
    }

    bool try_targets(std::size_t h, std::size_t r, std::size_t size) {
        bool found = false;
        std::int64_t previous = -1;
        for (std::size_t after = 0; after <= size; ++after) {
            const std::int64_t target = r + after == 0 ? 0 : aligned_[r + after - 1] + 1;
            if (target == previous) continue;
            previous = target;
            ++candidates_checked_;
            shift(h, size, std::size_t(target));
            const Rank limit{std::get<0>(best_), size, -std::int64_t(h), -target};
            // at equal costs the other components of the rank may still decide
            const int bound = -std::get<0>(best_) + (limit > best_ ? 1 : 0);
            const std::size_t same = std::min(h, std::size_t(target));
            if (bits_.lower_bound(moved_, same) >= bound) continue;
            const int cost = cost_below(bound, same);
            if (cost >= bound) continue;
            best_ = {-cost, size, -std::int64_t(h), -target};
            best_words_ = moved_;
            found = true;
        }
        return found;
    }

    // Sets moved_ to the words after a shift.
    void shift(std::size_t start, std::size_t size, std::size_t target) {
        moved_ = words_;
        const auto begin = moved_.begin();
        const std::size_t end = start + size;
        if (target < start)
            std::rotate(begin + target, begin + start, begin + end);
        else if (target > end)
            std::rotate(begin + start, begin + end, begin + target);
        else  // a target inside the block counts from its end
            std::rotate(begin + start, begin + end,
                        begin + std::min(moved_.size(), size + target));
    }

    // The edit distance of moved_ if it is below `bound`, else any number from `bound` on. The
    // first `same` words are unchanged.
    int cost_below(int bound, std::size_t same) {
        const int* above = &cost_[rows_[same].offset];
        for (std::size_t i = same + 1; i <= moved_.size(); ++i) {
            const auto [begin, end, offset] = rows_[i];
            int* cost = &moved_cost_[offset];
            int least = infinity;
            for (std::size_t j = begin; j < end; ++j) {
                int best = above[j] + 1;
                if (j > 0) {
                    best = std::min({best, above[j - 1] + (moved_[i - 1] != ref_[j - 1]),
                                     cost[j - 1] + 1});
                }
                cost[j] = std::min(best, infinity);
                least = std::min(least, cost[j]);
            }
            if (least >= bound) return least;  // costs only grow from row to row
            above = cost;
        }
        return above[ref_.size()];
    }

    using Rank = std::tuple<int, std::size_t, std::int64_t, std::int64_t>;

    Words ref_;
    BitDistance bits_;
    std::vector<std::int64_t> words_, moved_, best_words_, aligned_;
    std::vector<Row> rows_;
    std::vector<int> cost_, moved_cost_;  // of words_ and of moved_
    std::vector<int> hyp_wrong_, ref_wrong_;
    std::vector<Op> op_;
    Rank best_;
    int candidates_checked_ = 0;
};

}  // namespace minrisk
