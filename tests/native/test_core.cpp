// The native core against the formulas, without Python: for sanitizers and emulators.
// Ends with "N passed, M failed".

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../../cpp/ter.hpp"
#include "checks.hpp"

using namespace minrisk;

namespace {

using checks::corpus_of;
using checks::Case;
using reference::Strings;

int passed = 0, failed = 0;

void check(bool condition, const char* what) {
    condition ? ++passed : ++failed;
    if (!condition) std::printf("FAILED: %s\n", what);
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

// Some texts as hypotheses, and two averages of about half of them each.
Case case_of(const Strings& texts, std::mt19937& random) {
    const std::size_t count = texts.size(), half = count / 2;
    Case given{texts, {}, {}, {0, std::int64_t(half), std::int64_t(count)}};
    for (std::size_t i = 0; i < count; i += 1 + random() % 2) given.hyps.push_back(std::int64_t(i));
    for (std::size_t i = 0; i < count; ++i)
        given.weights.push_back(1.0 / double(i < half ? half : count - half));
    return given;
}

template <class FrontEnd, class Metric>
void check_metric(const Case& given, const FrontEnd& front_end, const Metric& metric) {
    checks::check_scores(given, front_end, metric, {1, 3}, check);
    checks::check_parts(given, front_end, metric, given.texts.size() / 3, check);
}

void check_texts(const Strings& texts, int order, std::mt19937& random) {
    const Case given = case_of(texts, random);
    check_metric(given, ChrfFrontEnd{order, 0, false}, Chrf{std::size_t(order), 4.0, false});
    check_metric(given, ChrfFrontEnd{order, 2, true}, Chrf{std::size_t(order), 1.0, true});
    const BleuFrontEnd characters{order, Tokenizer::characters};
    for (bool effective : {true, false})
        for (Bleu metric : {Bleu{}, Bleu{Smoothing::add, 0.5}, Bleu{Smoothing::floor, 0.1},
                            Bleu{Smoothing::none}}) {
            metric.effective_order = effective;
            check_metric(given, characters, metric);
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
    InternTable intern(0);
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

// The same bits whatever the secret of the hashes.
void check_secrets(std::mt19937& random) {
    const HashSecret own = hash_secret;
    const Strings texts = random_texts(random, 40, 30, 60);
    std::vector<double> first;
    for (const HashSecret& secret : {own, random_hash_secret(), HashSecret{}, HashSecret{1, 1}}) {
        hash_secret = secret;
        ChrfTexts batch(corpus_of(texts), {6, 2, false});
        Texts all;
        for (std::size_t i = 0; i < texts.size(); ++i) all.push_back(std::int64_t(i));
        const std::vector<double> shares(texts.size(), 1.0 / double(texts.size()));
        const std::int64_t offsets[] = {0, std::int64_t(texts.size())};
        const Chrf metric{6, 4.0, false};
        const ChrfTask average{batch, all, {offsets, all.data(), shares.data(), 1}, metric};
        auto found = average.scores(portable_kernels, Workers{});
        const auto parts = partial_statistics(batch, batch, all, shares.data());
        for (const auto& more : {parts, finalize(batch, all, parts.data(), metric)})
            found.insert(found.end(), more.begin(), more.end());
        if (first.empty()) first = found;
        check(found == first, "the same bits whatever the secret");
    }
    hash_secret = own;
}

Strings tokens(const std::u32string& text, Tokenizer tokenizer) {
    const Corpus corpus = tokenized(corpus_of({text}), tokenizer);
    return reference::split(std::u32string(corpus[0]));
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
    each_word_and_mark(U"  (hi) there. ! ab\x1c" U"cd",
                       [&](auto word) { words.emplace_back(word); });
    check(words == Strings{U"(hi", U")", U"there", U".", U"!", U"ab", U"cd"}, "words");
}

// Several threads of the caller use the same texts at once, from before they are indexed.
void check_shared_texts(std::mt19937& random) {
    const Strings texts = random_texts(random, 30, 30, 60);
    const Texts all = checks::first_texts(texts.size());
    const std::vector<double> shares(texts.size(), 1.0 / double(texts.size()));
    const std::int64_t offsets[] = {0, std::int64_t(texts.size())};
    const Chrf metric{6, 4.0, false};
    ChrfTexts batch(corpus_of(texts), {});
    const ChrfTask average{batch, all, {offsets, all.data(), shares.data(), 1}, metric};
    std::vector<std::vector<double>> scores(4), finals(4);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < scores.size(); ++i)
        threads.emplace_back([&, i] {
            scores[i] = average.scores(portable_kernels, Workers{2});
            const auto parts = partial_statistics(batch, batch, all, shares.data());
            finals[i] = finalize(batch, all, parts.data(), metric);
        });
    for (std::thread& thread : threads) thread.join();
    for (std::size_t i = 1; i < scores.size(); ++i)
        check(scores[i] == scores[0] && finals[i] == finals[0], "threads share texts");
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

void check_ter(std::mt19937& random) {
    TerCounter counter;
    for (int round = 0; round < 300; ++round) {
        reference::Words texts[2];
        for (auto& text : texts) {
            text.resize(random() % (round % 10 == 0 ? 150 : 20));
            for (auto& word : text) word = random() % 8;
        }
        check(counter.edits(texts[0], texts[1]) == reference::ter_edits(texts[0], texts[1]), "TER");
        check(counter.edits(texts[0], texts[0]) == 0, "TER of equal texts is 0");
    }
    const reference::Words one{1, 2, 3, 4, 5, 6, 7}, moved{5, 6, 1, 2, 3, 4, 7};
    check(counter.edits(one, moved) == 1, "a block that moved is one edit");
}

}  // namespace

int main() {
    std::mt19937 random(7);
    check_words();
    check_tokens();
    check_interruption();
    check_shared_texts(random);
    check_hashes();
    check_secrets(random);
    check_ter(random);
    check_texts({U"", U"", U" "}, 6, random);
    check_texts({U"a", U"a a", std::u32string(69, U'a')}, 6, random);
    std::u32string distinct;
    for (char32_t c = 0x4e00; c < 0x4e00 + 200; ++c) distinct.push_back(c);
    check_texts({distinct, distinct + U"!", distinct + U"?"}, 6, random);
    for (std::size_t alphabet : {2, 5, 30, 3000, 15000})
        for (std::size_t count : {1, 7, 8, 9, 33})
            check_texts(random_texts(random, count, alphabet, 60), alphabet == 5 ? 9 : 6, random);
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
