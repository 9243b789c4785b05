/* A GPU for lessons: what a CUDA kernel's text needs, so that a C++ compiler makes a program of it that counts.

   Blocks run one after the other. Each thread of a block is a context with a stack of its own, which runs until it comes
   to __syncthreads() or ends; then the next one does, in order or in reverse. Pointers to global memory count what is
   read and written, and refuse what lies outside. */

#ifdef __APPLE__ /* where contexts are an extension */
#define _XOPEN_SOURCE 700
#define _DARWIN_C_SOURCE
#endif

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

struct uint3 { unsigned x, y, z; };
struct alignas(16) float4 { float x, y, z, w; };
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

static uint3 threadIdx, blockIdx, blockDim, gridDim;
static long long loads, bytes_loaded, stores, bytes_stored, barriers;
static char trouble[200];

#define __global__ static
#define __device__ static inline
#define __shared__ static
#define __restrict__
#define __launch_bounds__(...)

template <class T> struct Global {  /* a pointer to an array of `count` elements */
    T *start;
    long long count, at;

    struct Element {
        T *place;
        operator T() const { loads++, bytes_loaded += sizeof(T); return *place; }
        Element &operator=(T value) { stores++, bytes_stored += sizeof(T); *place = value; return *this; }
        Element &operator=(const Element &other) { return *this = (T) other; }
        Element &operator+=(T value) { return *this = (T) *this + value; }
    };

    Global operator+(long long offset) const { return {start, count, at + offset}; }
    Element operator[](long long index) const
    {
        static T nothing;
        long long place = at + index;
        if (place >= 0 && place < count) return {start + place};
        if (!trouble[0])
            snprintf(trouble, sizeof trouble, "thread (%u, %u) of block (%u, %u) accesses element %lld of %lld",
                     threadIdx.x, threadIdx.y, blockIdx.x, blockIdx.y, place, count);
        return {&nothing};
    }
};

template <class T> struct GlobalIn : Global<T> {  /* a pointer to const */
    GlobalIn(const Global<T> &other) : Global<T>(other) {}
    GlobalIn operator+(long long offset) const { return Global<T>::operator+(offset); }
    T operator[](long long index) const { return Global<T>::operator[](index); }
};

struct Thread { ucontext_t context; void *stack; bool waits, ended; };
static ucontext_t scheduler;
static Thread *current;
static void (*body)();

static void run_body() { body(); current->ended = true; swapcontext(&current->context, &scheduler); }

static void __syncthreads()
{
    barriers++;
    current->waits = true;
    uint3 mine = threadIdx;
    swapcontext(&current->context, &scheduler);
    threadIdx = mine;
}

static uint3 index_of(unsigned thread)
{
    return {thread % blockDim.x, thread / blockDim.x % blockDim.y, thread / (blockDim.x * blockDim.y)};
}

static void run_block(Thread *threads, unsigned count, bool reverse)
{
    const size_t stack = 64 << 10;
    for (unsigned i = 0; i < count; i++) {
        Thread &t = threads[i];
        if (!t.stack) t.stack = malloc(stack);
        t.waits = t.ended = false;
        getcontext(&t.context);
        t.context.uc_stack.ss_sp = t.stack;
        t.context.uc_stack.ss_size = stack;
        t.context.uc_link = 0;
        makecontext(&t.context, run_body, 0);
    }
    for (unsigned ended = 0; ended < count;) {
        unsigned waiting = 0;
        ended = 0;
        for (unsigned k = 0; k < count; k++) {
            unsigned i = reverse ? count - 1 - k : k;
            Thread &t = threads[i];
            if (!t.ended) {
                current = &t;
                t.waits = false;
                threadIdx = index_of(i);
                swapcontext(&scheduler, &t.context);
            }
            waiting += t.waits && !t.ended;
            ended += t.ended;
        }
        if (waiting && ended) {
            if (!trouble[0])
                snprintf(trouble, sizeof trouble, "%u threads of block (%u, %u) wait at a barrier that %u others never reach",
                         waiting, blockIdx.x, blockIdx.y, ended);
            return;
        }
    }
}

/* Run the kernel over a grid; what went wrong, or an empty string. */
static const char *run_grid(void (*kernel)(), const unsigned *shape, bool reverse, long long *counts)
{
    gridDim = {shape[0], shape[1], shape[2]};
    blockDim = {shape[3], shape[4], shape[5]};
    loads = bytes_loaded = stores = bytes_stored = barriers = 0;
    trouble[0] = 0;
    body = kernel;
    unsigned count = blockDim.x * blockDim.y * blockDim.z, blocks = gridDim.x * gridDim.y * gridDim.z;
    Thread *threads = (Thread *) calloc(count, sizeof(Thread));
    for (unsigned k = 0; k < blocks && !trouble[0]; k++) {
        unsigned b = reverse ? blocks - 1 - k : k;
        blockIdx = {b % gridDim.x, b / gridDim.x % gridDim.y, b / (gridDim.x * gridDim.y)};
        run_block(threads, count, reverse);
    }
    for (unsigned i = 0; i < count; i++) free(threads[i].stack);
    free(threads);
    long long found[] = {loads, bytes_loaded, stores, bytes_stored, barriers};
    memcpy(counts, found, sizeof found);
    return trouble;
}
