// Bindings only. Strings come in once per batch, arrays go out, and the GIL is free in between.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "chrf.hpp"
#include "simd.hpp"

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
        if (!PyUnicode_Check(text)) throw nb::type_error("texts must be strings");
        const Py_ssize_t length = PyUnicode_GET_LENGTH(text);
        const int kind = PyUnicode_KIND(text);
        const void* data = PyUnicode_DATA(text);
        const std::size_t start = corpus.characters.size();
        corpus.characters.resize(start + length);
        for (Py_ssize_t i = 0; i < length; ++i)
            corpus.characters[start + i] = PyUnicode_READ(kind, data, i);
        corpus.close_text();
    }
    return corpus;
}

// No more threads than the work is worth; they let Ctrl-C through, at most ten times a second.
minrisk::Workers make_workers(int threads, const minrisk::ChrfProblem& problem) {
    using Clock = std::chrono::steady_clock;
    constexpr std::size_t characters_a_thread = 1 << 14, pairs_a_thread = 1 << 14;
    const std::size_t worth = 1 + problem.characters() / characters_a_thread +
                              problem.hyps.size() * problem.refs.count / pairs_a_thread;
    auto last = Clock::now();
    return {int(std::min<std::size_t>(std::max(1, threads), worth)), [last]() mutable {
                if (Clock::now() - last < std::chrono::milliseconds(100)) return;
                last = Clock::now();
                nb::gil_scoped_acquire gil;
                if (PyErr_CheckSignals() != 0) throw nb::python_error();
            }};
}

Result as_array(std::vector<double> values, std::initializer_list<std::size_t> shape) {
    auto* owned = new std::vector<double>(std::move(values));
    nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<double>*>(p); });
    return Result(owned->data(), shape, owner);
}

void check_rows(const Ints& rows, std::size_t texts) {
    for (std::size_t i = 0; i < rows.shape(0); ++i)
        if (rows(i) < 0 || std::size_t(rows(i)) >= texts) throw nb::index_error("no such text");
}

minrisk::ChrfProblem make_problem(minrisk::ChrfTexts& texts, const Ints& hyps, const Ints& offsets,
                                  const Ints& members, const Floats& weights, double beta,
                                  bool smoothed) {
    check_rows(hyps, texts.size());
    check_rows(members, texts.size());
    const std::size_t size = members.shape(0), count = offsets.shape(0);
    bool valid = count > 0 && weights.shape(0) == size && offsets(0) == 0 &&
                 std::size_t(offsets(count - 1)) == size;
    for (std::size_t g = 1; valid && g < count; ++g) valid = offsets(g - 1) <= offsets(g);
    if (!valid) throw nb::value_error("offsets, members and weights do not fit together");
    return {texts,
            minrisk::Texts(hyps.data(), hyps.data() + hyps.shape(0)),
            {offsets.data(), members.data(), weights.data(), count - 1},
            beta * beta,
            smoothed};
}

Result scores(minrisk::ChrfTexts& texts, Ints hyps, Ints offsets, Ints members, Floats weights,
              double beta, bool smoothed, int threads) {
    const auto problem = make_problem(texts, hyps, offsets, members, weights, beta, smoothed);
    const auto workers = make_workers(threads, problem);
    std::vector<double> result;
    {
        nb::gil_scoped_release release;
        result = problem.scores(*kernels, workers);
    }
    return as_array(std::move(result), {problem.hyps.size(), problem.refs.count});
}

Result utility(minrisk::ChrfTexts& texts, Ints hyps, Ints offsets, Ints members, Floats weights,
               double beta, bool smoothed, int threads, Floats mass) {
    const auto problem = make_problem(texts, hyps, offsets, members, weights, beta, smoothed);
    if (mass.shape(0) != problem.refs.count)
        throw nb::value_error("mass must have one value per reference");
    const auto workers = make_workers(threads, problem);
    std::vector<double> result;
    {
        nb::gil_scoped_release release;
        result = problem.utility(mass.data(), *kernels, workers);
    }
    return as_array(std::move(result), {problem.hyps.size()});
}

void set_simd(const std::string& name) {
    const minrisk::Kernels* found = minrisk::kernels_named(name);
    if (!found) throw nb::value_error(("no kernels named " + name + " on this machine").c_str());
    kernels = found;
}

}  // namespace

NB_MODULE(_native, m) {
    m.doc() = "The native core of minrisk.";

    nb::class_<minrisk::ChrfTexts>(m, "Texts")
        .def("__init__",
             [](minrisk::ChrfTexts* self, const nb::list& texts, int order, int word_order,
                bool whitespace) {
                 new (self) minrisk::ChrfTexts(read_strings(texts), {order, word_order, whitespace});
             },
             "texts"_a, "order"_a, "word_order"_a, "whitespace"_a)
        .def("__len__", &minrisk::ChrfTexts::size)
        .def_static("join", [](const minrisk::ChrfTexts& a, const minrisk::ChrfTexts& b) {
            if (!(a.options() == b.options()))
                throw nb::value_error("features of chrF metrics with different options");
            minrisk::Corpus both = a.corpus();
            both.append(b.corpus());
            return new minrisk::ChrfTexts(std::move(both), a.options());
        });

    m.def("scores", &scores);
    m.def("utility", &utility);
    m.def("set_simd", &set_simd, "Use the kernels of this name: avx512, avx2 or portable.");
    m.def("simd", [] { return std::string(kernels->name); });
    m.def("available_simd", [] {
        std::vector<std::string> names;
        for (const auto* found : minrisk::available_kernels()) names.push_back(found->name);
        return names;
    });
}
