/* XX' of many columns that are centred and scaled: what design/wide_compiled.py calls.

   A block of columns is read twice and written once while it is in the cache, and handed to BLAS. Sums are taken in a
   fixed order, so that they are the same on every processor. */

#include <math.h>
#include <stdint.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* Columns whose sums are taken together. */
#define STRIP 256

/* Sums over a contiguous column are taken in so many parts. */
#define PARTS 8

/* Sums of squares about the first row may be so many times those about the mean; beyond, these are taken anew. */
#define FAR 16.0

/* BLAS: adds A A' or A'A to the lower triangle of C. */
typedef void Dsyrk(char *uplo, char *trans, int *n, int *k, double *alpha, double *a, int *lda, double *beta, double *c,
                   int *ldc);

/* The columns, and what is made of them; in the order of design/wide_compiled.py. */
typedef struct {
    int64_t n;           /* rows */
    int64_t step;        /* from one row to the next; where columns are contiguous, from one column to the next */
    int64_t by_columns;  /* whether columns are contiguous */
    int64_t centred;     /* whether means are taken out */
    int64_t block;       /* columns of a block */
    double least, most;  /* sums of squares between these have met neither underflow nor overflow */
    double constant;     /* a standard deviation up to this share of a column's size is none */
    const double *x;
    const double *w;     /* weights of the rows, of mean 1; NULL for equal ones */
    const double *root;  /* their square roots */
    double *buffer;      /* room for a block */
    double *center, *sd; /* of each column: its mean, or 0, and its standard deviation */
    double *inverse;     /* what it is multiplied by */
    uint8_t *flat;       /* whether it does not vary */
    double *product;     /* (n, n), to whose lower triangle XX' is added */
    Dsyrk *dsyrk;
} Wide;

/* Sums of w d and w d^2, d being what is left of x without its first row and `center`, for columns whose rows are
   contiguous. No weights stand for 1 and no center for 0; inlined, so that the compiler leaves them out. */
static inline void sums_by_rows(const double *x, int64_t n, int64_t b, int64_t step, const double *w,
                                const double *restrict center, double *restrict sum, double *restrict square) {
    for (int64_t j = 0; j < b; j++) sum[j] = square[j] = 0;
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const double *x0 = x + i * step, *x1 = x0 + step, *x2 = x1 + step, *x3 = x2 + step;
        const double w0 = w ? w[i] : 1, w1 = w ? w[i + 1] : 1, w2 = w ? w[i + 2] : 1, w3 = w ? w[i + 3] : 1;
        for (int64_t j = 0; j < b; j++) {
            const double s = x[j], c = center ? center[j] : 0;
            const double d0 = (x0[j] - s) - c, d1 = (x1[j] - s) - c, d2 = (x2[j] - s) - c, d3 = (x3[j] - s) - c;
            const double e0 = w0 * d0, e1 = w1 * d1, e2 = w2 * d2, e3 = w3 * d3;
            sum[j] += (e0 + e1) + (e2 + e3);
            square[j] += (e0 * d0 + e1 * d1) + (e2 * d2 + e3 * d3);
        }
    }
    for (; i < n; i++)
        for (int64_t j = 0; j < b; j++) {
            const double d = (x[i * step + j] - x[j]) - (center ? center[j] : 0), e = (w ? w[i] : 1) * d;
            sum[j] += e;
            square[j] += e * d;
        }
}

/* The same for columns that are contiguous. */
static inline void sums_by_columns(const double *x, int64_t n, int64_t b, int64_t step, const double *w,
                                   const double *center, double *sum, double *square) {
    for (int64_t j = 0; j < b; j++) {
        const double *column = x + j * step, s = column[0], c = center ? center[j] : 0;
        double sums[PARTS] = {0}, squares[PARTS] = {0};
        for (int64_t i = 0; i < n; i += PARTS)
            for (int64_t k = 0; k < PARTS && i + k < n; k++) {
                const double d = (column[i + k] - s) - c, e = (w ? w[i + k] : 1) * d;
                sums[k] += e;
                squares[k] += e * d;
            }
        for (int64_t half = PARTS / 2; half; half /= 2)
            for (int64_t k = 0; k < half; k++) {
                sums[k] += sums[k + half];
                squares[k] += squares[k + half];
            }
        sum[j] = sums[0];
        square[j] = squares[0];
    }
}

static void sums(const Wide *a, const double *x, int64_t b, const double *center, double *sum, double *square) {
    if (a->by_columns && a->w) sums_by_columns(x, a->n, b, a->step, a->w, center, sum, square);
    else if (a->by_columns && center) sums_by_columns(x, a->n, b, a->step, 0, center, sum, square);
    else if (a->by_columns) sums_by_columns(x, a->n, b, a->step, 0, 0, sum, square);
    else if (a->w) sums_by_rows(x, a->n, b, a->step, a->w, center, sum, square);
    else if (center) sums_by_rows(x, a->n, b, a->step, 0, center, sum, square);
    else sums_by_rows(x, a->n, b, a->step, 0, 0, sum, square);
}

/* The columns from `first` on. */
static const double *at(const Wide *a, int64_t first) { return a->x + first * (a->by_columns ? a->step : 1); }

/* Means less the first row into `center`, and sums of squares about the means into `sd`. */
static void spread(const Wide *a, int64_t first, int64_t b) {
    double *mean = a->center + first, *square = a->sd + first, rest[STRIP];
    int far = 0;
    sums(a, at(a, first), b, 0, mean, square);
    for (int64_t j = 0; j < b; j++) {
        const double about_first = square[j];
        mean[j] /= (double)a->n;
        square[j] -= (double)a->n * (mean[j] * mean[j]);
        far |= !(about_first <= FAR * square[j]);
    }
    if (far) sums(a, at(a, first), b, mean, rest, square);
}

/* Whether all values of a column are equal. */
static int equal(const Wide *a, int64_t column) {
    const double *x = at(a, column);
    const int64_t step = a->by_columns ? 1 : a->step;
    for (int64_t i = 1; i < a->n; i++)
        if (x[i * step] != x[0]) return 0;
    return 1;
}

/* Standard deviations and factors of a block from its sums of squares; 0 if a sum is not to be trusted. */
static int scales(const Wide *a, int64_t first, int64_t b) {
    const double *x = at(a, first);
    for (int64_t j = 0; j < b; j++) {
        const int64_t i = first + j;
        const double mean = x[a->by_columns ? j * a->step : j] + a->center[i], square = a->sd[i];
        if (!(a->least < square && square < a->most) && !equal(a, i)) return 0;
        a->sd[i] = sqrt(square / (double)a->n);
        a->flat[i] = a->sd[i] <= a->constant * fabs(mean);
        a->inverse[i] = !a->flat[i] ? 1 / a->sd[i] : a->centred ? 0 : 1;
    }
    return 1;
}

/* The columns less their means, times `root` and `inverse`, into the buffer, in their own order. */
static inline void fill_by_rows(const Wide *a, const double *x, int64_t b, const double *root,
                                const double *restrict mean, const double *restrict inverse) {
    const double centred = a->centred ? 1 : 0;
    int64_t i = 0;
    for (; i + 4 <= a->n; i += 4) {
        const double *x0 = x + i * a->step, *x1 = x0 + a->step, *x2 = x1 + a->step, *x3 = x2 + a->step;
        double *restrict to0 = a->buffer + i * b, *restrict to1 = to0 + b;
        double *restrict to2 = to1 + b, *restrict to3 = to2 + b;
        const double r0 = root ? root[i] : 1, r1 = root ? root[i + 1] : 1;
        const double r2 = root ? root[i + 2] : 1, r3 = root ? root[i + 3] : 1;
        for (int64_t j = 0; j < b; j++) {
            const double s = centred * x[j], c = centred * mean[j], f = inverse[j];
            to0[j] = ((x0[j] - s) - c) * r0 * f;
            to1[j] = ((x1[j] - s) - c) * r1 * f;
            to2[j] = ((x2[j] - s) - c) * r2 * f;
            to3[j] = ((x3[j] - s) - c) * r3 * f;
        }
    }
    for (; i < a->n; i++)
        for (int64_t j = 0; j < b; j++)
            a->buffer[i * b + j] =
                ((x[i * a->step + j] - centred * x[j]) - centred * mean[j]) * (root ? root[i] : 1) * inverse[j];
}

static inline void fill_by_columns(const Wide *a, const double *x, int64_t b, const double *root, const double *mean,
                                   const double *inverse) {
    for (int64_t j = 0; j < b; j++) {
        const double *column = x + j * a->step, f = inverse[j];
        const double s = a->centred ? column[0] : 0, c = a->centred ? mean[j] : 0;
        double *restrict to = a->buffer + j * a->n;
        for (int64_t i = 0; i < a->n; i++) to[i] = ((column[i] - s) - c) * (root ? root[i] : 1) * f;
    }
}

static void fill(const Wide *a, int64_t first, int64_t b) {
    const double *x = at(a, first), *mean = a->center + first, *inverse = a->inverse + first;
    if (a->by_columns && a->root) fill_by_columns(a, x, b, a->root, mean, inverse);
    else if (a->by_columns) fill_by_columns(a, x, b, 0, mean, inverse);
    else if (a->root) fill_by_rows(a, x, b, a->root, mean, inverse);
    else fill_by_rows(a, x, b, 0, mean, inverse);
}

/* Add XX' of columns, block by block; 0 if the squares of a column may have met underflow or overflow. */
EXPORT int wide_product(const Wide *a, int64_t first, int64_t stop) {
    double one = 1;
    int n = (int)a->n;
    for (; first < stop; first += a->block) {
        const int64_t b = stop - first < a->block ? stop - first : a->block;
        for (int64_t strip = 0; strip < b; strip += STRIP)
            spread(a, first + strip, b - strip < STRIP ? b - strip : STRIP);
        if (!scales(a, first, b)) return 0;
        fill(a, first, b);
        const double *x = at(a, first);
        for (int64_t j = 0; j < b; j++)
            a->center[first + j] = a->centred ? x[a->by_columns ? j * a->step : j] + a->center[first + j] : 0;
        int k = (int)b;
        a->dsyrk("L", a->by_columns ? "N" : "T", &n, &k, &one, a->buffer, a->by_columns ? &n : &k, &one, a->product,
                 &n);
    }
    return 1;
}
