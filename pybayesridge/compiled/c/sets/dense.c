/* Small dense linear algebra, in the same order of operations on every machine. */

#include <math.h>

#include "sampler.h"

/* Pivots and their products that are multiplied are within this and its inverse. */
#define FAR 1e100

/* a'b, in sums side by side. */
WIDE double long_dot(const double *a, const double *b, int64_t n) {
    double s[SIDE_BY_SIDE] = {0, 0, 0, 0, 0, 0, 0, 0};
    int64_t i = 0;
    for (; i + SIDE_BY_SIDE <= n; i += SIDE_BY_SIDE)
        for (int l = 0; l < SIDE_BY_SIDE; l++) s[l] += a[i + l] * b[i + l];
    for (; i < n; i++) s[0] += a[i] * b[i];
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

/* The lower factor of a symmetric matrix, in its lower triangle; log of the determinant. Pivots after the first
   `free_pivots` are at least `least`: what is lower is rounding. */
double cholesky(double *a, int64_t n, int64_t stride, double least, int64_t free_pivots) {
    double log_det = 0.0, product = 1.0;
    for (int64_t j = 0; j < n; j++) {
        double *aj = a + j * stride;
        double pivot = aj[j] - dot(aj, aj, j);
        if (j >= free_pivots && !(pivot > least)) pivot = least;
        /* One logarithm of a product of several pivots, which neither overflows nor vanishes. */
        if (pivot > 1.0 / FAR && pivot < FAR) product *= pivot;
        else log_det += log(pivot);
        if (!(product > 1.0 / FAR && product < FAR)) {
            log_det += log(product);
            product = 1.0;
        }
        aj[j] = sqrt(pivot);
        const double inverse = 1.0 / aj[j];
        for (int64_t i = j + 1; i < n; i++) {
            double *ai = a + i * stride;
            ai[j] = (ai[j] - dot(ai, aj, j)) * inverse;
        }
    }
    return log_det + log(product);
}

void forward(const double *l, double *x, int64_t n, int64_t stride) {
    for (int64_t i = 0; i < n; i++) x[i] = (x[i] - dot(l + i * stride, x, i)) / l[i * stride + i];
}

void backward(const double *l, double *x, int64_t n, int64_t stride) {
    for (int64_t i = n - 1; i >= 0; i--) {
        x[i] /= l[i * stride + i];
        for (int64_t j = 0; j < i; j++) x[j] -= l[i * stride + j] * x[i];
    }
}

/* (L L')^-1, both triangles. `scratch`: n x n numbers, for L^-1 transposed. */
void invert(const double *l, double *out, int64_t n, int64_t stride, int64_t out_stride, double *scratch) {
    for (int64_t i = 0; i < n; i++) {
        const double *li = l + i * stride, inverse = 1.0 / li[i];
        for (int64_t j = 0; j < i; j++) scratch[j * n + i] = -dot(li + j, scratch + j * n + j, i - j) * inverse;
        scratch[i * n + i] = inverse;
        for (int64_t j = 0; j < i; j++) scratch[i * n + j] = 0.0;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            double value = dot(scratch + i * n + i, scratch + j * n + i, n - i);
            out[i * out_stride + j] = out[j * out_stride + i] = value;
        }
}
