/* The instructions of mma.cuh and wgmma.cuh on the CPU, for tests. Lanes hand their registers over in memory; what a copy
   brings is there only after the wait that is meant for it. A product by wgmma is made at once. */

#pragma once
#include "tile.cuh"

namespace cores {
using namespace ::emulator;

constexpr wg_u32 SHARED_AT = 384; /* where shared memory begins: aligned to no more than 128 bytes */
static char *at(wg_u32 address) { return dynamic_shared + (address - SHARED_AT); }

struct Copy { char *to; const void *from; int bytes; };
struct Copies { std::vector<std::vector<Copy>> groups; std::vector<Copy> open; long block; };
static std::vector<Copies> copies(1 << 15);

static wg_u32 handed[1024][32][4]; /* by warp of the blocks that run together */
template <int N> static void hand(const wg_u32 (&registers)[N]) {
    for (int i = 0; i < N; i++) handed[current / WARP][lane()][i] = registers[i];
    wait_for_warp(~0u);
}
static unsigned short half_of(wg_u32 word, int i) { return i ? word >> 16 : word & 0xffff; }
/* element (row, k) of a left fragment of 16 x 16 that the lanes of this warp have handed over */
static unsigned short left_of(int row, int k) {
    return half_of(handed[current / WARP][row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2], k % 2);
}
/* the same of 16 x 8 in tf32 */
static float left_tf32(int row, int k) { return __uint_as_float(handed[current / WARP][row % 8 * 4 + k % 4][row / 8 + k / 4 * 2]); }
static wg_u32 swizzled(wg_u32 address) { return address ^ (address >> 7 & 7) << 4; }

} // namespace cores

static inline wg_u32 wg_shared_address(const void *p) {
    return (wg_u32)((const char *)p - emulator::dynamic_shared) + cores::SHARED_AT;
}
static inline void wg_copy_async(wg_u32 to, const void *from, int bytes) {
    cores::copies[emulator::current].open.push_back({cores::at(to), from, bytes});
}
static inline void wg_copy_async_if(wg_u32 to, const void *from, bool there) { wg_copy_async(to, from, there ? 16 : 0); }
static inline void wg_commit() {
    cores::Copies &c = cores::copies[emulator::current];
    c.groups.push_back(std::move(c.open));
    c.open.clear();
}
template <int PENDING> static void wg_wait() {
    auto &groups = cores::copies[emulator::current].groups;
    while ((int)groups.size() > PENDING) {
        for (const cores::Copy &copy : groups.front()) {
            memset(copy.to, 0, 16);
            memcpy(copy.to, copy.from, copy.bytes);
        }
        groups.erase(groups.begin());
    }
}

static inline void wg_load_matrices(wg_u32 (&r)[4], wg_u32 from) {
    for (int i = 0; i < 4; i++) {
        wg_u32 row = __shfl_sync(~0u, from, i * 8 + emulator::lane() / 4);
        memcpy(&r[i], cores::at(row) + emulator::lane() % 4 * 4, 4);
    }
}
static inline void wg_load_transposed(wg_u32 (&r)[4], wg_u32 from) {
    for (int i = 0; i < 4; i++) {
        unsigned short both[2];
        for (int j = 0; j < 2; j++)
            memcpy(&both[j], cores::at(__shfl_sync(~0u, from, i * 8 + emulator::lane() % 4 * 2 + j)) + emulator::lane() / 4 * 2, 2);
        r[i] = both[0] | (wg_u32)both[1] << 16;
    }
}

template <class T> static float wg_of_bits(unsigned short bits) { T x; memcpy(&x, &bits, 2); return wg_wide(x); }

template <class T> static void wg_mma(float (&c)[4], const wg_u32 (&a)[4], wg_u32 b0, wg_u32 b1) {
    int lane = emulator::lane();
    float right[2][16];
    for (int n = 0; n < 2; n++)
        for (int k = 0; k < 16; k++) {
            wg_u32 word = __shfl_sync(~0u, k < 8 ? b0 : b1, (lane % 4 * 2 + n) * 4 + k % 8 / 2);
            right[n][k] = wg_of_bits<T>(cores::half_of(word, k % 2));
        }
    cores::hand(a);
    for (int e = 0; e < 4; e++)
        for (int k = 0; k < 16; k++) c[e] += wg_of_bits<T>(cores::left_of(lane / 4 + e / 2 * 8, k)) * right[e % 2][k];
    emulator::wait_for_warp(~0u);
}
template <> void wg_mma<float>(float (&c)[4], const wg_u32 (&a)[4], wg_u32 b0, wg_u32 b1) {
    int lane = emulator::lane();
    float right[2][8];
    for (int n = 0; n < 2; n++)
        for (int k = 0; k < 8; k++) right[n][k] = __uint_as_float(__shfl_sync(~0u, k < 4 ? b0 : b1, (lane % 4 * 2 + n) * 4 + k % 4));
    cores::hand(a);
    for (int e = 0; e < 4; e++)
        for (int k = 0; k < 8; k++)
            c[e] += cores::left_tf32(lane / 4 + e / 2 * 8, k) * right[e % 2][k];
    emulator::wait_for_warp(~0u);
}
static inline wg_u32 wg_tf32(float x) { return __float_as_uint(x); }
template <class T> static void wg_rounded(wg_u32 (&)[4]) {}
static inline float wg_fast_power(float x) { return exp2f(x); }
template <class T> static wg_u32 wg_pair(float low, float high) {
    return wg_narrow<T>::of(low).bits | (wg_u32)wg_narrow<T>::of(high).bits << 16;
}

static inline void wg_products_begin() {}
static inline void wg_products_commit() {}
template <int PENDING> static void wg_products_wait() {}
template <int N> static void wg_products_settled(float (&)[N]) {}
static inline void wg_show_tensor_cores() {}
template <bool ALONG> static wg_u64 wg_described(wg_u32 tile, int lines) {
    return (wg_u64)(tile >> 4) | (wg_u64)(ALONG ? 1 : lines * 128 >> 4) << 16 | (wg_u64)(1024 >> 4) << 32 | 1ull << 62;
}

/* element (row, k) of a described tile: along the depth, or across it */
template <class T> static float wg_described_element(wg_u64 tile, bool across, int row, int k) {
    wg_u32 start = (tile & 0x3fff) << 4, apart = (tile >> 16 & 0x3fff) << 4, eight = (tile >> 32 & 0x3fff) << 4;
    wg_u32 address = across ? start + row / 64 * apart + k / 8 * eight + k % 8 * 128 + row % 64 * 2
                            : start + row / 8 * eight + row % 8 * 128 + k * 2;
    unsigned short bits;
    memcpy(&bits, cores::at(cores::swizzled(address)), 2);
    return wg_of_bits<T>(bits);
}
template <class T, int N, class Left> static void wg_wgmma(float (&d)[N], const Left &left, wg_u64 b, int more, bool across) {
    int lane = emulator::lane(), warp = threadIdx.x / 32 % 4;
    if constexpr (!std::is_same_v<Left, wg_u64>) cores::hand(left);
    for (int i = 0; i < N; i++) {
        int row = lane / 4 + i % 4 / 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
        float sum = more ? d[i] : 0;
        for (int k = 0; k < 16; k++) {
            float x;
            if constexpr (std::is_same_v<Left, wg_u64>) x = wg_described_element<T>(left, false, warp * 16 + row, k);
            else x = wg_of_bits<T>(cores::left_of(row, k));
            sum += x * wg_described_element<T>(b, across, column, k);
        }
        d[i] = sum;
    }
    if constexpr (!std::is_same_v<Left, wg_u64>) emulator::wait_for_warp(~0u);
}
/* the same in tf32: the left operand is held, the right one lies in chunks of 16 bytes, unswizzled */
template <int N> static void wg_wgmma_tf32(float (&d)[N], const wg_u32 (&a)[4], wg_u64 b, int more) {
    int lane = emulator::lane();
    wg_u32 start = (b & 0x3fff) << 4, deeper = (b >> 16 & 0x3fff) << 4, eight = (b >> 32 & 0x3fff) << 4;
    cores::hand(a);
    for (int i = 0; i < N; i++) {
        int row = lane / 4 + i % 4 / 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
        float sum = more ? d[i] : 0;
        for (int k = 0; k < 8; k++) {
            float right;
            memcpy(&right, cores::at(start + column / 8 * eight + column % 8 * 16 + k / 4 * deeper + k % 4 * 4), 4);
            sum += cores::left_tf32(row, k) * right;
        }
        d[i] = sum;
    }
    emulator::wait_for_warp(~0u);
}
