/* Products of a sparse table of groups: what bands/eliminated.py calls.

   A row of the table is a level of the group that is eliminated, a column a level of another one. Sums are taken in a
   fixed order, so that they are the same on every processor. */

#include <stdint.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* Sides of the tiles in which a triangle is copied. */
#define TILE 32

/* The sum over rows of weight times the outer product of the row with itself, added to the upper triangle of the first
   columns of `out`, (width, width), which is zero before; then copied to the lower one if `whole`. The table is in
   compressed rows with sorted columns. */
EXPORT void groups_square(const int32_t *start, const int32_t *column, const double *value, const double *weight,
                          int64_t rows, int64_t width, int64_t whole, double *out) {
    for (int64_t s = 0; s < rows; s++) {
        const int32_t first = start[s], last = start[s + 1];
        for (int32_t i = first; i < last; i++) {
            double *to = out + (int64_t)column[i] * width;
            const double w = weight[s] * value[i];
            for (int32_t j = i; j < last; j++) to[column[j]] += w * value[j];
        }
    }
    if (!whole) return;
    for (int64_t i = 0; i < width; i += TILE)
        for (int64_t j = 0; j <= i; j += TILE)
            for (int64_t k = i; k < i + TILE && k < width; k++)
                for (int64_t l = j; l < j + TILE && l < k; l++) out[k * width + l] = out[l * width + k];
}

/* The upper triangle of `out` plus that of `more`, rows and columns times `root`, plus 1 in the first `ones` of the
   diagonal. */
EXPORT void groups_scaled(const double *root, const double *more, int64_t width, int64_t ones, double *out) {
    for (int64_t i = 0; i < width; i++) {
        double *to = out + i * width;
        const double *from = more + i * width, r = root[i];
        for (int64_t j = i; j < width; j++) to[j] = r * (to[j] + from[j]) * root[j];
        if (i < ones) to[i] += 1;
    }
}

/* For each row c of the table c'Uc, U (width, width) being symmetric. */
EXPORT void groups_forms(const int32_t *start, const int32_t *column, const double *value, const double *u,
                         int64_t rows, int64_t width, double *out) {
    for (int64_t s = 0; s < rows; s++) {
        const int32_t first = start[s], last = start[s + 1];
        double sum = 0;
        for (int32_t i = first; i < last; i++) {
            const double *from = u + (int64_t)column[i] * width;
            double before = 0;
            for (int32_t j = first; j < i; j++) before += value[j] * from[column[j]];
            sum += value[i] * (2 * before + value[i] * from[column[i]]);
        }
        out[s] = sum;
    }
}
