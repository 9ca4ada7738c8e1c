/* Draws of Polya-Gamma variables PG(1, c) by the rejection method of Polson, Scott & Windle (2013), which is Devroye's. */

#include <math.h>

#include "sampler.h"

#define PI 3.14159265358979323846

/* Where the two series of the density of 4 PG(1, c) meet, and the root of its inverse. */
#define CUT 0.64
#define ROOT 1.25

/* From this |c| / 2 on, what lies beyond CUT on the wrong side has less than e^-500 of the probability. */
#define FAR 40.0

/* Standard normal distribution function. */
static double below_normal(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }

static double exponential(uint64_t *random) { return -log(uniform_of(random)); }

/* The square of a standard normal number. */
static double normal_square(uint64_t *random) {
    const double wave = cos(2.0 * PI * uniform_of(random));
    return 2.0 * exponential(random) * wave * wave;
}

/* The inverse Gaussian law of mean 1 / z and shape 1, given that it is below CUT. */
static double truncated_inverse_gaussian(double z, uint64_t *random) {
    while (z * CUT < 1.0) {
        const double first = exponential(random), second = exponential(random);
        const double one = 1.0 + CUT * first, x = CUT / (one * one);
        if (first * first <= 2.0 * second / CUT && uniform_of(random) <= exp(-0.5 * z * z * x)) return x;
    }
    const double mean = 1.0 / z;
    for (;;) {
        const double y = mean * normal_square(random);
        /* The smaller root, without cancellation. */
        double x = mean / (1.0 + 0.5 * y + sqrt(y + 0.25 * y * y));
        if (uniform_of(random) > mean / (mean + x)) x = mean * mean / x;
        if (x < CUT) return x;
    }
}

/* A term of the series of the density. */
static double term(int n, double x) {
    const double half = n + 0.5;
    if (x > CUT) return PI * half * exp(-0.5 * half * half * PI * PI * x);
    const double scale = 2.0 / (PI * x);
    return PI * half * scale * sqrt(scale) * exp(-2.0 * half * half / x);
}

/* Accept x where a uniform share of the first term lies below the alternating series of the density. */
static int below_density(double x, uint64_t *random) {
    double total = term(0, x);
    const double level = uniform_of(random) * total;
    for (int n = 1;; n++) {
        if (n % 2) {
            total -= term(n, x);
            if (level <= total) return 1;
        } else {
            total += term(n, x);
            if (level > total) return 0;
        }
    }
}

/* PG(1, c) for each c (n,); `random` (4,) are the state of the random numbers. */
EXPORT void polya_gamma(const double *c, int64_t n, uint64_t *random, double *out) {
    for (int64_t i = 0; i < n; i++) {
        const double z = 0.5 * fabs(c[i]), rate = PI * PI / 8.0 + 0.5 * z * z;
        /* Both times e^z. */
        const double tail = 0.5 * PI / rate * exp(z - rate * CUT);
        double body = 2.0 * below_normal(ROOT * (CUT * z - 1.0));
        if (z < FAR) body += 2.0 * exp(2.0 * z) * below_normal(-ROOT * (CUT * z + 1.0));
        const double in_tail = tail / (tail + body);
        double x;
        do {
            x = uniform_of(random) < in_tail ? CUT + exponential(random) / rate : truncated_inverse_gaussian(z, random);
        } while (!below_density(x, random));
        out[i] = 0.25 * x;
    }
}
