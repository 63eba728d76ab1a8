// The native core against a naive implementation, without Python: for sanitizers and emulators.
// Ends with "N passed, M failed".

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "../../cpp/bleu.hpp"
#include "../../cpp/chrf.hpp"
#include "../../cpp/simd.hpp"
#include "../../cpp/ter.hpp"

using namespace minrisk;

namespace {

using Strings = std::vector<std::u32string>;
using Counts = std::map<std::u32string, double>;

int passed = 0, failed = 0;

void check(bool condition, const char* what) {
    condition ? ++passed : ++failed;
    if (!condition) std::printf("FAILED: %s\n", what);
}

Counts naive_counts(const std::u32string& text, std::size_t n) {
    std::u32string kept;
    for (char32_t c : text)
        if (!is_space(c)) kept.push_back(c);
    Counts counts;
    for (std::size_t i = 0; i + n <= kept.size(); ++i) ++counts[kept.substr(i, n)];
    return counts;
}

double total(const Counts& counts) {
    double sum = 0;
    for (const auto& entry : counts) sum += entry.second;
    return sum;
}

// Of characters, with a weighted set of texts.
std::vector<Statistics> naive_statistics(const std::u32string& hyp, const Strings& refs,
                                         const std::vector<double>& weights, int order) {
    std::vector<Statistics> result;
    for (int n = 1; n <= order; ++n) {
        const Counts ours = naive_counts(hyp, n);
        Counts theirs;
        for (std::size_t r = 0; r < refs.size(); ++r)
            for (const auto& [ngram, count] : naive_counts(refs[r], n))
                theirs[ngram] += weights[r] * count;
        double match = 0;
        for (const auto& [ngram, count] : ours)
            if (theirs.count(ngram)) match += std::min(count, theirs[ngram]);
        result.push_back({total(ours), total(theirs), match});
    }
    return result;
}

double naive_score(const Chrf& metric, const std::vector<Statistics>& orders) {
    double precision = 0, recall = 0;
    int have = 0;
    for (const auto& [hyp, ref, match] : orders)
        if (hyp > 0 && ref > 0) precision += match / hyp, recall += match / ref, ++have;
    return have ? 100 * f_score(precision / have, recall / have, metric.factor) : 0.0;
}

double naive_score(const Bleu& metric, const std::vector<Statistics>& orders) {
    double product = 1, half = 1;
    int have = 0;
    for (auto [hyp, ref, match] : orders) {
        if (hyp == 0) break;
        if (++have > 1 && metric.smoothing == Smoothing::add)
            match += metric.value, hyp += metric.value;
        if (have > 1 && metric.smoothing == Smoothing::exponential && match < half / 2)
            match = half /= 2;
        product *= match / hyp;
    }
    if (have == 0) return 0;
    if (metric.smoothing == Smoothing::add) have = int(orders.size());
    else if (have < int(orders.size()) && !metric.effective_order) return 0;
    return 100 * std::pow(product, 1.0 / have) *
           std::exp(std::min(0.0, 1 - orders[0].ref / orders[0].hyp));
}

Strings random_texts(std::mt19937& random, std::size_t count, std::size_t alphabet,
                     std::size_t longest) {
    Strings texts(count);
    for (auto& text : texts) {
        const std::size_t length = random() % (longest + 1);
        for (std::size_t i = 0; i < length; ++i)
            text.push_back(random() % 8 == 0 ? U' ' : char32_t(0x4e00 + random() % alphabet));
    }
    return texts;
}

Corpus corpus_of(const Strings& texts) {
    Corpus corpus;
    for (const auto& text : texts) {
        corpus.characters.insert(corpus.characters.end(), text.begin(), text.end());
        corpus.close_text();
    }
    return corpus;
}

bool close(const std::vector<double>& a, const std::vector<double>& b) {
    for (std::size_t i = 0; i < a.size(); ++i)
        if (!(std::abs(a[i] - b[i]) < 1e-9)) return false;
    return a.size() == b.size();
}

template <class FrontEnd, class Metric>
void check_metric(const Strings& texts, FrontEnd front_end, const Metric& metric,
                  std::mt19937& random) {
    IndexedTexts batch(corpus_of(texts), front_end);
    const int order = front_end.order;
    const std::size_t count = texts.size();
    Texts hyps, members;
    for (std::size_t i = 0; i < count; ++i) members.push_back(i);
    for (std::size_t i = 0; i < count; i += 1 + random() % 2) hyps.push_back(i);
    std::vector<std::int64_t> single(count + 1), halves{0, std::int64_t(count / 2),
                                                        std::int64_t(count)};
    for (std::size_t i = 0; i <= count; ++i) single[i] = i;
    std::vector<double> ones(count, 1.0), shares(count), mass(count, 1.0 / count);
    for (std::size_t i = 0; i < count; ++i)
        shares[i] = 1.0 / (i < count / 2 ? count / 2 : count - count / 2);

    std::vector<double> pairs, averages, utilities(hyps.size());
    for (std::size_t h = 0; h < hyps.size(); ++h) {
        for (const auto& ref : texts) {
            pairs.push_back(
                naive_score(metric, naive_statistics(texts[hyps[h]], {ref}, {1.0}, order)));
            utilities[h] += pairs.back() / count;
        }
        for (int g = 0; g < 2; ++g) {
            const auto from = halves[g], to = halves[g + 1];
            averages.push_back(naive_score(
                metric, naive_statistics(texts[hyps[h]],
                                         Strings(texts.begin() + from, texts.begin() + to),
                                         {shares.begin() + from, shares.begin() + to}, order)));
        }
    }
    using Work = Task<FrontEnd, Metric>;
    const Work exact{batch, hyps, {single.data(), members.data(), ones.data(), count}, metric};
    const Work split{batch, hyps, {halves.data(), members.data(), shares.data(), 2}, metric};
    Work all = exact;
    all.hyps = members;
    std::vector<double> first;
    for (const Kernels* kernels : available_kernels()) {
        for (int threads : {1, 3}) {
            const Workers workers{threads};
            check(close(exact.scores(*kernels, workers), pairs), "pairs");
            check(close(exact.utility(mass.data(), *kernels, workers), utilities), "utility");
            check(close(split.scores(*kernels, workers), averages), "averages");
            const auto symmetric = all.utility(mass.data(), *kernels, workers);
            if (first.empty()) first = symmetric;
            check(symmetric == first, "the same bits from every kernel and thread");
            for (std::size_t h = 0; h < hyps.size(); ++h)
                check(std::abs(symmetric[hyps[h]] - utilities[h]) < 1e-9, "symmetric utility");
        }
    }
}

// Keys whose hash has `bits` upper bits of 0.
template <class MakeKey, class Hash>
auto colliding(std::size_t count, int bits, MakeKey make_key, Hash hash) {
    std::vector<decltype(make_key(0))> keys;
    for (std::uint64_t i = 0; keys.size() < count; ++i)
        if (hash(make_key(i)) >> (64 - bits) == 0) keys.push_back(make_key(i));
    return keys;
}

double mean_probes(const std::vector<std::uint64_t>& keys) {
    Intern intern(0);
    for (std::uint64_t key : keys) intern(key);
    double probes = 0;
    for (std::uint64_t key : keys) probes += double(intern.probes(key));
    return probes / double(keys.size());
}

std::u32string word_of(std::uint64_t number) {
    std::u32string word;
    for (; number > 0; number /= 26) word.push_back(char32_t('a' + number % 26));
    return word;
}

void check_hashes() {
    const HashSecret own = hash_secret;
    const auto key_of = [](std::uint64_t i) { return (i % 1000) << 32 | i / 1000; };
    const auto hash_key = [](std::uint64_t key) { return hash_of(key); };
    const auto hash_word = [](const auto& word) { return hash_of(std::span(std::as_const(word))); };
    constexpr std::size_t count = 2000;
    const auto keys = colliding(count, 12, key_of, hash_key);
    const auto words = colliding(count, 8, word_of, hash_word);
    check(mean_probes(keys) > 100, "keys collide where the secret is known");
    for (int round = 0; round < 20; ++round) {
        hash_secret = random_hash_secret();
        check(mean_probes(keys) < 20, "keys made for one process do not collide in another");
        const auto still = std::ranges::count_if(
            words, [&](const auto& word) { return hash_word(word) >> 56 == 0; });
        check(still < std::ptrdiff_t(count / 10), "nor do words");
    }
    hash_secret = own;
    // 0x9e3779b97f4a7c15 * 0xf1de83e19937733d = 1: a product with the first is small
    std::vector<std::uint64_t> known;
    for (std::uint64_t i = 1; i <= 10 * count; ++i) known.push_back(i * 0xf1de83e19937733du);
    check(mean_probes(known) < 20, "no fixed multiplier");
}

// The first half of the texts as hypotheses, and all as references that come in two parts.
template <class FrontEnd, class Metric>
void check_evidence(const Strings& texts, FrontEnd front_end, const Metric& metric) {
    const std::size_t count = texts.size(), middle = count / 3, half = (count + 1) / 2;
    IndexedTexts hyps(corpus_of({texts.begin(), texts.begin() + half}), front_end);
    IndexedTexts refs(corpus_of(texts), front_end);
    std::vector<double> shares(count, 1.0 / count), whole(evidence_size(hyps.automata()));
    for (const auto& [from, to] : {std::pair{std::size_t(0), middle}, std::pair{middle, count}}) {
        Texts members;
        for (std::size_t i = from; i < to; ++i) members.push_back(i);
        const auto part = evidence(hyps, refs, members, shares.data() + from);
        for (std::size_t i = 0; i < whole.size(); ++i) whole[i] += part[i];
    }
    Texts rows;
    std::vector<double> expected;
    for (std::size_t h = 0; h < half; ++h) {
        rows.push_back(h);
        expected.push_back(naive_score(
            metric, naive_statistics(texts[h], texts, shares, front_end.order)));
    }
    check(close(verdict(hyps, rows, whole.data(), metric), expected), "evidence in parts");
}

void check_texts(const Strings& texts, int order, std::mt19937& random) {
    const ChrfFrontEnd chrf{order, 0, false};
    check_metric(texts, chrf, Chrf{std::size_t(order), 4.0, false}, random);
    check_evidence(texts, chrf, Chrf{std::size_t(order), 4.0, false});
    const BleuFrontEnd characters{order, Tokenizer::characters};
    for (bool effective : {true, false})
        for (Bleu metric : {Bleu{}, Bleu{Smoothing::add, 0.5}, Bleu{Smoothing::none}}) {
            metric.effective_order = effective;
            check_metric(texts, characters, metric, random);
            check_evidence(texts, characters, metric);
        }
}

// The same bits whatever the secret of the hashes.
void check_secrets(std::mt19937& random) {
    const HashSecret own = hash_secret;
    const Strings texts = random_texts(random, 40, 30, 60);
    std::vector<double> first;
    for (const HashSecret secret : {own, random_hash_secret(), HashSecret{0, 0}, HashSecret{1, 1}}) {
        hash_secret = secret;
        ChrfTexts batch(corpus_of(texts), {6, 2, false});
        Texts all;
        for (std::size_t i = 0; i < texts.size(); ++i) all.push_back(std::int64_t(i));
        const std::vector<double> shares(texts.size(), 1.0 / double(texts.size()));
        const std::int64_t offsets[] = {0, std::int64_t(texts.size())};
        const Chrf metric{6, 4.0, false};
        const ChrfTask average{batch, all, {offsets, all.data(), shares.data(), 1}, metric};
        auto found = average.scores(portable_kernels, Workers{});
        const auto parts = evidence(batch, batch, all, shares.data());
        for (const auto& more : {parts, verdict(batch, all, parts.data(), metric)})
            found.insert(found.end(), more.begin(), more.end());
        if (first.empty()) first = found;
        check(found == first, "the same bits whatever the secret");
    }
    hash_secret = own;
}

Strings tokens(const std::u32string& text, Tokenizer tokenizer) {
    Strings found;
    const Corpus corpus = tokenized(corpus_of({text}), tokenizer);
    each_word(corpus[0], [&](auto word) { found.emplace_back(word); });
    return found;
}

void check_tokens() {
    check(tokens(U"", Tokenizer::mteval_13a).empty(), "no tokens");
    check(tokens(U"&amp;lt;3 1,000.5, 7-8 a-b. .5 ...", Tokenizer::mteval_13a) ==
              Strings{U"<", U"3", U"1,000.5", U",", U"7", U"-", U"8", U"a-b", U".", U".", U"5",
                      U".", U".", U"."},
          "13a");
    check(tokens(U" .5\u6625\u7720 a\n", Tokenizer::chinese) ==
              Strings{U".5", U"\u6625", U"\u7720", U"a"},
          "zh");
}

void check_words() {
    std::vector<std::u32string> words;
    each_word_and_mark(U"  (hi) there. ! ab\x1c" U"cd", [&](auto word) { words.emplace_back(word); });
    check(words == Strings{U"(hi", U")", U"there", U".", U"!", U"ab", U"cd"}, "words");
}

void check_interruption() {
    struct Stop {};
    bool stopped = false;
    try {
        Workers{3, [] { throw Stop{}; }}.each(1000, [](std::size_t, int) {});
    } catch (const Stop&) {
        stopped = true;
    }
    check(stopped, "an exception from the poll reaches the caller");
    stopped = false;
    try {
        Workers{3}.each(1000, [](std::size_t, int worker) {
            if (worker != 0) throw Stop{};
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        });
    } catch (const Stop&) {
        stopped = true;
    }
    check(stopped, "an exception from a helper reaches the caller");
}

std::size_t edit_distance(const std::vector<std::int64_t>& one,
                          const std::vector<std::int64_t>& other) {
    std::vector<std::size_t> row(other.size() + 1);
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= one.size(); ++i) {
        std::size_t diagonal = row[0]++;
        for (std::size_t j = 1; j < row.size(); ++j) {
            const std::size_t substituted = diagonal + (one[i - 1] != other[j - 1]);
            diagonal = row[j];
            row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
        }
    }
    return row.back();
}

// Shifts only ever save edits; their exact number is compared with sacreBLEU's from Python.
void check_ter(std::mt19937& random) {
    TerCounter counter;
    for (int round = 0; round < 300; ++round) {
        std::vector<std::int64_t> texts[2];
        for (auto& text : texts) {
            text.resize(random() % (round % 10 == 0 ? 150 : 20));
            for (auto& word : text) word = random() % 8;
        }
        const auto edits = std::size_t(counter.edits(texts[0], texts[1]));
        const auto longer = std::max(texts[0].size(), texts[1].size());
        check(longer > 24 || edits <= edit_distance(texts[0], texts[1]), "TER is below Levenshtein");
        check(counter.edits(texts[0], texts[0]) == 0, "TER of equal texts is 0");
    }
    const std::vector<std::int64_t> one{1, 2, 3, 4, 5, 6, 7}, moved{5, 6, 1, 2, 3, 4, 7};
    check(counter.edits(one, moved) == 1, "a block that moved is one edit");
}

}  // namespace

int main() {
    std::mt19937 random(7);
    check_words();
    check_tokens();
    check_interruption();
    check_hashes();
    check_secrets(random);
    check_ter(random);
    check_texts({U"", U"", U" "}, 6, random);
    check_texts({U"a", U"a a", U"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}, 6,
                random);
    std::u32string distinct;
    for (char32_t c = 0x4e00; c < 0x4e00 + 200; ++c) distinct.push_back(c);
    check_texts({distinct, distinct + U"!", distinct + U"?"}, 6, random);
    for (std::size_t alphabet : {2, 5, 30, 3000, 15000})
        for (std::size_t count : {1, 7, 8, 9, 33})
            check_texts(random_texts(random, count, alphabet, 60), alphabet == 5 ? 9 : 6, random);
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
