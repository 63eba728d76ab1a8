// The kernels of sampling: likely tokens of rows of logits, attention of rows to cached tokens, and
// layers in int8.
// Sums go over sixteen lanes in one fixed order, so that all instruction sets give the same bits.
//
// Written once over `register_bytes`; included inside a namespace of the including file's own.

using FloatRegister = float __attribute__((vector_size(register_bytes)));
using IntRegister = std::int32_t __attribute__((vector_size(register_bytes)));
using Quad = float __attribute__((vector_size(16)));

constexpr int float_lanes = 16;

struct Floats {
    static constexpr int count = float_lanes * 4 / register_bytes, width = register_bytes / 4;
    FloatRegister parts[count];
};

inline float as_float(float value) { return value; }

inline float as_float(std::uint16_t bfloat16) {
    const std::uint32_t bits = std::uint32_t(bfloat16) << 16;
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

inline void store_float(float* to, float value) { *to = value; }

inline void store_float(std::uint16_t* to, float value) {  // rounds half to even
    std::uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    *to = value == value ? std::uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16) : 0x7fc0;
}

template <int i, int j, int k, int l>
[[gnu::always_inline]] inline Quad shuffle(Quad a, Quad b) {
#if defined(__clang__)
    return __builtin_shufflevector(a, b, i, j, k, l);
#else
    return __builtin_shuffle(a, b, (std::int32_t __attribute__((vector_size(16)))){i, j, k, l});
#endif
}

[[gnu::always_inline]] inline Floats load_floats(const float* from) {
    Floats result;  // part by part: GCC copies the whole through memory
    for (int i = 0; i < Floats::count; ++i)
        __builtin_memcpy(&result.parts[i], from + i * Floats::width, register_bytes);
    return result;
}

[[gnu::always_inline]] inline Floats load_floats(const std::uint16_t* from) {
    using Half = std::uint16_t __attribute__((vector_size(register_bytes / 2)));
    using Bits = std::uint32_t __attribute__((vector_size(register_bytes)));
    Floats result;
    for (int i = 0; i < Floats::count; ++i) {
        Half half;
        __builtin_memcpy(&half, from + i * Floats::width, sizeof half);
        result.parts[i] = (FloatRegister)(__builtin_convertvector(half, Bits) << 16);
    }
    return result;
}

[[gnu::always_inline]] inline void store_floats(float* to, const Floats& values) {
    for (int i = 0; i < Floats::count; ++i)
        __builtin_memcpy(to + i * Floats::width, &values.parts[i], register_bytes);
}

[[gnu::always_inline]] inline float sum(const Floats& values) {
    float lanes[float_lanes];
    __builtin_memcpy(lanes, &values, sizeof lanes);
    for (int step = float_lanes / 2; step; step /= 2)
        for (int i = 0; i < step; ++i) lanes[i] += lanes[i + step];
    return lanes[0];
}

[[gnu::always_inline]] inline float largest(const Floats& values) {
    float lanes[float_lanes];
    __builtin_memcpy(lanes, &values, sizeof lanes);
    for (int step = float_lanes / 2; step; step /= 2)
        for (int i = 0; i < step; ++i)
            lanes[i] = lanes[i] > lanes[i + step] ? lanes[i] : lanes[i + step];
    return lanes[0];
}

// e to the power of numbers of at most 0; NaN stays NaN. After Cephes: two to an integer, times a
// polynomial of the rest.
[[gnu::always_inline]] inline FloatRegister exponential(FloatRegister x) {
    x = x < -87.0f ? (FloatRegister){} - 87.0f : x;
    constexpr float to_integer = 12582912.0f;  // 1.5 * 2^23, whose last bit is worth 1
    const FloatRegister shifted = x * 1.44269504088896341f + to_integer;
    const FloatRegister n = shifted - to_integer;
    const FloatRegister r = x - n * 0.693359375f - n * -2.12194440e-4f;
    FloatRegister p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return p * (FloatRegister)(((IntRegister)shifted << 23) + (127 << 23));
}

[[gnu::always_inline]] inline float exponential(float x) {
    FloatRegister all = {};
    all[0] = x;
    return exponential(all)[0];
}

constexpr float below_all = -1e30f;  // finite, because -inf less -inf is NaN

// Sums over the logits of a row that are not -inf, and their number.
struct FiniteLogits {
    Floats sum, number;
};

// One block of logits: adds to the sums of exponentials, relative to the largest logit so far.
template <class Value>
[[gnu::always_inline]] inline float add_block(const Value* logits, float& top, Floats* sums,
                                              FiniteLogits& finite) {
    constexpr FloatRegister none = {};
    Floats most = load_floats(logits);
    for (int i = 0; i < logits_block; i += float_lanes) {
        const Floats values = load_floats(logits + i);
        for (int p = 0; p < Floats::count; ++p) {
            const FloatRegister part = values.parts[p];
            most.parts[p] = part > most.parts[p] ? part : most.parts[p];
            const auto is_finite = part > none - __builtin_inff();
            finite.sum.parts[p] += is_finite ? part : none;
            finite.number.parts[p] += is_finite ? none + 1.0f : none;
        }
    }
    const float own = largest(most);
    if (own > top) {
        const float factor = exponential(top - own);
        for (int i = 0; i < 4; ++i)
            for (int p = 0; p < Floats::count; ++p) sums[i].parts[p] *= factor;
        top = own;
    }
    for (int i = 0; i < logits_block; i += 4 * float_lanes)
        for (int k = 0; k < 4; ++k) {
            const Floats values = load_floats(logits + i + k * float_lanes);
            for (int p = 0; p < Floats::count; ++p)
                sums[k].parts[p] += exponential(values.parts[p] - top);
        }
    return own;
}

// Writes the largest logit of each block, and what is known of the finite ones; returns the
// logarithm of the sum of exponentials.
template <class Value>
float total_of(const LogitsProblem<Value>& problem, std::int64_t row, float* tops) {
    const Value* logits = problem.logits + row * problem.vocabulary;
    const std::int64_t blocks = problem.vocabulary / logits_block,
                       rest = problem.vocabulary % logits_block;
    Floats sums[4] = {};
    FiniteLogits finite = {};
    float top = below_all;
    for (std::int64_t b = 0; b < blocks; ++b)
        tops[b] = add_block(logits + b * logits_block, top, sums, finite);
    if (rest) {
        float padded[logits_block];
        for (int i = 0; i < logits_block; ++i)
            padded[i] = i < rest ? as_float(logits[blocks * logits_block + i]) : -__builtin_inff();
        tops[blocks] = add_block(padded, top, sums, finite);
    }
    for (int p = 0; p < Floats::count; ++p)
        sums[0].parts[p] += sums[1].parts[p] + (sums[2].parts[p] + sums[3].parts[p]);
    problem.finite[2 * row] = sum(finite.sum);
    problem.finite[2 * row + 1] = sum(finite.number);
    return top + __builtin_logf(sum(sums[0]));
}

// Writes the tokens with logits of at least `least`, and their logits; returns how many there are.
template <class Value>
std::int64_t tokens_above(const LogitsProblem<Value>& problem, std::int64_t row, const float* tops,
                          float least, std::int64_t room, std::int64_t* tokens, float* found) {
    const Value* logits = problem.logits + row * problem.vocabulary;
    std::int64_t count = 0;
    for (std::int64_t start = 0; start < problem.vocabulary; start += logits_block) {
        if (!(*tops++ >= least)) continue;
        const std::int64_t left = problem.vocabulary - start,
                           end = start + (left < logits_block ? left : logits_block);
        for (std::int64_t i = start; i < end && count < room; ++i) {
            const float value = as_float(logits[i]);
            if (!(value >= least)) continue;
            tokens[count] = i;
            found[count++] = value;
        }
    }
    return count;
}

// The products of a and b, lane by lane, in four lanes: lane i has the sums of i, i + 8, i + 4, i + 12.
template <class Value>
[[gnu::always_inline]] inline Quad products(const Value* a, const Value* b, std::int64_t whole) {
    Floats found = {};
    for (std::int64_t d = 0; d < whole; d += float_lanes) {
        const Floats one = load_floats(a + d), other = load_floats(b + d);
        for (int p = 0; p < Floats::count; ++p) found.parts[p] += one.parts[p] * other.parts[p];
    }
    Quad quads[4];
    __builtin_memcpy(quads, &found, sizeof found);
    return (quads[0] + quads[2]) + (quads[1] + quads[3]);
}

// Scaled products of four vectors or fewer with four others, which are steps apart.
template <class Value>
[[gnu::always_inline]] inline void dots(const Value* a, std::int64_t a_step, const Value* b,
                                        std::int64_t b_step, int count, std::int64_t size,
                                        float scale, float* to, std::int64_t to_step) {
    const std::int64_t whole = size / float_lanes * float_lanes;
    Quad q[4] = {};
    for (int i = 0; i < count; ++i) q[i] = products(a + i * a_step, b + i * b_step, whole);
    const Quad two = shuffle<0, 4, 1, 5>(q[0], q[1]) + shuffle<2, 6, 3, 7>(q[0], q[1]),
               more = shuffle<0, 4, 1, 5>(q[2], q[3]) + shuffle<2, 6, 3, 7>(q[2], q[3]),
               found = shuffle<0, 1, 4, 5>(two, more) + shuffle<2, 3, 6, 7>(two, more);
    for (int i = 0; i < count; ++i) {
        float sum = found[i];
        for (std::int64_t d = whole; d < size; ++d)
            sum += as_float(a[i * a_step + d]) * as_float(b[i * b_step + d]);
        to[i * to_step] = sum * scale;
    }
}

// The same for any number of vectors.
template <class Value>
[[gnu::always_inline]] inline void all_dots(const Value* a, std::int64_t a_step, const Value* b,
                                            std::int64_t b_step, std::int64_t count,
                                            std::int64_t size, float scale, float* to,
                                            std::int64_t to_step) {
    std::int64_t i = 0;
    for (; i + 4 <= count; i += 4)
        dots(a + i * a_step, a_step, b + i * b_step, b_step, 4, size, scale, to + i * to_step,
             to_step);
    if (i < count)
        dots(a + i * a_step, a_step, b + i * b_step, b_step, int(count - i), size, scale,
             to + i * to_step, to_step);
}

// Turns scores into weights, and returns their sum; the buffer has room for `float_lanes` more.
[[gnu::always_inline]] inline float softmax(float* weights, std::int64_t tokens) {
    float top = below_all, mass = 0;
    for (std::int64_t t = 0; t < tokens; ++t) top = weights[t] > top ? weights[t] : top;
    for (std::int64_t t = 0; t < tokens; t += Floats::width) {
        FloatRegister some;
        __builtin_memcpy(&some, weights + t, sizeof some);
        some = exponential(some - top);
        __builtin_memcpy(weights + t, &some, sizeof some);
    }
    for (std::int64_t t = 0; t < tokens; ++t) mass += weights[t];
    return mass;
}

constexpr int sums_at_once = 4;  // of `float_lanes` each, which stay in registers

// The sum of values(t), of that size, times the weight of each token t, over a mass.
template <int sums, class Value, class Values>
[[gnu::always_inline]] inline void weighted_part(Values values, const float* weights,
                                                 std::int64_t tokens, float mass, Value* out) {
    Floats found[sums] = {};
    for (std::int64_t t = 0; t < tokens; ++t) {
        const Value* own = values(t);
        for (int i = 0; i < sums; ++i) {
            const Floats some = load_floats(own + i * float_lanes);
            for (int p = 0; p < Floats::count; ++p) found[i].parts[p] += some.parts[p] * weights[t];
        }
    }
    float lanes[sums * float_lanes];
    __builtin_memcpy(lanes, found, sizeof lanes);
    for (int i = 0; i < sums * float_lanes; ++i) store_float(out + i, lanes[i] / mass);
}

template <class Value, class Values>
[[gnu::always_inline]] inline void weighted_sum(Values values, const float* weights,
                                                std::int64_t tokens, float mass, std::int64_t size,
                                                Value* out) {
    std::int64_t d = 0;
    const auto from_d = [&](std::int64_t t) { return values(t) + d; };
    for (; d + sums_at_once * float_lanes <= size; d += sums_at_once * float_lanes)
        weighted_part<sums_at_once>(from_d, weights, tokens, mass, out + d);
    for (; d + float_lanes <= size; d += float_lanes)
        weighted_part<1>(from_d, weights, tokens, mass, out + d);
    for (; d < size; ++d) {
        float sum = 0;
        for (std::int64_t t = 0; t < tokens; ++t) sum += as_float(values(t)[d]) * weights[t];
        store_float(out + d, sum / mass);
    }
}

// Writes the new key and value of a row, and attends to its own tokens: token by token, because the
// heads of a token are adjacent and its neighbours may be anywhere.
template <class Value>
void self_attention_of(const SelfAttention<Value>& problem, std::int64_t row, float* buffer) {
    const std::int64_t heads = problem.heads, size = problem.size, width = heads * size,
                       tokens = problem.tokens, room = tokens + float_lanes;
    const std::int32_t* path = problem.paths + row * tokens;
    const std::int64_t slot = path[tokens - 1];
    const Value* query = problem.queries + row * width;
    __builtin_memcpy(problem.cached_keys + slot * width, problem.keys + row * width,
                     width * sizeof(Value));
    __builtin_memcpy(problem.cached_values + slot * width, problem.values + row * width,
                     width * sizeof(Value));
    float* weights = buffer;
    for (std::int64_t t = 0; t < tokens; ++t) {
        all_dots(query, size, problem.cached_keys + path[t] * width, size, heads, size,
                 problem.scale, weights + t, room);
    }
    for (std::int64_t h = 0; h < heads; ++h) {
        const float mass = softmax(weights + h * room, tokens);
        weighted_sum([&](std::int64_t t) {
            return problem.cached_values + path[t] * width + h * size;
        }, weights + h * room, tokens, mass, size, problem.out + row * width + h * size);
    }
}

// Head by head, in which the tokens of a source are adjacent.
template <class Value>
void cross_attention_of(const CrossAttention<Value>& problem, std::int64_t row, float* buffer) {
    const std::int64_t source = problem.sources[row], tokens = problem.lengths[source],
                       size = problem.size;
    float* weights = buffer;
    for (std::int64_t head = 0; head < problem.heads; ++head) {
        const std::int64_t at = (row * problem.heads + head) * size,
                           first = (source * problem.heads + head) * problem.capacity * size;
        all_dots(problem.queries + at, 0, problem.keys + first, size, tokens, size, problem.scale,
                 weights, 1);
        const float mass = softmax(weights, tokens);
        weighted_sum([&](std::int64_t t) { return problem.values + first + t * size; }, weights,
                     tokens, mass, size, problem.out + at);
    }
}

#include "sampling_int8.hpp"

template <class Value>
constexpr SamplingKernels<Value> kernels_of() {
    return {total_of<Value>, tokens_above<Value>, self_attention_of<Value>, cross_attention_of<Value>};
}

constexpr Sampling all_kernels() {
    return {run_int8, kernels_of<float>(), kernels_of<std::uint16_t>()};
}
