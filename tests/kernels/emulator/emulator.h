/* CUDA C++ on the CPU, for tests: what a kernel's text needs of the language, so that g++ compiles it as it is.

   Every CUDA thread is a fiber with a stack of its own. Blocks run one after the other, those of a cluster together; a
   fiber runs until it waits (for its cluster, its block or its warp) or ends, then the next one does, in order or in
   reverse: results that depend on which come from a race. Shared memory is static memory, poisoned before each block. */

#pragma once
#include <csetjmp>
#include <cstdint>
#include <cstring>
#include <cmath>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>
#include <sys/mman.h>
#include <ucontext.h>

#define WG_EMULATED 1
#define __global__ static
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(n) alignas(n)
#define __constant__ static
#define __grid_constant__
#define __shared__ static __attribute__((section("emulated_shared")))

struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x, y, z; };
#define VECTORS(T, name)                                                                                               \
    struct alignas(2 * sizeof(T)) name##2 { T x, y; };                                                                 \
    struct alignas(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) name##4 { T x, y, z, w; };                                 \
    static inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                                  \
    static inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
VECTORS(float, float)
VECTORS(double, double)
VECTORS(int, int)
VECTORS(unsigned, uint)
#undef VECTORS

namespace emulator {

constexpr int WARP = 32;
constexpr size_t STACK = 256 << 10;

struct Fiber {
    ucontext_t start;
    jmp_buf here;
    bool begun, done;
    long cluster_waits, block_waits, warp_waits; /* how many barriers it has come to */
    unsigned mask;                               /* of the warp's barrier it waits at; 0: it does not */
    bool waits_for_cluster, waits_for_block;
    alignas(16) char exchanged[16];
};

static std::vector<Fiber> fibers;
static char *stacks; /* of the fibers of a launch, one behind the other: pages that nobody touches take no memory */
static jmp_buf scheduler;
static int current, count, of_block; /* fibers; those of a cluster, those of a block */
static bool failed, alone;
static const std::function<void()> *body;
static dim3 block_size, grid_size;
static uint3 thread_index, block_index, first_block;
static const char *reason = "";
static std::vector<char> dynamic_storage;
static char *dynamic_shared;
static size_t dynamic_size; /* of a block */

/* the dynamic shared memory of a block of the cluster */
static char *dynamic_of(int block) {
    return (char *)(((uintptr_t)dynamic_storage.data() + 1023) / 1024 * 1024) + block * dynamic_size;
}

static void place(int i) {
    current = i;
    unsigned block = i / of_block, thread = i % of_block;
    thread_index = {thread % block_size.x, thread / block_size.x % block_size.y, thread / block_size.x / block_size.y};
    block_index = {first_block.x + block, first_block.y, first_block.z};
    dynamic_shared = dynamic_of(block);
}

static void fail(const char *why) {
    failed = true;
    reason = why;
    _longjmp(scheduler, 1);
}

static void pause() {
    if (alone) fail("a kernel without barriers in its text came to one");
    if (!_setjmp(fibers[current].here)) _longjmp(scheduler, 1);
}

static void begin() {
    (*body)();
    fibers[current].done = true;
    _longjmp(scheduler, 1);
}

static bool may_go(int i) {
    const Fiber &f = fibers[i];
    if (f.waits_for_cluster) {
        for (int k = 0; k < count; k++)
            if (!fibers[k].done && fibers[k].cluster_waits < f.cluster_waits) return false;
    } else if (f.waits_for_block) {
        for (int first = i / of_block * of_block, k = first; k < first + of_block; k++)
            if (!fibers[k].done && fibers[k].block_waits < f.block_waits) return false;
    } else if (f.mask) {
        int first = i / WARP * WARP;
        for (int lane = 0; lane < WARP; lane++) {
            if (!(f.mask >> lane & 1)) continue;
            if (first + lane >= count) { failed = true; reason = "a mask names a lane that does not exist"; return false; }
            const Fiber &other = fibers[first + lane];
            if (other.warp_waits < f.warp_waits) {
                if (other.done) { failed = true; reason = "a mask names a lane that has ended"; }
                return false;
            }
        }
    }
    return true;
}

static void go(int i) {
    Fiber &f = fibers[i];
    place(i);
    f.waits_for_cluster = f.waits_for_block = false;
    f.mask = 0;
    if (_setjmp(scheduler)) return;
    if (f.begun) _longjmp(f.here, 1);
    f.begun = true;
    getcontext(&f.start);
    f.start.uc_stack.ss_sp = stacks + i * STACK;
    f.start.uc_stack.ss_size = STACK;
    f.start.uc_link = nullptr;
    makecontext(&f.start, begin, 0);
    setcontext(&f.start);
}

static void run_cluster(bool reversed) {
    if (alone) {
        for (int k = 0; k < count; k++) {
            place(reversed ? count - 1 - k : k);
            (*body)();
        }
        return;
    }
    if ((int)fibers.size() < count) fibers.resize(count);
    for (int k = 0; k < count; k++) {
        Fiber &f = fibers[k];
        f.begun = f.done = f.waits_for_cluster = f.waits_for_block = false;
        f.cluster_waits = f.block_waits = f.warp_waits = 0;
        f.mask = 0;
    }
    for (int left = count; left && !failed;) {
        bool moved = false;
        for (int k = 0; k < count && !failed; k++) {
            int i = reversed ? count - 1 - k : k;
            if (fibers[i].done || !may_go(i)) continue;
            go(i);
            moved = true;
            left -= fibers[i].done;
        }
        if (!moved && !failed) { failed = true; reason = "all threads wait for one another"; }
    }
}

extern "C" char __start_emulated_shared __attribute__((weak)), __stop_emulated_shared __attribute__((weak));

static const char *launch(const std::function<void()> &kernel, const unsigned *shape, unsigned shared, int barriers,
                          int reversed, unsigned cluster) {
    grid_size = {shape[0], shape[1], shape[2]};
    block_size = {shape[3], shape[4], shape[5]};
    if (shape[0] % cluster) return "clusters do not fill the grid";
    of_block = block_size.x * block_size.y * block_size.z, count = of_block * cluster;
    body = &kernel;
    failed = false, reason = "", alone = !barriers;
    dynamic_size = (shared + 1023) / 1024 * 1024;
    dynamic_storage.assign(cluster * dynamic_size + 1024, 0);
    if (barriers) {
        stacks = (char *)mmap(nullptr, count * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stacks == MAP_FAILED) return "there is no memory for the stacks";
    }
    unsigned clusters = shape[0] * shape[1] * shape[2] / cluster;
    for (unsigned k = 0; k < clusters && !failed; k++) {
        unsigned i = (reversed ? clusters - 1 - k : k) * cluster;
        first_block = {i % shape[0], i / shape[0] % shape[1], i / shape[0] / shape[1]};
        memset(dynamic_of(0), 0xff, cluster * dynamic_size);
        if (&__start_emulated_shared) memset(&__start_emulated_shared, 0xff, &__stop_emulated_shared - &__start_emulated_shared);
        run_cluster(reversed);
    }
    if (barriers) munmap(stacks, count * STACK);
    return failed ? reason : nullptr;
}

template <class... A, size_t... I>
static void apply(void (*kernel)(A...), void **arguments, std::index_sequence<I...>) {
    kernel(*(std::remove_cv_t<A> *)arguments[I]...);
}
template <class... A> static void call(void (*kernel)(A...), void **arguments) {
    apply(kernel, arguments, std::index_sequence_for<A...>());
}

/* how a kernel is launched from outside, so many blocks a cluster: pointers to its arguments, grid and block; NULL, or
   what went wrong */
#define EMULATED(name, kernel, cluster)                                                                                \
    extern "C" const char *name(void **arguments, unsigned *shape, unsigned shared, int barriers, int reversed) {      \
        return emulator::launch([=] { emulator::call(kernel, arguments); }, shape, shared, barriers, reversed, cluster); \
    }

static void wait_for_warp(unsigned mask) {
    Fiber &f = fibers[current];
    f.mask = mask, f.warp_waits++;
    pause();
}
/* the value that another lane of the warp gives */
template <class T> static T exchange(unsigned mask, T value, int source) {
    if (alone) fail("a kernel without barriers in its text came to a shuffle");
    int first = current / WARP * WARP;
    memcpy(fibers[current].exchanged, &value, sizeof value);
    wait_for_warp(mask);
    T result;
    memcpy(&result, fibers[first + source].exchanged, sizeof result);
    wait_for_warp(mask);
    return result;
}
static int lane() { return current % WARP; }

} // namespace emulator

/* the handle of a condition is the address of its value */
static inline void cudaGraphSetConditional(unsigned long long handle, unsigned value) { *(unsigned *)handle = value; }

#define threadIdx emulator::thread_index
#define blockIdx emulator::block_index
#define blockDim emulator::block_size
#define gridDim emulator::grid_size
constexpr int warpSize = 32;

static inline void __syncthreads() {
    emulator::Fiber &f = emulator::fibers[emulator::current];
    f.waits_for_block = true, f.block_waits++;
    emulator::pause();
}
static inline void wg_cluster_sync() {
    emulator::Fiber &f = emulator::fibers[emulator::current];
    f.waits_for_cluster = true, f.cluster_waits++;
    emulator::pause();
}
template <int N> static void wg_cluster_add(float (&sums)[N], const float *at, int rank) {
    const char *there = (const char *)at - emulator::dynamic_shared + emulator::dynamic_of(rank);
    for (int i = 0; i < N; i++) sums[i] += ((const float *)there)[i];
}
static inline void __syncwarp(unsigned mask = ~0u) { emulator::wait_for_warp(mask); }
static inline void __threadfence() {}
static inline void __threadfence_block() {}

/* a lane outside of its part of the warp reads its own value */
template <class T> static T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
    int base = emulator::lane() / width * width;
    return emulator::exchange(mask, value, base + source % width);
}
template <class T> static T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
    int base = emulator::lane() / width * width, source = emulator::lane() ^ lanes;
    return emulator::exchange(mask, value, source < base + width ? source : emulator::lane());
}
template <class T> static T __shfl_down_sync(unsigned mask, T value, int by, int width = 32) {
    int end = emulator::lane() / width * width + width, source = emulator::lane() + by;
    return emulator::exchange(mask, value, source < end ? source : emulator::lane());
}
template <class T> static T __shfl_up_sync(unsigned mask, T value, int by, int width = 32) {
    int base = emulator::lane() / width * width, source = emulator::lane() - by;
    return emulator::exchange(mask, value, source >= base ? source : emulator::lane());
}
static inline unsigned __ballot_sync(unsigned mask, int holds) {
    if (emulator::alone) emulator::fail("a kernel without barriers in its text came to a vote");
    emulator::Fiber *warp = &emulator::fibers[emulator::current / 32 * 32];
    warp[emulator::lane()].exchanged[0] = holds != 0;
    emulator::wait_for_warp(mask);
    unsigned votes = 0;
    for (int lane = 0; lane < 32; lane++)
        if (mask >> lane & 1) votes |= (unsigned)warp[lane].exchanged[0] << lane;
    emulator::wait_for_warp(mask);
    return votes;
}
static inline int __any_sync(unsigned mask, int holds) { return __ballot_sync(mask, holds) != 0; }
static inline int __all_sync(unsigned mask, int holds) { return __ballot_sync(mask, holds) == mask; }

#define ATOMIC(name, what)                                                                                             \
    template <class T> static T name(T *at, std::common_type_t<T> value) {                                             \
        static_assert(std::is_integral_v<T>, "floats are not added atomically: the order would change the bits");      \
        T old = *at;                                                                                                   \
        *at = what;                                                                                                    \
        return old;                                                                                                    \
    }
ATOMIC(atomicAdd, old + value)
ATOMIC(atomicSub, old - value)
ATOMIC(atomicMax, old > value ? old : value)
ATOMIC(atomicMin, old < value ? old : value)
ATOMIC(atomicOr, old | value)
ATOMIC(atomicAnd, old & value)
ATOMIC(atomicExch, value)
#undef ATOMIC
template <class T> static T atomicCAS(T *at, std::common_type_t<T> compare, std::common_type_t<T> value) {
    T old = *at;
    *at = old == compare ? value : old;
    return old;
}

template <class T> static T __ldg(const T *at) { return *at; }
template <class T> static T __ldcs(const T *at) { return *at; }
template <class T> static void __stcs(T *at, T value) { *at = value; }
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __frcp_rn(float a) { return 1 / a; }
static inline float rsqrtf(float x) { return 1 / sqrtf(x); }
static inline double rsqrt(double x) { return 1 / sqrt(x); }
static inline unsigned __float_as_uint(float x) { unsigned b; memcpy(&b, &x, 4); return b; }
static inline int __float_as_int(float x) { int b; memcpy(&b, &x, 4); return b; }
static inline float __uint_as_float(unsigned b) { float x; memcpy(&x, &b, 4); return x; }
static inline float __int_as_float(int b) { float x; memcpy(&x, &b, 4); return x; }
static inline long long __double_as_longlong(double x) { long long b; memcpy(&b, &x, 8); return b; }
static inline double __longlong_as_double(long long b) { double x; memcpy(&x, &b, 8); return x; }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
template <class A, class B> static inline std::common_type_t<A, B> min(A a, B b) { return b < a ? b : a; }
template <class A, class B> static inline std::common_type_t<A, B> max(A a, B b) { return a < b ? b : a; }
