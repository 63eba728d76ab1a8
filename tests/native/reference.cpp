#include "reference.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace reference {

// ---- words and tokens

static bool is_space(char32_t c) {
    static const Text spaces =
        U"\t\n\v\f\r\x1c\x1d\x1e\x1f \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
        U"\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000";
    return spaces.find(c) != spaces.npos;
}

Strings split(const Text& text) {
    Strings words(1);
    for (char32_t c : text) {
        if (!is_space(c)) words.back().push_back(c);
        else if (!words.back().empty()) words.emplace_back();
    }
    if (words.back().empty()) words.pop_back();
    return words;
}

static Text strip_end(Text text) {
    while (!text.empty() && is_space(text.back())) text.pop_back();
    return text;
}

static Text strip(Text text) {
    text = strip_end(text);
    std::reverse(text.begin(), text.end());
    text = strip_end(text);
    std::reverse(text.begin(), text.end());
    return text;
}

Strings characters(const Text& text, bool whitespace) {
    Strings result;
    for (char32_t c : text)
        if (whitespace || !is_space(c)) result.emplace_back(1, c);
    return result;
}

// Words of chrF++: one mark is split off, the last before the first.
Strings words_and_marks(const Text& text) {
    const Text marks = U"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
    const auto is_mark = [&](char32_t c) { return marks.find(c) != marks.npos; };
    Strings result;
    for (const Text& word : split(text)) {
        if (word.size() > 1 && is_mark(word.back())) {
            result.push_back(word.substr(0, word.size() - 1));
            result.push_back(word.substr(word.size() - 1));
        } else if (word.size() > 1 && is_mark(word.front())) {
            result.push_back(word.substr(0, 1));
            result.push_back(word.substr(1));
        } else {
            result.push_back(word);
        }
    }
    return result;
}

static Text replace(const Text& text, const Text& old, const Text& by) {
    Text result;
    for (std::size_t i = 0; i < text.size();) {
        const bool found = text.compare(i, old.size(), old) == 0;
        result += found ? by : text.substr(i, 1);
        i += found ? old.size() : 1;
    }
    return result;
}

// As a regular expression of one or two characters would: `rewrite(part)` gives what stands for a
// part of `length` characters, or nothing at all where it does not match.
template <class Rewrite>
static Text substitute(const Text& text, std::size_t length, Rewrite rewrite) {
    Text result;
    for (std::size_t i = 0; i < text.size();) {
        const Text part = text.substr(i, length);
        const Text by = part.size() == length ? rewrite(part) : Text();
        result += by.empty() ? part.substr(0, 1) : by;
        i += by.empty() ? 1 : length;
    }
    return result;
}

// [!-&(-+/:-@\[-`{-~] -> " \0 ", ([^0-9])([.,]) -> "\1 \2 ", ([.,])([^0-9]) -> " \1 \2",
// ([0-9])- -> "\1 - "
static Text split_marks(Text text) {
    const auto is_digit = [](char32_t c) { return U'0' <= c && c <= U'9'; };
    const auto is_point = [](char32_t c) { return c == U'.' || c == U','; };
    const Text marks = U"!\"#$%&()*+/:;<=>?@[\\]^_`{|}~", space = U" ";
    text = substitute(text, 1, [&](const Text& c) {
        return marks.find(c[0]) != marks.npos ? space + c + space : Text();
    });
    text = substitute(text, 2, [&](const Text& pair) {
        if (is_digit(pair[0]) || !is_point(pair[1])) return Text();
        return pair.substr(0, 1) + space + pair.substr(1) + space;
    });
    text = substitute(text, 2, [&](const Text& pair) {
        if (!is_point(pair[0]) || is_digit(pair[1])) return Text();
        return space + pair.substr(0, 1) + space + pair.substr(1);
    });
    return substitute(text, 2, [&](const Text& pair) {
        if (!is_digit(pair[0]) || pair[1] != U'-') return Text();
        return pair.substr(0, 1) + space + pair.substr(1) + space;
    });
}

static Text tokenize_13a(Text text) {
    for (const auto& [old, by] : std::vector<std::pair<Text, Text>>{
             {U"<skipped>", U""}, {U"-\n", U""}, {U"\n", U" "}, {U"&quot;", U"\""},
             {U"&amp;", U"&"}, {U"&lt;", U"<"}, {U"&gt;", U">"}})
        text = replace(text, old, by);
    return split_marks(U" " + text + U" ");
}

static Text tokenize_chinese(const Text& text) {
    return split_marks(substitute(strip(text), 1, [](const Text& part) {
        const char32_t c = part[0];
        const bool chinese =
            (c >= 0x2001 && c <= 0x2a6d) || (c >= 0x2e80 && c <= 0x2fdf) ||
            (c >= 0x2ff0 && c <= 0x303f) || (c >= 0x3100 && c <= 0x312f) ||
            (c >= 0x31a0 && c <= 0x31ef) || (c >= 0x3200 && c <= 0x4db5) ||
            (c >= 0x4e00 && c <= 0x9fbb) || (c >= 0xf900 && c <= 0xfa2d) ||
            (c >= 0xfa30 && c <= 0xfa6a) || (c >= 0xfa70 && c <= 0xfad9) ||
            (c >= 0xfe10 && c <= 0xfe1f) || (c >= 0xfe30 && c <= 0xfe4f) ||
            (c >= 0xff00 && c <= 0xffef);
        return chinese ? U" " + part + U" " : Text();
    }));
}

Strings tokens(const Text& text, minrisk::Tokenizer tokenizer) {
    switch (tokenizer) {
        case minrisk::Tokenizer::none: return split(text);
        case minrisk::Tokenizer::characters: return characters(text, false);
        case minrisk::Tokenizer::mteval_13a: return split(tokenize_13a(strip_end(text)));
        case minrisk::Tokenizer::chinese: return split(tokenize_chinese(text));
    }
    return {};
}

// ---- n-grams and their matches

std::vector<Counts> Numbering::counts(const minrisk::ChrfFrontEnd& front_end, const Text& text) {
    auto result = counts(characters(text, front_end.whitespace), front_end.order);
    for (Counts& order : counts(words_and_marks(text), front_end.word_order))
        result.push_back(std::move(order));
    return result;
}

std::vector<Counts> Numbering::counts(const minrisk::BleuFrontEnd& front_end, const Text& text) {
    return counts(tokens(text, front_end.tokenizer), front_end.order);
}

std::vector<Counts> Numbering::counts(const Strings& tokens, int orders) {
    Text numbers;
    for (const Text& token : tokens)
        numbers.push_back(numbers_.try_emplace(token, char32_t(numbers_.size())).first->second);
    std::vector<Counts> result(orders);
    for (std::size_t n = 1; n <= result.size(); ++n)
        for (std::size_t i = 0; i + n <= numbers.size(); ++i) ++result[n - 1][numbers.substr(i, n)];
    return result;
}

std::vector<Counts> average(const std::vector<std::vector<Counts>>& texts,
                                   const std::vector<double>& weights) {
    std::vector<Counts> result(texts.empty() ? 0 : texts.front().size());
    for (std::size_t t = 0; t < texts.size(); ++t)
        for (std::size_t k = 0; k < result.size(); ++k)
            for (const auto& [ngram, count] : texts[t][k]) result[k][ngram] += weights[t] * count;
    return result;
}

double total(const Counts& counts) {
    double sum = 0;
    for (const auto& entry : counts) sum += entry.second;
    return sum;
}

double match(const Counts& hyp, const Counts& ref) {
    double sum = 0;
    for (const auto& [ngram, count] : hyp)
        if (const auto found = ref.find(ngram); found != ref.end())
            sum += std::min(count, found->second);
    return sum;
}

Statistics statistics(const std::vector<Counts>& hyp, const std::vector<Counts>& ref) {
    Statistics result;
    for (std::size_t k = 0; k < hyp.size(); ++k)
        result.push_back({total(hyp[k]), total(ref[k]), match(hyp[k], ref[k])});
    return result;
}

// ---- scores

static double f_score(double precision, double recall, double factor) {
    const double bottom = factor * precision + recall;
    return bottom > 0 ? (1 + factor) * precision * recall / bottom : 0;
}

double score(const minrisk::Chrf& metric, const Statistics& orders) {
    double precision = 0, recall = 0, sum = 0, have = 0;
    for (const auto& [hyp, ref, match] : orders) {
        if (hyp == 0 || ref == 0) continue;
        precision += match / hyp;
        recall += match / ref;
        sum += f_score(match / hyp, match / ref, metric.factor);
        ++have;
    }
    if (metric.smoothed) return 100 * sum / double(orders.size());
    return have > 0 ? 100 * f_score(precision / have, recall / have, metric.factor) : 0;
}

double score(const minrisk::Bleu& metric, Statistics orders) {
    using minrisk::Smoothing;
    const auto [length, ref_length, _] = orders.front();
    if (metric.smoothing == Smoothing::add)
        for (std::size_t k = 1; k < orders.size(); ++k)
            orders[k].hyp += metric.value, orders[k].match += metric.value;
    const std::size_t all = orders.size();
    std::erase_if(orders, [](const auto& order) { return order.hyp == 0; });
    if (length == 0 || (orders.size() < all && !metric.effective_order)) return 0;
    double least = metric.smoothing == Smoothing::exponential ? 0.5
                   : metric.smoothing == Smoothing::floor     ? metric.value
                                                              : 0;
    double logs = 0;
    for (std::size_t k = 0; k < orders.size(); ++k) {
        double match = orders[k].match;
        if (k > 0 && match < std::min(1.0, least) * (1 - minrisk::Bleu::rounding)) {
            match = least;
            if (metric.smoothing == Smoothing::exponential) least /= 2;
        }
        if (match == 0) return 0;
        logs += std::log(match / orders[k].hyp);
    }
    return 100 * std::exp(logs / double(orders.size()) + std::min(0.0, 1 - ref_length / length));
}

// ---- TER

struct Alignment {
    int distance = 0;
    std::vector<bool> hyp_wrong, ref_wrong;
    std::vector<int> hyp_at;  // the last word of the hypothesis up to each of the reference; -1
};

// Edit distance with a beam of cells around the diagonal, as sacreBLEU has it.
static Alignment align(const Words& hyp, const Words& ref) {
    constexpr int beam = 25, infinity = 1 << 28;
    const int rows = int(hyp.size()), columns = int(ref.size());
    const double ratio = rows > 0 ? double(columns) / rows : 1;
    const int width = beam < ratio / 2 ? int(std::ceil(ratio / 2 + beam)) : beam;
    struct Cell {
        int cost;
        char op;
    };
    std::vector<Cell> cells((rows + 1) * (columns + 1), Cell{infinity, 'x'});
    const auto at = [&](int i, int j) -> Cell& { return cells[i * (columns + 1) + j]; };
    for (int j = 0; j <= columns; ++j) at(0, j) = {j, 'i'};
    for (int i = 1; i <= rows; ++i) {
        const int diagonal = int(std::floor(i * ratio));
        const int end = i == rows ? columns + 1 : std::min(columns + 1, diagonal + width);
        for (int j = std::max(0, diagonal - width); j < end; ++j) {
            Cell best{infinity, 'x'};
            const auto consider = [&](Cell from, int cost, char op) {
                if (from.cost + cost < best.cost) best = {from.cost + cost, op};
            };
            if (j > 0) {
                const bool same = hyp[i - 1] == ref[j - 1];
                consider(at(i - 1, j - 1), !same, same ? ' ' : 's');
            }
            consider(at(i - 1, j), 1, 'd');
            if (j > 0) consider(at(i, j - 1), 1, 'i');
            at(i, j) = best;
        }
    }
    Alignment result{at(rows, columns).cost, std::vector<bool>(rows),
                     std::vector<bool>(columns), std::vector<int>(columns)};
    for (int i = rows, j = columns; i > 0 || j > 0;) {
        const char op = at(i, j).op;
        if (op != 'i') result.hyp_wrong[--i] = op != ' ';
        if (op != 'd') {
            result.ref_wrong[--j] = op != ' ';
            result.hyp_at[j] = op == 'i' ? i - 1 : i;
        }
    }
    return result;
}

static Words shifted(const Words& words, int start, int size, int target) {
    const auto part = [&](int from, int to) {
        to = std::min(to, int(words.size()));
        return Words(words.begin() + std::min(from, to), words.begin() + to);
    };
    const int end = start + size, last = int(words.size());
    std::vector<Words> parts;
    if (target < start)
        parts = {part(0, target), part(start, end), part(target, start), part(end, last)};
    else if (target > end)
        parts = {part(0, start), part(end, target), part(start, end), part(target, last)};
    else
        parts = {part(0, start), part(end, size + target), part(start, end),
                 part(size + target, last)};
    Words result;
    for (const Words& words_of_part : parts)
        result.insert(result.end(), words_of_part.begin(), words_of_part.end());
    return result;
}

struct Shift {
    std::tuple<int, int, int, int> rank;  // edits that it saves, size, minus start, minus target
    Words words;
};

// The shift that saves most; `checked` counts the candidates of a pair of texts.
static Shift best_shift(const Words& hyp, const Words& ref, int& checked) {
    constexpr int longest = 10, farthest = 50, most = 1000;
    const Alignment before = align(hyp, ref);
    const auto any = [](const std::vector<bool>& wrong, int from, int to) {
        return std::find(wrong.begin() + from, wrong.begin() + to, true) != wrong.begin() + to;
    };
    Shift best{{0, 0, 0, 0}, hyp};
    for (int h = 0; h < int(hyp.size()); ++h)
        for (int r = 0; r < int(ref.size()); ++r)
            for (int size = 1; std::abs(h - r) <= farthest && size <= longest &&
                               h + size <= int(hyp.size()) && r + size <= int(ref.size()) &&
                               hyp[h + size - 1] == ref[r + size - 1]; ++size) {
                const int at = before.hyp_at[r];
                if (!any(before.hyp_wrong, h, h + size) || !any(before.ref_wrong, r, r + size) ||
                    (h <= at && at < h + size))
                    continue;
                for (int offset = -1, previous = -1; offset < size; ++offset) {
                    const int target = r + offset < 0 ? 0 : before.hyp_at[r + offset] + 1;
                    if (target == previous) continue;
                    previous = target;
                    ++checked;
                    const Words words = shifted(hyp, h, size, target);
                    const int saved = before.distance - align(words, ref).distance;
                    const Shift candidate{{saved, size, -h, -target}, words};
                    if (saved > 0 && candidate.rank > best.rank) best = candidate;
                }
                if (checked >= most) return best;
            }
    return best;
}

int ter_edits(Words hyp, const Words& ref) {
    constexpr int most = 1000;
    if (ref.empty()) return int(hyp.size());
    int shifts = 0, checked = 0;
    for (;; ++shifts) {
        const Shift shift = best_shift(hyp, ref, checked);
        if (std::get<0>(shift.rank) == 0 || checked >= most) break;
        hyp = shift.words;
    }
    return shifts + align(hyp, ref).distance;
}

}  // namespace reference
