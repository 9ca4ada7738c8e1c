/* A pass over units: the probability of each given the others, and the moments of its coefficients. */

#include <math.h>
#include <string.h>

#include "sampler.h"

/* Least variance of a coefficient, in units of that of the noise. */
#define TINY 1e-300

/* Powers of at least 1 - MOST_GAIN to this one are numbers that do not vanish. */
#define MOST_GAIN 0.5
#define MOST_POWER 900.0

typedef struct {
    const Record *to;
    double up, down; /* prior odds of one unit more, and of the last one */
    double weight;
} Sums;

static double inside(double log_odds) {
    if (log_odds > 0) return 1.0 / (1.0 + exp(-log_odds));
    const double odds = exp(log_odds);
    return odds / (1.0 + odds);
}

/* Mean of s2 given a set that leaves `left`. */
static double noise_of(const Problem *p, const Walker *w, double left) {
    if (p->noise) return p->noise[w->node];
    return p->nu > 2.0 ? (left > 0.0 ? left : 0.0) / (p->nu - 2.0) : INFINITY;
}

/* The log odds of a unit by log |S| (out: `sign` -1) or log |V_JJ| (in: 1) and what it explains. */
static double log_odds(Run *run, const Walker *w, int64_t unit, double sign, double log_det, double gain, const Sums *sums) {
    const Problem *p = run->problem;
    double prior = sign > 0 ? sums->down : sums->up;
    if (p->odds) {
        prior = p->odds[unit];
        if (isinf(prior)) return prior;
    }
    if (sign < 0 && w->m - p->fixed + width(p, unit) > p->most_columns) {
        run->limited = 1;
        return -INFINITY;
    }
    return prior + 0.5 * (double)width(p, unit) * p->log_k[w->node] + 0.5 * sign * log_det - sign * log_gain(p, w, sign * gain);
}

/* Count a unit with such log odds; its probability. */
static double count_unit(const Sums *sums, int64_t unit, double odds) {
    const double value = inside(odds);
    sums->to->prob[unit] += sums->weight * value;
    sums->to->absent[unit] += sums->weight * (value > 0.5 ? inside(-odds) : 1.0 - value);
    return value;
}

static void count(const Sums *sums, int64_t j, double q, double coef, double var) {
    if (!(q > 0.0)) return;
    coef -= sums->to->center[j];
    q *= sums->weight;
    sums->to->mean[j] += q * coef;
    sums->to->square[j] += q * (coef * coef + var);
}

static double of_unit(Run *run, Walker *w, int64_t unit, const Sums *to) {
    const Problem *p = run->problem;
    const int64_t q = width(p, unit), *j = p->order + p->start[unit];
    double *coef = run->cross_terms;
    if (w->unit_place[unit] >= 0) {
        look_out(run, w, unit);
        double var[BLOCK], *b = q <= BLOCK ? var : run->solution + q;
        for (int64_t c = 0; c < q; c++) b[c] = run->v_in[c * p->widest + c];
        double *own = run->solution;
        memcpy(own, run->b_in, (size_t)q * sizeof *own);
        const double log_det = cholesky(run->v_in, q, p->widest, TINY, 0);
        forward(run->v_in, run->b_in, q, p->widest);
        const double gain = dot(run->b_in, run->b_in, q);
        const double value = count_unit(to, unit, log_odds(run, w, unit, 1.0, log_det, gain, to));
        const double noise = noise_of(p, w, w->left_over);
        for (int64_t c = 0; c < q; c++) count(to, j[c], value, own[c], b[c] * noise);
        return value;
    }
    const Change in = peek_in(run, w, unit);
    const double value = count_unit(to, unit, log_odds(run, w, unit, -1.0, in.log_det, in.gain, to));
    const double noise = noise_of(p, w, w->left_over - in.gain);
    backward(run->s, run->solution, q, p->widest);
    memcpy(coef, run->solution, (size_t)q * sizeof *coef);
    invert(run->s, run->v_in, q, p->widest, p->widest, run->solution);
    for (int64_t c = 0; c < q; c++) count(to, j[c], value, coef[c], run->v_in[c * p->widest + c] * noise);
    return value;
}

/* X_A'x_j of some columns, into the block, and their squared lengths; `lent`: see run_sweep. */
static void fill(Run *run, const Walker *w, int64_t first, int64_t size, const double *lent, int64_t stride,
                 const int32_t *lent_at, double *squares) {
    const Problem *p = run->problem;
    for (int64_t a = 0; a < w->m && !w->weights; a++) {
        const int64_t column = w->column[a];
        const double *from = row(p, column);
        double *to = run->block + a * BLOCK;
        if (from) from += first;
        else if (lent && lent_at[column] >= 0) from = lent + lent_at[column] * stride;
        if (from) memcpy(to, from, (size_t)size * sizeof *to);
        else
            for (int64_t c = 0; c < size; c++) to[c] = dot(p->xt + column * p->n, p->xt + (first + c) * p->n, p->n);
    }
    for (int64_t c = 0; c < size; c++) {
        squares[c] = w->weights ? product(run, w, first + c, first + c) : p->diag[first + c];
        if (!w->weights) continue;
        products(run, w, first + c, run->h);
        for (int64_t a = 0; a < w->m; a++) run->block[a * BLOCK + c] = run->h[a];
    }
}

/* Rows of X of some columns, into the block. */
static void fill_rows(Run *run, int64_t first, int64_t size) {
    const Problem *p = run->problem;
    for (int64_t c = 0; c < size; c++) {
        const double *x = p->xt + (first + c) * p->n;
        for (int64_t i = 0; i < p->n; i++) run->block[i * BLOCK + c] = x[i];
    }
}

/* h'M h of the columns h of the block, M symmetric with n rows. */
WIDE static void squares_of_block(const double *block, const double *m, int64_t n, int64_t stride, double *out) {
    const int64_t whole = n - n % ROWS;
    memset(out, 0, BLOCK * sizeof *out);
    for (int64_t i = 0; i < whole; i += ROWS)
        for (int64_t at = 0; at < BLOCK; at += COLUMNS) {
            double sum[ROWS][COLUMNS];
            /* Of each row what is before the diagonal. */
            sums_of_products(m + i, stride, block + at, BLOCK, i, sum);
            for (int r = 0; r < ROWS; r++) {
                const double *own = m + (i + r) * stride + i, *h = block + i * BLOCK + at;
                for (int e = 0; e < r; e++)
                    for (int c = 0; c < COLUMNS; c++) sum[r][c] += own[e] * h[e * BLOCK + c];
                for (int c = 0; c < COLUMNS; c++) {
                    const double x = h[r * BLOCK + c];
                    out[at + c] += x * (own[r] * x + 2.0 * sum[r][c]);
                }
            }
        }
    for (int64_t i = whole; i < n; i++) {
        double sum[BLOCK] = {0.0};
        const double *own = m + i * stride, *h = block + i * BLOCK;
        for (int64_t e = 0; e < i; e++)
            for (int c = 0; c < BLOCK; c++) sum[c] += own[e] * block[e * BLOCK + c];
        for (int c = 0; c < BLOCK; c++) out[c] += h[c] * (own[i] * h[c] + 2.0 * sum[c]);
    }
}

/* Whether a pass that looks at all units but those that are watched leaves this one out. */
static int left_out(const Problem *p, int64_t unit) { return p->watched && p->is_watched[unit]; }

/* Whether posterior odds are prior odds times powers of what is left over: no logarithms, for a whole block. */
static int has_powers(const Problem *p, const Walker *w) {
    const int fits = w->m - p->fixed < p->most_columns;
    return fits && !p->noise && !p->odds && p->nu <= MOST_POWER && p->nu == floor(p->nu);
}

/* k / (free (1 - gain / R)^nu) of each column of a block. */
WIDE static void squared_odds(double k, double nu, double left, const double *free, const double *gain, double *out) {
    double base[BLOCK];
    for (int c = 0; c < BLOCK; c++) {
        base[c] = 1.0 - gain[c] / left;
        out[c] = 1.0;
    }
    for (int64_t power = (int64_t)nu; power > 0; power /= 2) {
        if (power % 2)
            for (int c = 0; c < BLOCK; c++) out[c] *= base[c];
        for (int c = 0; c < BLOCK; c++) base[c] *= base[c];
    }
    for (int c = 0; c < BLOCK; c++) out[c] = k / (free[c] * out[c]);
}

/* The single columns `begin` to `end` - 1 that are out, or all of them in the rows' form, by blocks of them. */
WIDE static void by_blocks(Run *run, Walker *w, int64_t begin, int64_t end, const double *lent, const int32_t *lent_at,
                      const Sums *to) {
    const Problem *p = run->problem;
    double square[BLOCK] = {0.0}, explained[BLOCK], reach[BLOCK], free[BLOCK], gain[BLOCK], squared[BLOCK];
    const double k = p->k[w->node], g = 1.0 / k, *by = w->dual ? w->py : w->b;
    const int64_t n = w->dual ? p->n : w->m;
    const int powers = has_powers(p, w);
    const double prior = powers ? exp(to->up) : 0.0;
    for (int64_t first = begin; first < end; first += BLOCK) {
        const int64_t size = end - first < BLOCK ? end - first : BLOCK;
        if (size < BLOCK) memset(run->block, 0, (size_t)(n * BLOCK) * sizeof(double));
        if (w->dual) fill_rows(run, first, size);
        else fill(run, w, first, size, lent ? lent + (first - begin) : NULL, end - begin, lent_at, square);
        squares_of_block(run->block, w->dual ? w->p : w->v, n, w->dual ? dual_size(p) : w->capacity, explained);
        memset(reach, 0, sizeof reach);
        for (int64_t i = 0; i < n; i++)
            for (int c = 0; c < BLOCK; c++) reach[c] += by[i] * run->block[i * BLOCK + c];
        for (int64_t c = 0; c < size && !w->dual; c++) reach[c] = w->cross[first + c] - reach[c];
        for (int64_t c = 0; c < BLOCK; c++) {
            free[c] = (w->dual ? explained[c] : square[c] - explained[c]) + k;
            if (!(free[c] > k)) free[c] = k;
            gain[c] = reach[c] * reach[c] / free[c];
        }
        if (powers) squared_odds(k, p->nu, w->left_over, free, gain, squared);
        for (int64_t c = 0; c < size; c++) {
            const int64_t j = first + c, unit = p->unit_of[j];
            if (width(p, unit) > 1 || left_out(p, unit)) continue;
            double value, coef, var;
            if (w->place[j] < 0) {
                if (powers && gain[c] < MOST_GAIN * w->left_over) {
                    const double odds = prior * sqrt(squared[c]);
                    value = odds / (1.0 + odds);
                    to->to->prob[unit] += to->weight * value;
                    to->to->absent[unit] += to->weight * (1.0 / (1.0 + odds));
                } else value = count_unit(to, unit, log_odds(run, w, unit, -1.0, log(free[c]), gain[c], to));
                coef = reach[c] / free[c];
                var = noise_of(p, w, w->left_over - gain[c]) / free[c];
            } else if (w->dual) { /* from x'P x and x'P y with it */
                const double own = g * (1.0 - g * explained[c]), v = own > TINY ? own : TINY;
                coef = g * reach[c];
                value = count_unit(to, unit, log_odds(run, w, unit, 1.0, log(v), coef * coef / v, to));
                var = noise_of(p, w, w->left_over) * v;
            } else continue;
            to->to->sums[4] += to->weight * value;
            count(to, j, value, coef, var);
        }
    }
}

static Sums begun(const Problem *p, const Walker *w, const Record *record) {
    Sums to = {record, 0.0, 0.0, weight_of(p, w->n_in)};
    if (!p->odds) {
        const double here = log_prior(p, w->n_in, w->node);
        to.up = w->n_in < p->n_units ? log_prior(p, w->n_in + 1, w->node) - here : -INFINITY;
        to.down = w->n_in ? here - log_prior(p, w->n_in - 1, w->node) : 0.0;
    }
    return to;
}

/* Add the probabilities of units, and of their absence, the means and mean squares of coefficients less their centers
   times the former, where a unit is not watched and its columns are within bounds; in sums[4] the expected number of
   these units in. Several calls make up a pass: units of several columns, and those that are in but by the rows' form,
   belong to the last one. */
void sweep(Run *run, Walker *w, int64_t first, int64_t last, const double *lent, const int32_t *lent_at,
           const Record *record) {
    const Problem *p = run->problem;
    const Sums to = begun(p, w, record);
    if (!ensure_room(run, w, w->m + p->widest) || !ensure_scratch(run, w->dual ? p->n : 0)) return;
    by_blocks(run, w, first, last, lent, lent_at, &to);
    if (last < p->d) return;
    for (int64_t unit = 0; unit < p->n_units; unit++)
        if (!left_out(p, unit) && (width(p, unit) > 1 || (w->unit_place[unit] >= 0 && !w->dual)))
            record->sums[4] += to.weight * of_unit(run, w, unit, &to);
    record->weight[1] += to.weight;
}

/* A pass over all units, or over those that are watched: also the means of the fixed columns, and in `sums` the
   expected number of watched units in, log g, the mean of s2, the number of units in, and of others see `sweep`. */
void look(Run *run, Walker *w, const Record *record) {
    const Problem *p = run->problem;
    double *sums = record->sums;
    if (p->watched) {
        const Sums to = begun(p, w, record);
        if (!ensure_room(run, w, w->m + p->widest)) return;
        for (int64_t i = 0; i < p->n_watched; i++) sums[0] += to.weight * of_unit(run, w, p->watched[i], &to);
    } else sweep(run, w, 0, p->d, NULL, NULL, record);
    const double weight = weight_of(p, w->n_in);
    const Sums to_fixed = {record, 0.0, 0.0, weight};
    for (int64_t j = p->d; j < p->d + p->fixed; j++) {
        const int64_t at = w->dual ? p->n + j - p->d : w->place[j];
        const double coef = w->dual ? w->py[at] : w->b[at];
        const double var = w->dual ? -w->p[at * dual_size(p) + at] : w->v[at * w->capacity + at];
        count(&to_fixed, j, 1.0, coef, var * p->noise[w->node]);
    }
    sums[1] += weight * p->log_g[w->node];
    sums[2] += weight * noise_of(p, w, w->left_over);
    sums[3] += weight * (double)w->n_in;
    record->weight[0] += weight;
}
