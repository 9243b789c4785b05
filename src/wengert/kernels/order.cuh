/* Orders of all dtypes as the order of unsigned integers, for sorting and selecting.

   A key is a number of as many bits as an element whose order, as an unsigned integer, is that of the elements: the sign
   bit of an integer is flipped; of a float that is negative all bits are flipped, of another the sign bit. Every NaN
   becomes the largest key. Descending order takes the complement of all that, so that NaNs come first and an order that
   keeps equal keys in place keeps equal elements in place, both ways round.

   -0 and +0 are equal and have different keys, one beside the other: `rank` gives both the same. What keeps the bits of
   the elements (a sort) compares ranks of keys; what needs their order alone makes ranks of them once. */

#ifndef WENGERT_ORDER_CUH
#define WENGERT_ORDER_CUH

#include "math.cuh"

#define WG_MEMBER_OF static __device__ __forceinline__

enum wg_kind { WG_UNSIGNED, WG_SIGNED, WG_FLOATING };

/* K: the unsigned integer of an element's size; INFINITE: the bits of infinity, where elements are floats */
template <class K, wg_kind KIND, uint64_t INFINITE, bool DOWN> struct wg_order {
    typedef K key;
    static constexpr int BITS = 8 * sizeof(K);
    static constexpr K TOP = (K)((K)1 << (BITS - 1)), ALL = (K)~(K)0;
    static constexpr bool FLOATING = KIND == WG_FLOATING;

    WG_MEMBER_OF K of(K bits) {
        K key = bits;
        if constexpr (KIND == WG_SIGNED) key = (K)(bits ^ TOP);
        if constexpr (FLOATING) {
            key = (K)(bits & TOP ? ~bits : bits | TOP);
            if ((K)(bits & (K)~TOP) > (K)INFINITE) key = ALL;
        }
        return DOWN ? (K)~key : key;
    }
    WG_MEMBER_OF K bits(K key) {
        if (DOWN) key = (K)~key;
        if constexpr (KIND == WG_SIGNED) return (K)(key ^ TOP);
        if constexpr (FLOATING) return (K)(key & TOP ? key ^ TOP : ~key);
        return key;
    }
    WG_MEMBER_OF K rank(K key) {
        constexpr K minus = DOWN ? TOP : (K)(TOP - 1), plus = (K)~minus;
        return FLOATING && key == minus ? plus : key;
    }
};

#endif
