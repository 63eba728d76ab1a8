// Where the time of chrF MBR goes: the stages of the native core, timed one by one, as JSON.
//
// usage: stages FILE REPEATS THREADS...     (FILE: one text per line, UTF-8)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "chrf.hpp"
#include "simd.hpp"

using namespace minrisk;

namespace {

constexpr Chrf metric{6, 4, false};  // order 6, beta 2

void append_utf8(const std::string& line, minrisk::Buffer<char32_t>& out) {
    for (std::size_t i = 0; i < line.size();) {
        const auto byte = static_cast<unsigned char>(line[i++]);
        const int more = byte < 0x80 ? 0 : byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
        char32_t c = more == 0 ? byte : byte & (0x3f >> more);
        for (int k = 0; k < more; ++k) c = c << 6 | (line[i++] & 0x3f);
        out.push_back(c);
    }
}

Corpus read_corpus(const char* path) {
    std::ifstream file(path);
    Corpus corpus;
    for (std::string line; std::getline(file, line); corpus.close_text())
        append_utf8(line, corpus.characters);
    return corpus;
}

Texts all_texts(const Index& index) {
    Texts all(index.texts);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::int64_t(i);
    return all;
}

// What one pair of texts costs, on average over all pairs of different texts.
struct Work {
    double words = 0, list_increments = 0, pairs = 0;
};

// As `Pairs` places its columns.
Work work_of(const Index& index, const Kernels& kernels) {
    const double texts = double(index.texts);
    Work work;
    work.pairs = texts * (texts - 1) / 2;
    for (const Order& order : index.orders) {
        Numbers in_texts = detail::frequencies(order, all_texts(index));
        std::replace(in_texts.begin(), in_texts.end(), 1u, 0u);
        const auto placed = detail::place_columns(in_texts, in_texts, texts * texts * kernels.max_list_share);
        work.words += (placed.bits + 63) / 64;
        for (std::size_t c = 0; c < in_texts.size(); ++c)
            if (placed.place[c] != placed.nowhere && placed.place[c] >= placed.list)
                work.list_increments += double(in_texts[c]) * (in_texts[c] - 1) / 2 / work.pairs;
    }
    return work;
}

class Stopwatch {
public:
    double lap() {
        const auto before = last_;
        last_ = std::chrono::steady_clock::now();
        return std::chrono::duration<double>(last_ - before).count();
    }

private:
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

struct Stage {
    const char* name;
    std::vector<double> seconds{};

    std::string json() {
        std::sort(seconds.begin(), seconds.end());
        return "\"" + std::string(name) + "\": {\"median\": " +
               std::to_string(seconds[seconds.size() / 2]) +
               ", \"min\": " + std::to_string(seconds.front()) + "}";
    }
};

using Stages = std::vector<Stage>;

// The same kernels but for the one that is timed: what is left of the pair stage are its lists.
Kernels without_kernel(const Kernels& kernels) {
    Kernels idle = kernels;
    idle.chrf.utility = [](const ChrfProblem&, const Rows&, const Reduction& to) {
        std::fill_n(to.forward, rows * lanes, 0.0);
    };
    return idle;
}

void time_once(const Corpus& corpus, const Kernels& kernels, const Workers& workers,
               Stages& stages) {
    ChrfTexts texts(corpus, {});
    Stopwatch watch;
    const Index& index = texts.index(workers).index;
    stages[0].seconds.push_back(watch.lap());

    const Texts all = all_texts(index);
    const std::vector<double> mass(all.size(), 1.0 / double(all.size()));
    const std::int64_t offsets[] = {0, std::int64_t(all.size())};
    watch.lap();
    const Pairs pairs(index, all, all, metric, kernels, workers);
    stages[1].seconds.push_back(watch.lap());
    const std::vector<double> exact = pairs.utility(mass.data());
    stages[2].seconds.push_back(watch.lap());

    const Kernels idle = without_kernel(kernels);
    const Pairs lists_only(index, all, all, metric, idle, workers);
    watch.lap();
    const std::vector<double> zeros = lists_only.utility(mass.data());
    stages[3].seconds.push_back(watch.lap());

    std::vector<double> scores(all.size());
    score_all_averages(index, all, {offsets, all.data(), mass.data(), 1}, metric, workers,
                       [&](std::size_t h, std::size_t, double score) { scores[h] = score; });
    stages[4].seconds.push_back(watch.lap());
    if (exact.front() + scores.front() + zeros.front() > 201) std::abort();  // so all are used
}

std::string run_json(const Corpus& corpus, const Kernels& kernels, int threads, int repeats) {
    Workers workers;
    workers.threads = threads;
    Stages stages{{"index"}, {"placement"}, {"pairs"}, {"lists"}, {"aggregate"}};
    for (int i = 0; i <= repeats; ++i) {
        if (i == 1)
            for (Stage& stage : stages) stage.seconds.clear();  // the first was the warm-up
        time_once(corpus, kernels, workers, stages);
    }
    ChrfTexts texts(corpus, {});
    const Work work = work_of(texts.index(workers).index, kernels);
    std::string json = "{\"kernels\": \"" + std::string(kernels.name) +
                       "\", \"threads\": " + std::to_string(threads) +
                       ", \"pairs\": " + std::to_string(work.pairs) +
                       ", \"words_per_pair\": " + std::to_string(work.words) +
                       ", \"list_increments_per_pair\": " + std::to_string(work.list_increments) +
                       ", \"seconds\": {";
    for (Stage& stage : stages) json += (&stage == stages.data() ? "" : ", ") + stage.json();
    return json + "}}";
}

}  // namespace

int main(int count, char** arguments) {
    if (count < 4) return std::fputs("usage: stages FILE REPEATS THREADS...\n", stderr), 2;
    const Corpus corpus = read_corpus(arguments[1]);
    std::string runs;
    for (const Kernels* kernels : available_kernels())
        for (int i = 3; i < count; ++i)
            runs += (runs.empty() ? "" : ",\n  ") +
                    run_json(corpus, *kernels, std::atoi(arguments[i]), std::atoi(arguments[2]));
    std::printf("{\"texts\": %zu, \"characters\": %zu, \"runs\": [%s]}\n", corpus.size(),
                corpus.characters.size(), runs.c_str());
}
