// The kernels of sampling: likely tokens of rows of logits, attention of rows to cached tokens, and
// activations of layers in int8.
// Sums go over sixteen lanes in one fixed order, so that all instruction sets give the same bits.
//
// Written once over `register_bytes`; included inside a namespace of the including file's own.

using FloatRegister = float __attribute__((vector_size(register_bytes)));
using IntRegister = std::int32_t __attribute__((vector_size(register_bytes)));

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

constexpr int likely_block = 256;  // logits of which the largest is remembered
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
    for (int i = 0; i < likely_block; i += float_lanes) {
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
    for (int i = 0; i < likely_block; i += 4 * float_lanes)
        for (int k = 0; k < 4; ++k) {
            const Floats values = load_floats(logits + i + k * float_lanes);
            for (int p = 0; p < Floats::count; ++p)
                sums[k].parts[p] += exponential(values.parts[p] - top);
        }
    return own;
}

template <class Value>
void likely_of(const LikelyProblem<Value>& problem, std::int64_t row, float* tops) {
    const Value* logits = problem.logits + row * problem.vocabulary;
    const std::int64_t blocks = problem.vocabulary / likely_block,
                       rest = problem.vocabulary % likely_block;
    Floats sums[4] = {};
    FiniteLogits finite = {};
    float top = below_all;
    for (std::int64_t b = 0; b < blocks; ++b)
        tops[b] = add_block(logits + b * likely_block, top, sums, finite);
    if (rest) {
        float padded[likely_block];
        for (int i = 0; i < likely_block; ++i)
            padded[i] = i < rest ? as_float(logits[blocks * likely_block + i]) : -__builtin_inff();
        tops[blocks] = add_block(padded, top, sums, finite);
    }
    for (int p = 0; p < Floats::count; ++p)
        sums[0].parts[p] += sums[1].parts[p] + (sums[2].parts[p] + sums[3].parts[p]);
    const float total = top + __builtin_logf(sum(sums[0]));
    const float least = total + problem.least < top ? total + problem.least : top;
    std::int64_t* tokens = problem.tokens + row * problem.width;
    float* scores = problem.scores + row * problem.width;
    std::int64_t found = 0;
    for (std::int64_t b = 0; b < blocks + (rest > 0); ++b) {
        if (!(tops[b] >= least)) continue;
        const std::int64_t end = b < blocks ? (b + 1) * likely_block : problem.vocabulary;
        for (std::int64_t i = b * likely_block; i < end && found < problem.width; ++i) {
            const float value = as_float(logits[i]);
            if (!(value >= least)) continue;
            tokens[found] = i;
            scores[found++] = value - total;
        }
    }
    for (; found < problem.width; ++found) {
        tokens[found] = 0;
        scores[found] = -__builtin_inff();
    }
    problem.totals[row] = total;
    problem.finite[2 * row] = sum(finite.sum);
    problem.finite[2 * row + 1] = sum(finite.number);
}

template <class Value>
[[gnu::always_inline]] inline float dot(const Value* a, const Value* b, std::int64_t size) {
    const std::int64_t whole = size / float_lanes * float_lanes;
    Floats products = {};
    for (std::int64_t d = 0; d < whole; d += float_lanes) {
        const Floats one = load_floats(a + d), other = load_floats(b + d);
        for (int p = 0; p < Floats::count; ++p) products.parts[p] += one.parts[p] * other.parts[p];
    }
    float found = sum(products);
    for (std::int64_t d = whole; d < size; ++d) found += as_float(a[d]) * as_float(b[d]);
    return found;
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

// sums += weight * values
template <class Value>
[[gnu::always_inline]] inline void add_weighted(float* sums, const Value* values, float weight,
                                                std::int64_t size) {
    const std::int64_t whole = size / float_lanes * float_lanes;
    for (std::int64_t d = 0; d < whole; d += float_lanes) {
        Floats found = load_floats(sums + d);
        const Floats some = load_floats(values + d);
        for (int p = 0; p < Floats::count; ++p) found.parts[p] += some.parts[p] * weight;
        store_floats(sums + d, found);
    }
    for (std::int64_t d = whole; d < size; ++d) sums[d] += as_float(values[d]) * weight;
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
    float *weights = buffer, *sums = buffer + heads * room;
    for (std::int64_t t = 0; t < tokens; ++t) {
        const Value* key = problem.cached_keys + path[t] * width;
        for (std::int64_t h = 0; h < heads; ++h)
            weights[h * room + t] = dot(query + h * size, key + h * size, size) * problem.scale;
    }
    for (std::int64_t d = 0; d < width; ++d) sums[d] = 0;
    float* masses = sums + width;
    for (std::int64_t h = 0; h < heads; ++h) masses[h] = softmax(weights + h * room, tokens);
    for (std::int64_t t = 0; t < tokens; ++t) {
        const Value* value = problem.cached_values + path[t] * width;
        for (std::int64_t h = 0; h < heads; ++h)
            add_weighted(sums + h * size, value + h * size, weights[h * room + t], size);
    }
    for (std::int64_t d = 0; d < width; ++d)
        store_float(problem.out + row * width + d, sums[d] / masses[d / size]);
}

// Head by head, in which the tokens of a source are adjacent.
template <class Value>
void cross_attention_of(const CrossAttention<Value>& problem, std::int64_t row, float* buffer) {
    const std::int64_t source = problem.sources[row], tokens = problem.lengths[source],
                       size = problem.size;
    float *weights = buffer, *sums = buffer + tokens + float_lanes;
    for (std::int64_t head = 0; head < problem.heads; ++head) {
        const std::int64_t at = (row * problem.heads + head) * size,
                           first = (source * problem.heads + head) * problem.capacity * size;
        for (std::int64_t t = 0; t < tokens; ++t)
            weights[t] =
                dot(problem.queries + at, problem.keys + first + t * size, size) * problem.scale;
        const float mass = softmax(weights, tokens);
        for (std::int64_t d = 0; d < size; ++d) sums[d] = 0;
        for (std::int64_t t = 0; t < tokens; ++t)
            add_weighted(sums, problem.values + first + t * size, weights[t], size);
        for (std::int64_t d = 0; d < size; ++d)
            store_float(problem.out + at + d, sums[d] / mass);
    }
}

constexpr float quantized_most = 127, quantized_zero = 128, smallest = 1e-12f;

inline void quantize_row(const QuantizedRows& problem, std::int64_t row) {
    using Bytes = std::uint8_t __attribute__((vector_size(register_bytes / 4)));
    const float* values = problem.values + row * problem.size;
    std::uint8_t* bytes = problem.bytes + row * problem.size;
    const std::int64_t whole = problem.size / float_lanes * float_lanes;
    Floats most = {}, invalid = {};
    for (std::int64_t i = 0; i < whole; i += float_lanes) {
        const Floats some = load_floats(values + i);
        for (int p = 0; p < Floats::count; ++p) {
            const FloatRegister x = some.parts[p], size = x < 0.0f ? -x : x;
            most.parts[p] = size > most.parts[p] ? size : most.parts[p];
            invalid.parts[p] += x - x;  // NaN if not finite
        }
    }
    float top = largest(most), wrong = sum(invalid);
    for (std::int64_t i = whole; i < problem.size; ++i) {
        const float size = values[i] < 0 ? -values[i] : values[i];
        top = size > top ? size : top;
        wrong += size - size;
    }
    top = top > smallest ? top : smallest;
    problem.largest[row] = top + wrong;
    const float factor = quantized_most / top, shift = quantized_zero + 0.5f;
    if (wrong != wrong) {
        for (std::int64_t i = 0; i < problem.size; ++i) bytes[i] = 0;
        return;
    }
    for (std::int64_t i = 0; i < whole; i += float_lanes) {
        const Floats some = load_floats(values + i);
        for (int p = 0; p < Floats::count; ++p) {
            const auto rounded =
                __builtin_convertvector(some.parts[p] * factor + shift, IntRegister);
            const Bytes narrow = __builtin_convertvector(rounded, Bytes);
            __builtin_memcpy(bytes + i + p * Floats::width, &narrow, sizeof narrow);
        }
    }
    for (std::int64_t i = whole; i < problem.size; ++i)
        bytes[i] = std::uint8_t(std::int32_t(values[i] * factor + shift));
}

inline void scale_row(const ScaledProducts& problem, std::int64_t row) {
    float* products = problem.products + row * problem.size;
    const float scale = problem.scales[row];
    const std::int64_t whole = problem.size / float_lanes * float_lanes;
    for (std::int64_t i = 0; i < whole; i += float_lanes) {
        Floats some = load_floats(products + i);
        const Floats bias = load_floats(problem.bias + i);
        for (int p = 0; p < Floats::count; ++p)
            some.parts[p] = some.parts[p] * scale + bias.parts[p];
        store_floats(products + i, some);
    }
    for (std::int64_t i = whole; i < problem.size; ++i)
        products[i] = products[i] * scale + problem.bias[i];
}

template <class Value>
constexpr SamplingKernels<Value> kernels_of() {
    return {likely_of<Value>, self_attention_of<Value>, cross_attention_of<Value>};
}

constexpr Sampling all_kernels() {
    return {quantize_row, scale_row, kernels_of<float>(), kernels_of<std::uint16_t>()};
}
