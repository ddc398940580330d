// CUDA's words for a C++ compiler: runs kernels on the CPU, to check what they compute without a GPU.
//
// Every thread of a block is a fiber with a stack of its own; blocks run one after another. A fiber runs until it ends
// or waits at a barrier; when all have come to the barrier they go on. In which order fibers run is the caller's choice:
// a kernel without a barrier it needs gives different results in different orders. Threads that end while others wait
// at a barrier are reported: on a GPU that is undefined.
//
// Warps are 32 threads that may exchange values (`__shfl_*_sync`): each waits until all of its warp have come.
//
// Shared memory is static and keeps what the last block left in it, so a kernel that does not write what it reads is
// found too.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(threads)
#define __align__(bytes) alignas(bytes)
#define CUDA_ON_CPU

struct uint3 {
    unsigned int x, y, z;
};
struct float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
static inline uint3 make_uint3(unsigned int x, unsigned int y, unsigned int z) { return {x, y, z}; }
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

static inline unsigned int __float_as_uint(float x) {
    unsigned int bits;
    memcpy(&bits, &x, 4);
    return bits;
}
static inline float __uint_as_float(unsigned int bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
// f16 as the GPU's conversions give it: to the nearest, halves to even; too large becomes infinite.
static inline float half_to_float(unsigned short half) {
    const unsigned int sign = (half & 0x8000u) << 16;
    const unsigned int rest = half & 0x7fffu;
    if (rest >= 0x7c00u) {
        return __uint_as_float(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    }
    const float size = rest < 0x400u ? ldexpf(float(rest), -24) : __uint_as_float((rest << 13) + 0x38000000u);
    return sign ? -size : size;
}
static inline unsigned short float_to_half(float value) {
    const unsigned int bits = __float_as_uint(value);
    const unsigned int sign = bits >> 16 & 0x8000u;
    const unsigned int rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u) {
        return static_cast<unsigned short>(sign | 0x7e00u);
    }
    if (rest >= 0x477ff000u) {
        return static_cast<unsigned short>(sign | 0x7c00u);
    }
    if (rest < 0x38800000u) {
        // Steps of 2^-24; the sum rounds.
        return static_cast<unsigned short>(sign | (__float_as_uint(__uint_as_float(rest) + 0.5f) - 0x3f000000u));
    }
    return static_cast<unsigned short>(sign | (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13);
}
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
// One thread runs at a time.
static inline unsigned int atomicOr(unsigned int *at, unsigned int bits) {
    const unsigned int before = *at;
    *at |= bits;
    return before;
}
static inline unsigned int atomicMax(unsigned int *at, unsigned int value) {
    const unsigned int before = *at;
    *at = value > before ? value : before;
    return before;
}
template <class T> static inline T atomicAdd(T *at, T value) {
    const T before = *at;
    *at += value;
    return before;
}
static inline unsigned int atomicExch(unsigned int *at, unsigned int value) {
    const unsigned int before = *at;
    *at = value;
    return before;
}
static inline unsigned int min(unsigned int a, unsigned int b) { return a < b ? a : b; }
static inline unsigned int max(unsigned int a, unsigned int b) { return a > b ? a : b; }

namespace cuda_on_cpu {

constexpr unsigned int THREADS = 256;
constexpr unsigned int WARP = 32;
constexpr size_t STACK = 64 * 1024;

enum class State { Ready, Waiting, WaitingForWarp, Done };

// Saves the registers that a call must keep, and the stack; goes on with another one. x86-64 only: the calls of the
// system do the same, but ask the kernel about signals each time.
extern "C" void cuda_on_cpu_switch(void **save, void *stack);
asm(R"(
.pushsection .text
.local cuda_on_cpu_switch
.type cuda_on_cpu_switch, @function
cuda_on_cpu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.popsection
)");

struct Fiber {
    void *stack;
    State state;
    std::vector<char> memory;
};

static Fiber fibers[THREADS];
static void *scheduler;
static unsigned int running;
static void (*body)(void *);
static void *body_data;

static uint3 thread_index() { return {running, 0, 0}; }
static uint3 block_index;
static uint3 grid;

static void start() {
    body(body_data);
    fibers[running].state = State::Done;
    cuda_on_cpu_switch(&fibers[running].stack, scheduler);
}

static void prepare(Fiber &fiber) {
    fiber.memory.resize(STACK);
    auto top = (reinterpret_cast<uintptr_t>(fiber.memory.data()) + STACK) & ~uintptr_t(15);
    // Where `start` would return to, `start` itself, and six registers.
    auto slots = reinterpret_cast<void **>(top) - 8;
    memset(slots, 0, 8 * sizeof(void *));
    slots[6] = reinterpret_cast<void *>(&start);
    fiber.stack = slots;
    fiber.state = State::Ready;
}

static void wait_as(State state) {
    fibers[running].state = state;
    cuda_on_cpu_switch(&fibers[running].stack, scheduler);
}

static void barrier() { wait_as(State::Waiting); }

static uint64_t published[THREADS];

// The value of another thread of the warp: all of them publish, wait, read, and wait again.
template <class T> static T exchanged(T value, unsigned int lane) {
    static_assert(sizeof(T) <= sizeof(uint64_t), "a value of a register or two");
    memcpy(&published[running], &value, sizeof(T));
    wait_as(State::WaitingForWarp);
    const unsigned int from = lane < WARP ? running / WARP * WARP + lane : running;
    memcpy(&value, &published[from], sizeof(T));
    wait_as(State::WaitingForWarp);
    return value;
}

// Which fiber runs at a turn: in order, backwards, or by steps of an odd number.
static unsigned int turn(unsigned int i, unsigned int order) {
    switch (order) {
    case 0:
        return i;
    case 1:
        return THREADS - 1 - i;
    default:
        return (i * (2 * order + 3) + 7 * order) % THREADS;
    }
}

static bool all_are(State state, unsigned int first, unsigned int count) {
    for (unsigned int i = first; i < first + count; i++) {
        if (fibers[i].state != state) {
            return false;
        }
    }
    return true;
}

static void go_on(unsigned int first, unsigned int count) {
    for (unsigned int i = first; i < first + count; i++) {
        fibers[i].state = State::Ready;
    }
}

// False if threads ended, or wait for their warp, while others waited.
static bool run_block(unsigned int order) {
    for (auto &fiber : fibers) {
        prepare(fiber);
    }
    for (;;) {
        for (unsigned int i = 0; i < THREADS; i++) {
            running = turn(i, order);
            if (fibers[running].state == State::Ready) {
                cuda_on_cpu_switch(&scheduler, fibers[running].stack);
            }
        }
        if (all_are(State::Done, 0, THREADS)) {
            return true;
        }
        bool released = false;
        for (unsigned int first = 0; first < THREADS; first += WARP) {
            if (all_are(State::WaitingForWarp, first, WARP)) {
                go_on(first, WARP);
                released = true;
            }
        }
        if (!released) {
            if (!all_are(State::Waiting, 0, THREADS)) {
                return false;
            }
            go_on(0, THREADS);
        }
    }
}

template <class P, class... A> struct Call {
    void (*kernel)(P, A...);
    P params;
    std::tuple<A...> arguments;

    static void run(void *data) {
        auto call = static_cast<Call *>(data);
        std::apply([call](A... a) { call->kernel(call->params, a...); }, call->arguments);
    }
};

template <class C> static int run_grid(C &call, const uint32_t *groups, uint32_t order) {
    body = &C::run;
    body_data = &call;
    grid = {groups[0], groups[1], groups[2]};
    bool good = true;
    for (uint32_t z = 0; good && z < groups[2]; z++) {
        for (uint32_t y = 0; good && y < groups[1]; y++) {
            for (uint32_t x = 0; good && x < groups[0]; x++) {
                block_index = {x, y, z};
                good = run_block(order);
            }
        }
    }
    body_data = nullptr;
    return good ? 0 : 1;
}

template <class P, class... A, size_t... I>
static int launch(void (*kernel)(P, A...), const uint32_t *groups, const uint32_t *params, size_t words,
                  void *const *arguments, size_t count, uint32_t order, std::index_sequence<I...>) {
    if (words * 4 != sizeof(P) || count != sizeof...(A)) {
        return 2;
    }
    Call<P, A...> call = {kernel, {}, {static_cast<A>(arguments[I])...}};
    memcpy(&call.params, params, sizeof(P));
    return run_grid(call, groups, order);
}

// The same with places of all arguments, as CUDA's driver is given them.
template <class P, class... A, size_t... I>
static int launch_places(void (*kernel)(P, A...), const uint32_t *groups, void *const *places, uint32_t order,
                         std::index_sequence<I...>) {
    Call<P, A...> call = {kernel, {}, {*static_cast<A *>(places[I + 1])...}};
    memcpy(&call.params, places[0], sizeof(P));
    return run_grid(call, groups, order);
}

template <class P, class... A> constexpr std::index_sequence_for<A...> places(void (*)(P, A...)) { return {}; }

} // namespace cuda_on_cpu

#define threadIdx (cuda_on_cpu::thread_index())
#define blockIdx (cuda_on_cpu::block_index)
#define gridDim (cuda_on_cpu::grid)
#define __syncthreads() cuda_on_cpu::barrier()
#define __syncwarp() cuda_on_cpu::wait_as(cuda_on_cpu::State::WaitingForWarp)
#define __shfl_sync(mask, value, lane) cuda_on_cpu::exchanged(value, (lane) % cuda_on_cpu::WARP)
#define __shfl_xor_sync(mask, value, bits) cuda_on_cpu::exchanged(value, threadIdx.x % cuda_on_cpu::WARP ^ (bits))
#define __shfl_down_sync(mask, value, by) cuda_on_cpu::exchanged(value, threadIdx.x % cuda_on_cpu::WARP + (by))

// Launches of one kernel that a test can call: 0, 1 for threads that ended while others waited, 2 for other arguments
// than the kernel has.
#define EXPORT(kernel)                                                                                                 \
    extern "C" int launch_##kernel(const uint32_t *groups, const uint32_t *params, size_t words,                       \
                                   void *const *arguments, size_t count, uint32_t order) {                             \
        return cuda_on_cpu::launch(&kernel, groups, params, words, arguments, count, order,                            \
                                   cuda_on_cpu::places(&kernel));                                                      \
    }                                                                                                                  \
    extern "C" int places_##kernel(const uint32_t *groups, void *const *places, uint32_t order) {                      \
        return cuda_on_cpu::launch_places(&kernel, groups, places, order, cuda_on_cpu::places(&kernel));               \
    }
