// Linear layers in int8: rows of floats become bytes, one scale for each, whose products with the
// bytes of the weights are exact; so all instruction sets give the same bits.
//
// Included after `sampling_body.hpp`, in the same namespace.

constexpr float quantized_most = 127, smallest = 1e-12f;
constexpr int quantized_zero = 128;

#if defined(__AVX512VNNI__)
using Activation = std::uint8_t;  // with `quantized_zero` for 0
constexpr int activation_zero = 0, tile_step = 4;  // rows; a tile has three steps
#else
using Activation = std::int16_t;
constexpr int activation_zero = quantized_zero, tile_step = register_bytes == 32 ? 2 : 1;
#endif
constexpr int tile_rows = 3 * tile_step;
static_assert(int8_rows % tile_rows == 0);

// Writes four activations after the other, which are `step` apart, and returns the largest absolute
// value; NaN if a value is not finite.
inline float quantize_row(const float* values, std::int64_t size, Activation* to,
                          std::int64_t step) {
    using Narrow = Activation __attribute__((vector_size(Floats::width * sizeof(Activation))));
    const std::int64_t whole = size / float_lanes * float_lanes;
    Floats most = {}, invalid = {};
    for (std::int64_t i = 0; i < whole; i += float_lanes) {
        const Floats some = load_floats(values + i);
        for (int p = 0; p < Floats::count; ++p) {
            const FloatRegister x = some.parts[p], magnitude = x < 0.0f ? -x : x;
            most.parts[p] = magnitude > most.parts[p] ? magnitude : most.parts[p];
            invalid.parts[p] += x - x;  // NaN if not finite
        }
    }
    float top = largest(most), wrong = sum(invalid);
    for (std::int64_t i = whole; i < size; ++i) {
        const float magnitude = values[i] < 0 ? -values[i] : values[i];
        top = magnitude > top ? magnitude : top;
        wrong += magnitude - magnitude;
    }
    top = top > smallest ? top : smallest;
    // numbers that are not finite become any bytes
    const float factor = wrong == wrong ? quantized_most / top : 0, shift = quantized_zero + 0.5f;
    for (std::int64_t i = 0; i < whole; i += float_lanes) {
        const Floats some = load_floats(values + i);
        for (int p = 0; p < Floats::count; ++p) {
            const auto rounded =
                __builtin_convertvector(some.parts[p] * factor + shift, IntRegister);
            const Narrow narrow = __builtin_convertvector(rounded - activation_zero, Narrow);
            Activation own[Floats::width];
            __builtin_memcpy(own, &narrow, sizeof own);
            for (int four = 0; four < Floats::width; four += 4)
                __builtin_memcpy(to + (i + p * Floats::width + four) / 4 * step, own + four,
                                 4 * sizeof(Activation));
        }
    }
    for (std::int64_t i = whole; i < size; ++i)
        to[i / 4 * step + i % 4] =
            Activation(std::int32_t(values[i] * factor + shift) - activation_zero);
    return top + wrong;
}

#if defined(__AVX512VNNI__) || defined(__AVX2__)
#if defined(__AVX512VNNI__)
using Ints = __m512i;

[[gnu::always_inline]] inline Ints load_weights(const std::int8_t* from) {
    return _mm512_loadu_si512(from);
}

[[gnu::always_inline]] inline Ints repeat(const Activation* four) {
    std::int32_t bits;
    __builtin_memcpy(&bits, four, sizeof bits);
    return _mm512_set1_epi32(bits);
}

// By intrinsics, GCC moves sums between registers and memory.
[[gnu::always_inline]] inline void add_products(Ints& sums, Ints weights, Ints own) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(own), "v"(weights));
}
#else
using Ints = __m256i;

[[gnu::always_inline]] inline Ints load_weights(const std::int8_t* from) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)from));
}

[[gnu::always_inline]] inline Ints repeat(const Activation* four) {
    long long bits;
    __builtin_memcpy(&bits, four, sizeof bits);
    return _mm256_set1_epi64x(bits);
}

[[gnu::always_inline]] inline void add_products(Ints& sums, Ints weights, Ints own) {
    __asm__("vpaddd %1, %0, %0" : "+x"(sums) : "x"(_mm256_madd_epi16(weights, own)));
}
#endif

constexpr int weights_of_register = sizeof(Ints) / sizeof(Activation);

// The sums of two registers for each row of a tile.
template <int rows>
struct Sums {
    Sums<rows - 1> before;
    Ints first = {}, second = {};

    [[gnu::always_inline]] void add(const Activation* fours, Ints one, Ints other) {
        before.add(fours, one, other);
        const Ints own = repeat(fours + 4 * (rows - 1));
        add_products(first, one, own);
        add_products(second, other, own);
    }

    [[gnu::always_inline]] void store(const std::int32_t* offsets, std::int32_t* products) const {
        before.store(offsets, products);
        std::int32_t* to = products + (rows - 1) * int8_panel;
#if defined(__AVX512VNNI__)
        _mm512_storeu_si512(to, _mm512_add_epi32(first, _mm512_loadu_si512(offsets)));
        _mm512_storeu_si512(to + 16, _mm512_add_epi32(second, _mm512_loadu_si512(offsets + 16)));
#else
        // two sums for each column, which come in the order 0, 1, 4, 5, 2, 3, 6, 7
        const Ints columns = _mm256_hadd_epi32(first, second);
        _mm256_storeu_si256((Ints*)to, _mm256_permute4x64_epi64(columns, 0b11011000));
#endif
    }
};

template <>
struct Sums<0> {
    [[gnu::always_inline]] void add(const Activation*, Ints, Ints) {}
    [[gnu::always_inline]] void store(const std::int32_t*, std::int32_t*) const {}
};

// The products of a tile (depth / 4, rows, 4) with a panel of weights.
template <int rows>
[[gnu::always_inline]] inline void multiply(const Activation* tile, std::int64_t depth,
                                            const std::int8_t* panel, const std::int32_t* offsets,
                                            std::int32_t* products) {
    constexpr int columns = 2 * weights_of_register / 4;
    for (int column = 0; column < int8_panel; column += columns) {
        Sums<rows> sums;
        const std::int8_t* weights = panel + 4 * column;
        for (std::int64_t k = 0; k < depth; k += 4, weights += 4 * int8_panel)
            sums.add(tile + k * rows, load_weights(weights),
                     load_weights(weights + weights_of_register));
        sums.store(offsets + column, products + column);
    }
}
#else
template <int rows>
void multiply(const Activation* tile, std::int64_t depth, const std::int8_t* panel,
              const std::int32_t*, std::int32_t* products) {
    for (int i = 0; i < rows * int8_panel; ++i) products[i] = 0;
    for (std::int64_t k = 0; k < depth; k += 4)
        for (int r = 0; r < rows; ++r)
            for (int c = 0; c < int8_panel; ++c)
                for (int i = 0; i < 4; ++i)
                    products[r * int8_panel + c] +=
                        tile[k * rows + 4 * r + i] * panel[k * int8_panel + 4 * c + i];
}
#endif

// A tile times a panel, of which `count` rows are asked for.
template <int rows>
void run_tile(const Int8Layer& layer, const Activation* tile, const float* largest,
              std::int64_t first_row, std::int64_t count, std::int64_t panel) {
    alignas(64) std::int32_t products[rows * int8_panel];
    const std::int64_t column = panel * int8_panel, left = layer.outputs - column;
    multiply<rows>(tile, layer.depth, layer.weights + column * layer.depth,
                   layer.offsets + column, products);
    const float *scales = layer.scales + column, *bias = layer.bias + column;
    for (std::int64_t r = 0; r < count; ++r) {
        float* out = layer.out + (first_row + r) * layer.outputs + column;
        const auto output = [&](std::int64_t i) {
            return float(products[r * int8_panel + i]) * scales[i] * largest[r] + bias[i];
        };
        if (left >= int8_panel)
            for (int i = 0; i < int8_panel; ++i) out[i] = output(i);
        else
            for (std::int64_t i = 0; i < left; ++i) out[i] = output(i);
    }
}

// Some rows times some panels of weights; `buffer` has `int8_buffer_bytes`.
inline void run_int8(const Int8Layer& layer, Int8Part part, void* buffer) {
    float* largest = static_cast<float*>(buffer);
    Activation* tiles = reinterpret_cast<Activation*>(largest + int8_rows);
    for (std::int64_t first = part.first_row; first < part.end_row; first += int8_rows) {
        const std::int64_t left = part.end_row - first, rows = left < int8_rows ? left : int8_rows;
        // the last tile may have fewer steps than the others
        const auto height = [&](std::int64_t row) {
            const std::int64_t steps = (rows - row + tile_step - 1) / tile_step;
            return steps < 3 ? steps * tile_step : tile_rows;
        };
        for (std::int64_t r = 0; r < rows; ++r) {
            const std::int64_t row = r / tile_rows * tile_rows, step = 4 * height(row);
            Activation* to = tiles + row * layer.depth + 4 * (r - row);
            largest[r] =
                quantize_row(layer.rows + (first + r) * layer.inputs, layer.inputs, to, step);
        }
        for (std::int64_t panel = part.first_panel; panel < part.end_panel; ++panel)
            for (std::int64_t row = 0; row < rows; row += tile_rows) {
                const std::int64_t count = rows - row < tile_rows ? rows - row : tile_rows;
                const auto run = height(row) == tile_rows       ? run_tile<tile_rows>
                                 : height(row) == 2 * tile_step ? run_tile<2 * tile_step>
                                                                : run_tile<tile_step>;
                run(layer, tiles + row * layer.depth, largest + row, first + row, count, panel);
            }
    }
}
