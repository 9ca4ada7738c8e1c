/* Random numbers: xoshiro256++ (Blackman & Vigna 2021, "Scrambled linear pseudorandom number generators"). */

#include "sampler.h"

static uint64_t rotate(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }

static uint64_t next(uint64_t *s) {
    uint64_t out = rotate(s[0] + s[3], 23) + s[0], t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return out;
}

/* Between 0 and 1, neither of them. */
double uniform_of(uint64_t *random) { return ((double)(next(random) >> 11) + 0.5) * 0x1p-53; }

double uniform(Walker *w) { return uniform_of(w->random); }

/* 0 to n - 1: n is far below 2^32, so that the bias is. */
uint64_t below(Walker *w, uint64_t n) { return ((next(w->random) >> 32) * n) >> 32; }

/* Walker's alias method for n cells with shares `scaled`, of mean 1 (written over): the share of each cell that is its
   own, and whose the rest is. `stack` (n,) is scratch: from its beginning the cells with less than 1, from its end the
   others. */
EXPORT void alias_table(double *scaled, int64_t n, double *keep, int32_t *alias, int32_t *stack) {
    int64_t small = 0, large = n;
    for (int64_t i = 0; i < n; i++) {
        keep[i] = 1.0;
        alias[i] = (int32_t)i;
        if (scaled[i] < 1.0) stack[small++] = (int32_t)i;
        else stack[--large] = (int32_t)i;
    }
    while (small > 0 && large < n) {
        const int32_t low = stack[--small], high = stack[large];
        keep[low] = scaled[low];
        alias[low] = high;
        scaled[high] -= 1.0 - scaled[low];
        if (!(scaled[high] < 1.0)) continue;
        large++;
        stack[small++] = high;
    }
}
