/* Small dense linear algebra, in the same order of operations on every machine.

   A symmetric matrix is given by its upper triangle, and factorised as U'U: rows are contiguous, so that what is done to
   a row is done to several of its entries at once. */

#include <math.h>
#include <string.h>

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

/* The logarithm of a product, with few logarithms. */
typedef struct {
    double sum, product;
} LogProduct;

static inline void multiply(LogProduct *all, double by) {
    if (by > 1.0 / FAR && by < FAR) all->product *= by;
    else all->sum += log(by);
    if (all->product > 1.0 / FAR && all->product < FAR) return;
    all->sum += log(all->product);
    all->product = 1.0;
}

/* Of the rows `first` to `end` - 1, at most `ROWS` of them, the multiples of rows above are taken that the factor lacks:
   entries from column `first` on. */
INSIDE void take_rows_above(double *a, int64_t first, int64_t end, int64_t n, int64_t stride) {
    for (int64_t at = first; at < n; at += COLUMNS) {
        /* The last columns together with some before them, which have theirs already. */
        const int64_t from = at + COLUMNS <= n ? at : n - COLUMNS;
        double sum[ROWS][COLUMNS];
        sums_of_products(a + first, stride, a + from, stride, first, sum);
        for (int64_t i = first; i < end; i++)
            for (int64_t l = at; l < n && l < at + COLUMNS; l++) a[i * stride + l] -= sum[i - first][l - from];
    }
}

/* The upper factor of a symmetric matrix, in its upper triangle (what is below is written over); log of the
   determinant. Pivots after the first `free_pivots` are at least `least`: what is lower is rounding. */
WIDE double cholesky(double *a, int64_t n, int64_t stride, double least, int64_t free_pivots) {
    LogProduct det = {0.0, 1.0};
    const int64_t rows = n < COLUMNS ? n : ROWS;
    for (int64_t first = 0; first < n; first += rows) {
        const int64_t end = first + rows < n ? first + rows : n;
        if (first) take_rows_above(a, first, end, n, stride);
        for (int64_t j = first; j < end; j++) {
            double *restrict own = a + j * stride;
            for (int64_t e = first; e < j; e++) {
                const double *restrict other = a + e * stride;
                const double by = other[j];
                for (int64_t l = j; l < n; l++) own[l] -= by * other[l];
            }
            double pivot = own[j];
            if (j >= free_pivots && !(pivot > least)) pivot = least;
            multiply(&det, pivot);
            own[j] = sqrt(pivot);
            const double inverse = 1.0 / own[j];
            for (int64_t l = j + 1; l < n; l++) own[l] *= inverse;
        }
    }
    return det.sum + log(det.product);
}

/* x := U^-T x. */
WIDE void forward(const double *u, double *restrict x, int64_t n, int64_t stride) {
    for (int64_t i = 0; i < n; i++) {
        const double *restrict own = u + i * stride;
        const double by = x[i] /= own[i];
        for (int64_t j = i + 1; j < n; j++) x[j] -= own[j] * by;
    }
}

/* x := U^-1 x. */
void backward(const double *u, double *x, int64_t n, int64_t stride) {
    for (int64_t i = n - 1; i >= 0; i--)
        x[i] = (x[i] - dot(u + i * stride + i + 1, x + i + 1, n - i - 1)) / u[i * stride + i];
}

/* U^-T, row after row of n numbers: those after the diagonal are 0. */
INSIDE void invert_factor(const double *u, double *t, int64_t n, int64_t stride) {
    const int64_t rows = n < COLUMNS ? n : ROWS;
    memset(t, 0, (size_t)(n * n) * sizeof *t);
    for (int64_t first = 0; first < n; first += rows) {
        const int64_t end = first + rows < n ? first + rows : n;
        for (int64_t at = 0; at < first; at += COLUMNS) {
            const int64_t from = at + COLUMNS <= n ? at : n - COLUMNS;
            double sum[ROWS][COLUMNS];
            sums_of_products(u + from * stride + first, stride, t + from * n + from, n, first - from, sum);
            for (int64_t i = first; i < end; i++)
                for (int64_t l = at; l < first && l < at + COLUMNS; l++) t[i * n + l] = -sum[i - first][l - from];
        }
        for (int64_t i = first; i < end; i++) {
            double *restrict own = t + i * n;
            const double inverse = 1.0 / u[i * stride + i];
            for (int64_t e = first; e < i; e++) {
                const double *restrict other = t + e * n;
                const double by = u[e * stride + i];
                for (int64_t l = 0; l <= e; l++) own[l] -= by * other[l];
            }
            for (int64_t l = 0; l < i; l++) own[l] *= inverse;
            own[i] = inverse;
        }
    }
}

/* (U'U)^-1, both triangles. `scratch`: n x n numbers, for U^-T. */
WIDE void invert(const double *u, double *out, int64_t n, int64_t stride, int64_t out_stride, double *scratch) {
    const double *t = scratch;
    invert_factor(u, scratch, n, stride);
    if (n < COLUMNS) {
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j <= i; j++) {
                double sum = 0.0;
                for (int64_t k = i; k < n; k++) sum += t[k * n + i] * t[k * n + j];
                out[i * out_stride + j] = out[j * out_stride + i] = sum;
            }
        return;
    }
    for (int64_t i = 0; i < n; i += ROWS) {
        const int64_t first = i + ROWS <= n ? i : n - ROWS;
        for (int64_t at = 0; at < first + ROWS; at += COLUMNS) {
            const int64_t from = at + COLUMNS <= n ? at : n - COLUMNS;
            double sum[ROWS][COLUMNS];
            sums_of_products(t + first * n + first, n, t + first * n + from, n, n - first, sum);
            for (int64_t r = 0; r < ROWS; r++)
                for (int64_t l = 0; l < COLUMNS && from + l <= first + r; l++)
                    out[(first + r) * out_stride + from + l] = out[(from + l) * out_stride + first + r] = sum[r][l];
        }
    }
}
