/* Random numbers: xoshiro256++ (Blackman & Vigna 2021, "Scrambled linear pseudorandom number generators"). */

#include "sampler.h"

static uint64_t rotate(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }

static uint64_t next(Walker *w) {
    uint64_t *s = w->random, out = rotate(s[0] + s[3], 23) + s[0], t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return out;
}

/* Between 0 and 1, neither of them. */
double uniform(Walker *w) { return ((double)(next(w) >> 11) + 0.5) * 0x1p-53; }

/* 0 to n - 1: n is far below 2^32, so that the bias is. */
uint64_t below(Walker *w, uint64_t n) { return ((next(w) >> 32) * n) >> 32; }
