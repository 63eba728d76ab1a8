// Bindings only. Strings are read once per batch and results are arrays; the GIL is released in
// between.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "bleu.hpp"
#include "chrf.hpp"
#include "sampling.hpp"
#include "simd.hpp"
#include "ter.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Ints = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Result = nb::ndarray<nb::numpy, double>;

const minrisk::Kernels* kernels = minrisk::available_kernels().front();

minrisk::Corpus read_strings(const nb::list& strings) {
    minrisk::Corpus corpus;
    for (nb::handle item : strings) {
        PyObject* text = item.ptr();
        if (!PyUnicode_Check(text)) throw nb::type_error("texts must be a list of strings");
        const Py_ssize_t length = PyUnicode_GetLength(text);
        const std::size_t start = corpus.characters.size();
        corpus.characters.resize(start + length);
        auto* characters = reinterpret_cast<Py_UCS4*>(corpus.characters.data() + start);
        if (length > 0 && !PyUnicode_AsUCS4(text, characters, length, /*copy_null=*/0))
            throw nb::python_error();
        corpus.close_text();
    }
    return corpus;
}

// At most as many threads as there are units of work; Ctrl-C is checked for ten times a second.
minrisk::Workers make_workers(int threads, std::size_t units) {
    using Clock = std::chrono::steady_clock;
    auto last = Clock::now();
    return {int(std::min<std::size_t>(std::max(1, threads), units)), [last]() mutable {
                if (Clock::now() - last < std::chrono::milliseconds(100)) return;
                last = Clock::now();
                nb::gil_scoped_acquire gil;
                if (PyErr_CheckSignals() != 0) throw nb::python_error();
            }};
}

template <class FrontEnd, class Metric>
minrisk::Workers make_workers(int threads, const minrisk::Task<FrontEnd, Metric>& task) {
    constexpr std::size_t characters_a_thread = 1 << 14, pairs_a_thread = 1 << 14;
    return make_workers(threads, 1 + task.characters() / characters_a_thread +
                                     task.hyps.size() * task.refs.count / pairs_a_thread);
}

Result as_array(std::vector<double> values, std::initializer_list<std::size_t> shape) {
    auto* owned = new std::vector<double>(std::move(values));
    nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<double>*>(p); });
    return Result(owned->data(), shape, owner);
}

template <class Value>
Value named(const std::string& name, const std::map<std::string, Value>& known) {
    const auto found = known.find(name);
    if (found != known.end()) return found->second;
    std::string names;
    for (const auto& entry : known) names += (names.empty() ? "" : ", ") + entry.first;
    throw nb::value_error(("unknown name '" + name + "'; expected one of " + names).c_str());
}

void check_rows(const Ints& rows, std::size_t texts) {
    for (std::size_t i = 0; i < rows.shape(0); ++i)
        if (rows(i) < 0 || std::size_t(rows(i)) >= texts)
            throw nb::index_error(("text " + std::to_string(rows(i)) + " is not among the " +
                                   std::to_string(texts) + " texts").c_str());
}

minrisk::Texts as_texts(const Ints& rows) { return {rows.data(), rows.data() + rows.shape(0)}; }

template <class Texts>
void check_front_ends(const Texts& a, const Texts& b) {
    if (!(a.front_end() == b.front_end()))
        throw nb::value_error("the features were extracted with different options; "
                              "extract both with the same metric");
}

template <class FrontEnd, class Metric>
minrisk::Task<FrontEnd, Metric> make_task(minrisk::IndexedTexts<FrontEnd>& texts, const Ints& hyps,
                                          const Ints& offsets, const Ints& members,
                                          const Floats& weights, const Metric& metric) {
    check_rows(hyps, texts.size());
    check_rows(members, texts.size());
    const std::size_t size = members.shape(0), count = offsets.shape(0);
    bool valid = count > 0 && weights.shape(0) == size && offsets(0) == 0 &&
                 std::size_t(offsets(count - 1)) == size;
    for (std::size_t g = 1; valid && g < count; ++g) valid = offsets(g - 1) <= offsets(g);
    if (!valid) throw nb::value_error("offsets must ascend from 0 to the number of members, and "
                                      "each member needs a weight");
    return {texts,
            as_texts(hyps),
            {offsets.data(), members.data(), weights.data(), count - 1},
            metric};
}

// `make_metric(front_end, options...)` makes the metric from the options after the arrays.
template <class FrontEnd, class... Options, class MakeMetric>
void bind_scores(nb::module_& m, MakeMetric make_metric) {
    using Texts = minrisk::IndexedTexts<FrontEnd>;
    m.def("scores", [=](Texts& texts, Ints hyps, Ints offsets, Ints members, Floats weights,
                        Options... options, int threads) {
        const auto task = make_task(texts, hyps, offsets, members, weights,
                                    make_metric(texts.front_end(), options...));
        const auto workers = make_workers(threads, task);
        std::vector<double> result;
        {
            nb::gil_scoped_release release;
            result = task.scores(*kernels, workers);
        }
        return as_array(std::move(result), {task.hyps.size(), task.refs.count});
    });
    m.def("utility", [=](Texts& texts, Ints hyps, Ints offsets, Ints members, Floats weights,
                         Options... options, int threads, Floats mass) {
        const auto task = make_task(texts, hyps, offsets, members, weights,
                                    make_metric(texts.front_end(), options...));
        if (mass.shape(0) != task.refs.count)
            throw nb::value_error("mass must have one value per reference");
        const auto workers = make_workers(threads, task);
        std::vector<double> result;
        {
            nb::gil_scoped_release release;
            result = task.utility(mass.data(), *kernels, workers);
        }
        return as_array(std::move(result), {task.hyps.size()});
    });
    m.def("partial_statistics", [](Texts& hyps, const Texts& refs, Ints members, Floats weights) {
        check_front_ends(hyps, refs);
        check_rows(members, refs.size());
        if (weights.shape(0) != members.shape(0))
            throw nb::value_error("weights must have one value per member");
        std::vector<double> result;
        {
            nb::gil_scoped_release release;
            result = minrisk::partial_statistics(hyps, refs, as_texts(members), weights.data());
        }
        const std::size_t size = result.size();
        return as_array(std::move(result), {size});
    });
    m.def("finalize", [=](Texts& texts, Ints hyps, Floats partial, Options... options) {
        check_rows(hyps, texts.size());
        if (partial.shape(0) != minrisk::partial_size(texts.automata()))
            throw nb::value_error("the statistics are not of these hypotheses: their size differs");
        const auto metric = make_metric(texts.front_end(), options...);
        std::vector<double> result;
        {
            nb::gil_scoped_release release;
            result = minrisk::finalize(texts, as_texts(hyps), partial.data(), metric);
        }
        return as_array(std::move(result), {hyps.shape(0)});
    });
}

// `make_front_end(options...)` makes the front end from the options after the texts.
template <class FrontEnd, class... Options, class MakeFrontEnd>
void bind_texts(nb::module_& m, MakeFrontEnd make_front_end) {
    using Texts = minrisk::IndexedTexts<FrontEnd>;
    nb::class_<Texts>(m, "Texts")
        .def("__init__",
             [=](Texts* self, const nb::list& texts, Options... options) {
                 new (self) Texts(read_strings(texts), make_front_end(options...));
             })
        .def("__len__", &Texts::size)
        .def_static("join", [](const Texts& a, const Texts& b) {
            check_front_ends(a, b);
            minrisk::Corpus both = a.corpus();
            both.append(b.corpus());
            return new Texts(std::move(both), a.front_end());
        });
}

void bind_chrf(nb::module_ m) {
    bind_texts<minrisk::ChrfFrontEnd, int, int, bool>(
        m, [](int order, int word_order, bool whitespace) {
            return minrisk::ChrfFrontEnd{order, word_order, whitespace};
        });
    bind_scores<minrisk::ChrfFrontEnd, double, bool>(
        m, [](const minrisk::ChrfFrontEnd& front_end, double beta, bool smoothed) {
            return minrisk::Chrf{std::size_t(front_end.order), beta * beta, smoothed};
        });
}

minrisk::Tokenizer tokenizer_named(const std::string& name) {
    using minrisk::Tokenizer;
    return named<Tokenizer>(name, {{"none", Tokenizer::none},
                                   {"char", Tokenizer::characters},
                                   {"13a", Tokenizer::mteval_13a},
                                   {"zh", Tokenizer::chinese}});
}

// As they are: a byte order mark is a character, and so is a surrogate without its other half.
nb::object as_string(std::u32string_view text) {
    int byte_order = std::endian::native == std::endian::little ? -1 : 1;
    PyObject* string = PyUnicode_DecodeUTF32(reinterpret_cast<const char*>(text.data()),
                                             Py_ssize_t(text.size() * sizeof(char32_t)), "surrogatepass",
                                             &byte_order);
    if (!string) throw nb::python_error();
    return nb::steal(string);
}

nb::list tokenize(const nb::list& texts, const std::string& tokenizer) {
    const auto corpus = minrisk::tokenized(read_strings(texts), tokenizer_named(tokenizer));
    nb::list result;
    for (std::size_t t = 0; t < corpus.size(); ++t) result.append(as_string(corpus[t]));
    return result;
}

void bind_bleu(nb::module_ m) {
    using minrisk::Smoothing;
    m.def("tokenize", &tokenize);
    bind_texts<minrisk::BleuFrontEnd, int, std::string>(
        m, [](int order, const std::string& tokenizer) {
            return minrisk::BleuFrontEnd{order, tokenizer_named(tokenizer)};
        });
    bind_scores<minrisk::BleuFrontEnd, std::string, double, bool>(
        m, [](const minrisk::BleuFrontEnd&, const std::string& smoothing, double value,
              bool effective_order) {
            return minrisk::Bleu{named<Smoothing>(smoothing, {{"none", Smoothing::none},
                                                              {"floor", Smoothing::floor},
                                                              {"add-k", Smoothing::add},
                                                              {"exp", Smoothing::exponential}}),
                                 value, effective_order};
        });
}

// Splits the concatenated words of all texts, given as numbers.
std::vector<minrisk::Words> split_words(const Ints& words, const Ints& offsets) {
    for (std::size_t i = 0; i < words.shape(0); ++i)
        if (words(i) < 0) throw nb::value_error("words must be numbers from 0 on");
    std::vector<minrisk::Words> texts;
    for (std::size_t i = 1; i < offsets.shape(0); ++i) {
        const std::int64_t begin = offsets(i - 1), end = offsets(i);
        if (begin < 0 || end < begin || std::size_t(end) > words.shape(0))
            throw nb::value_error("offsets must ascend from 0 to the number of words");
        texts.emplace_back(words.data() + begin, std::size_t(end - begin));
    }
    return texts;
}

Result ter_edits(Ints hyp_words, Ints hyp_offsets, Ints ref_words, Ints ref_offsets, int threads) {
    const auto hyps = split_words(hyp_words, hyp_offsets);
    const auto refs = split_words(ref_words, ref_offsets);
    std::vector<double> result(hyps.size() * refs.size());
    const auto workers = make_workers(threads, 1 + result.size() / 64);
    std::vector<minrisk::TerCounter> counters(workers.threads);
    {
        nb::gil_scoped_release release;
        workers.each(result.size(), [&](std::size_t i, int worker) {
            result[i] = counters[worker].edits(hyps[i / refs.size()], refs[i % refs.size()]);
        });
    }
    return as_array(std::move(result), {hyps.size(), refs.size()});
}

const minrisk::Sampling& sampling() {
#if defined(MINRISK_X86)
    static const bool has_vnni = __builtin_cpu_supports("avx512vnni");
    if (kernels == &minrisk::avx512_kernels && has_vnni) return minrisk::avx512_sampling;
    if (kernels != &minrisk::portable_kernels) return minrisk::avx2_sampling;
#endif
    return minrisk::portable_sampling;
}

template <class Value>
const minrisk::SamplingKernels<Value>& sampling_kernels() {
    if constexpr (std::is_same_v<Value, float>)
        return sampling().single;
    else
        return sampling().half;
}

// Calls run(row, buffer) for each row on several threads; a thread's buffer has `floats` floats.
template <class Run>
void each_row(std::size_t rows, std::size_t floats, std::size_t units, int threads, Run run) {
    const auto workers = make_workers(threads, units);
    std::vector<std::vector<float>> buffers(workers.threads, std::vector<float>(floats));
    nb::gil_scoped_release release;
    const std::size_t parts = std::min<std::size_t>(rows, workers.threads);
    workers.each(parts, [&](std::size_t part, int worker) {
        for (std::size_t row = part * rows / parts; row < (part + 1) * rows / parts; ++row)
            run(std::int64_t(row), buffers[worker].data());
    });
}

void check(bool fits) {
    if (!fits) throw nb::value_error("the shapes of the arrays do not fit to each other");
}

template <class Value, int dimensions>
using Array = nb::ndarray<Value, nb::ndim<dimensions>, nb::c_contig, nb::device::cpu>;

template <class Value>
struct LogitsRows {
    minrisk::LogitsProblem<Value> problem;
    std::size_t rows, blocks, width;
    std::int64_t* tokens;
    float *scores, *totals;

    LogitsRows(Array<const Value, 2> logits, Array<std::int64_t, 2> tokens,
               Array<float, 2> scores, Array<float, 1> totals, Array<float, 2> finite)
        : problem{logits.data(), std::int64_t(logits.shape(1)), finite.data()},
          rows(logits.shape(0)),
          blocks((logits.shape(1) + minrisk::logits_block - 1) / minrisk::logits_block),
          width(scores.shape(1)),
          tokens(tokens.data()),
          scores(scores.data()),
          totals(totals.data()) {
        check(tokens.shape(0) == rows && scores.shape(0) == rows && totals.shape(0) == rows &&
              tokens.shape(1) == width && finite.shape(0) == rows && finite.shape(1) == 2);
    }

    // Calls select(row, tops, total, tokens, logits) for each row, which returns how many it wrote.
    template <class Select>
    void run(int threads, Select select) const {
        constexpr std::size_t logits_a_thread = 1 << 18;
        const auto& kernels = sampling_kernels<Value>();
        each_row(rows, blocks, 1 + rows * problem.vocabulary / logits_a_thread, threads,
                 [&](std::int64_t row, float* tops) {
                     std::int64_t* own = tokens + row * width;
                     float *found = scores + row * width, total = kernels.total(problem, row, tops);
                     const std::int64_t count =  // NaN cannot be compared
                         std::isfinite(total) ? select(row, tops, total, own, found) : 0;
                     for (std::int64_t i = 0; i < count; ++i) found[i] -= total;
                     std::fill(own + count, own + width, 0);
                     std::fill(found + count, found + width, -INFINITY);
                     totals[row] = total;
                 });
    }
};

// The tokens of at least a log-probability, or the most likely one.
template <class Value>
void likely(Array<const Value, 2> logits, double least, Array<std::int64_t, 2> tokens,
            Array<float, 2> scores, Array<float, 1> totals, Array<float, 2> finite, int threads) {
    const LogitsRows<Value> all(logits, tokens, scores, totals, finite);
    all.run(threads, [&](std::int64_t row, float* tops, float total, auto* own, float* found) {
        const float top = *std::max_element(tops, tops + all.blocks);
        return sampling_kernels<Value>().tokens_above(
            all.problem, row, tops, std::min(total + float(least), top), all.width, own, found);
    });
}

// As many of the most likely tokens as there is room for, best first.
template <class Value>
void best(Array<const Value, 2> logits, Array<std::int64_t, 2> tokens, Array<float, 2> scores,
          Array<float, 1> totals, Array<float, 2> finite, int threads) {
    const LogitsRows<Value> all(logits, tokens, scores, totals, finite);
    const std::size_t vocabulary = all.problem.vocabulary, width = all.width,
                      room = all.blocks < width ? vocabulary
                                                : std::min(vocabulary, 4 * width + 64);
    check(0 < width && width <= vocabulary);
    using Found = std::pair<float, std::int64_t>;
    all.run(threads, [&](std::int64_t row, float* tops, float, auto* own, float* found) {
        thread_local std::vector<float> values, sorted;
        thread_local std::vector<std::int64_t> places;
        thread_local std::vector<Found> chosen;
        values.resize(room);
        places.resize(room);
        const auto wanted = [&](const float* from, std::size_t count) {  // the `width`-th largest
            sorted.assign(from, from + count);
            std::nth_element(sorted.begin(), sorted.begin() + width - 1, sorted.end(),
                             std::greater());
            return sorted[width - 1];
        };
        // at least `width` logits reach what so many blocks reach
        float least = all.blocks < width ? -INFINITY : wanted(tops, all.blocks);
        std::size_t count;
        chosen.clear();
        for (;;) {
            count = sampling_kernels<Value>().tokens_above(all.problem, row, tops, least, room,
                                                           places.data(), values.data());
            if (count < room) break;
            float more = wanted(values.data(), count);
            if (more == least) {  // as many are equal to it; are more than `width` above?
                for (std::size_t i = 0; i < count && chosen.size() < width; ++i)
                    if (values[i] == least) chosen.emplace_back(-least, places[i]);
                more = std::nextafter(least, INFINITY);
            }
            least = more;
        }
        for (std::size_t i = 0; i < count; ++i) chosen.emplace_back(-values[i], places[i]);
        count = chosen.size();
        const std::size_t kept = std::min(count, width);
        std::partial_sort(chosen.begin(), chosen.begin() + kept, chosen.end());
        for (std::size_t i = 0; i < kept; ++i) {
            found[i] = -chosen[i].first;
            own[i] = chosen[i].second;
        }
        return std::int64_t(kept);
    });
}

constexpr std::size_t attended_a_thread = 1 << 21;

template <class Value>
void self_attention(Array<const Value, 3> queries, Array<const Value, 3> keys,
                    Array<const Value, 3> values, Array<Value, 4> cache,
                    Array<const std::int32_t, 2> paths, Array<Value, 3> out, int threads) {
    const std::size_t rows = queries.shape(0), heads = queries.shape(1), size = queries.shape(2),
                      tokens = paths.shape(1), slots = cache.shape(1);
    for (const auto& other : {keys, values, Array<const Value, 3>(out)})
        check(other.shape(0) == rows && other.shape(1) == heads && other.shape(2) == size);
    check(cache.shape(0) == 2 && cache.shape(2) == heads && cache.shape(3) == size &&
          paths.shape(0) >= rows && tokens > 0);
    const minrisk::SelfAttention<Value> problem{
        queries.data(), keys.data(), values.data(), cache.data(),
        cache.data() + slots * heads * size, paths.data(), std::int64_t(tokens),
        std::int64_t(heads), std::int64_t(size), 1 / std::sqrt(float(size)), out.data()};
    each_row(rows, minrisk::attention_floats(heads, tokens, size),
             1 + rows * tokens * heads * size / attended_a_thread,
             threads, [&](std::int64_t row, float* buffer) {
                 sampling_kernels<Value>().self_attention(problem, row, buffer);
             });
}

template <class Value>
void cross_attention(Array<const Value, 3> queries, Array<const Value, 5> cache, Ints sources,
                     Ints lengths, Array<Value, 3> out, int threads) {
    const std::size_t rows = queries.shape(0), heads = queries.shape(1), size = queries.shape(2),
                      capacity = cache.shape(3);
    check(out.shape(0) == rows && out.shape(1) == heads && out.shape(2) == size &&
          cache.shape(0) == 2 && cache.shape(2) == heads && cache.shape(4) == size &&
          sources.shape(0) == rows && lengths.shape(0) == cache.shape(1));
    check_rows(sources, cache.shape(1));
    const std::size_t half = cache.shape(1) * heads * capacity * size;
    const minrisk::CrossAttention<Value> problem{
        queries.data(), cache.data(), cache.data() + half, sources.data(), lengths.data(),
        std::int64_t(capacity), std::int64_t(heads), std::int64_t(size),
        1 / std::sqrt(float(size)), out.data()};
    each_row(rows, minrisk::attention_floats(1, capacity, size),
             1 + rows * capacity * heads * size / attended_a_thread,
             threads, [&](std::int64_t row, float* buffer) {
                 sampling_kernels<Value>().cross_attention(problem, row, buffer);
             });
}

// Threads share the rows, or the outputs if there are few rows.
void int8_linear(Array<const float, 2> rows, Array<const std::int8_t, 4> weights,
                 Array<const std::int32_t, 1> offsets, Array<const float, 1> scales,
                 Array<const float, 1> bias, Array<float, 2> out, int threads) {
    constexpr std::size_t products_a_thread = 1 << 24, rows_a_thread = 24;
    const std::size_t count = rows.shape(0), inputs = rows.shape(1), outputs = out.shape(1),
                      panels = weights.shape(0), depth = 4 * weights.shape(1);
    check(weights.shape(2) == minrisk::int8_panel && weights.shape(3) == 4 && inputs <= depth &&
          offsets.shape(0) == panels * minrisk::int8_panel && outputs <= offsets.shape(0) &&
          offsets.shape(0) < outputs + minrisk::int8_panel && scales.shape(0) == outputs &&
          bias.shape(0) == outputs && out.shape(0) == count);
    const minrisk::Int8Layer layer{
        rows.data(), std::int64_t(inputs), std::int64_t(depth), std::int64_t(outputs),
        weights.data(), offsets.data(), scales.data(), bias.data(), out.data()};
    const auto workers = make_workers(threads, 1 + count * inputs * outputs / products_a_thread);
    const std::size_t parts = workers.threads;
    const auto room = minrisk::int8_buffer_bytes(
        std::min<std::size_t>(count + 1, minrisk::int8_rows), depth);
    nb::gil_scoped_release release;
    workers.each(parts, [&](std::size_t part, int) {
        const auto buffer = std::make_unique_for_overwrite<std::byte[]>(room);
        const auto from = [&](std::size_t whole) { return std::int64_t(part * whole / parts); };
        const auto to = [&](std::size_t whole) { return std::int64_t((part + 1) * whole / parts); };
        minrisk::Int8Part own{0, std::int64_t(count), 0, std::int64_t(panels)};
        if (count >= parts * rows_a_thread)
            own.first_row = from(count), own.end_row = to(count);
        else
            own.first_panel = from(panels), own.end_panel = to(panels);
        sampling().int8(layer, own, buffer.get());
    });
}

template <class Value>
void bind_sampling(nb::module_& m) {
    // converted arrays would be copies, and a result would be written to a copy
    const auto array = nb::arg().noconvert();
    m.def("likely", &likely<Value>, array, nb::arg(), array, array, array, array, nb::arg());
    m.def("best", &best<Value>, array, array, array, array, array, nb::arg());
    m.def("self_attention", &self_attention<Value>, array, array, array, array, array, array,
          nb::arg());
    m.def("cross_attention", &cross_attention<Value>, array, array, array, array, array,
          nb::arg());
}

void set_simd(const std::string& name) {
    const minrisk::Kernels* found = minrisk::kernels_named(name);
    if (!found) throw nb::value_error(("this machine has no kernels named '" + name + "'").c_str());
    kernels = found;
}

}  // namespace

NB_MODULE(_native, m) {
    m.doc() = "The native core of minrisk.";
#ifdef NDEBUG
    // features that live until a process ends, as those of a worker, are no leaks to tell users of
    nb::set_leak_warnings(false);
#endif

    bind_chrf(m.def_submodule("chrf"));
    bind_bleu(m.def_submodule("bleu"));
    m.def_submodule("ter").def("edits", &ter_edits);
    nb::module_ sampling_module = m.def_submodule("sampling");
    bind_sampling<float>(sampling_module);
    bind_sampling<std::uint16_t>(sampling_module);
    const auto array = nb::arg().noconvert();
    m.def_submodule("int8")
        .def("linear", &int8_linear, array, array, array, array, array, array, nb::arg());
    m.def("set_simd", &set_simd, "Use the kernels of this name: avx512, avx2 or portable.");
    m.def("simd", [] { return std::string(kernels->name); });
    m.def("available_simd", [] {
        std::vector<std::string> names;
        for (const auto* found : minrisk::available_kernels()) names.push_back(found->name);
        return names;
    });
}
