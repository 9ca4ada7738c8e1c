/* What selection/light.py calls. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sampler.h"

/* Sizes beyond the present one that the table of the prior has to have. */
#define MARGIN 2

/* How run_advance ended. */
enum { DONE, TABLE, RECORD, MEMORY };

EXPORT void run_free(Run *run) {
    if (!run) return;
    for (int64_t i = 0; run->walker && i < run->n_walkers; i++) {
        Walker *w = run->walker + i;
        void *own[] = {w->v, w->inner, w->b, w->p, w->py, w->q, w->column, w->unit, w->place, w->unit_place};
        for (size_t e = 0; e < sizeof own / sizeof *own; e++) free(own[e]);
    }
    if (run->near) forget_neighbours(run);
    void *own[] = {run->walker, run->near, run->similar, run->h, run->u,
                   run->factor, run->factor_n, run->solution, run->s, run->reach, run->v_in, run->b_in,
                   run->cross_terms, run->weighted, run->flat, run->block, run->columns, run->exchanged, run->chosen, run->sum, run};
    for (size_t e = 0; e < sizeof own / sizeof *own; e++) free(own[e]);
}

static void *numbers(int64_t count) { return calloc(count > 0 ? (size_t)count : 1, sizeof(double)); }

/* Walkers without a set yet; NULL without memory. */
EXPORT Run *run_new(const Problem *p, int64_t n_walkers) {
    Run *run = calloc(1, sizeof *run);
    if (!run) return NULL;
    const int64_t columns = p->d + p->fixed, q = p->widest;
    run->problem = p;
    run->n_walkers = n_walkers;
    run->walker = calloc((size_t)n_walkers, sizeof *run->walker);
    run->near = calloc((size_t)p->n_units, sizeof *run->near);
    run->similar = numbers(p->n_units);
    run->s = numbers(q * q);
    run->v_in = numbers(q * q);
    run->reach = numbers(q);
    run->b_in = numbers(q);
    run->cross_terms = numbers(q * (dual_size(p) > q ? dual_size(p) : q));
    run->weighted = numbers(p->n);
    run->flat = numbers((p->n + p->fixed + 1) * p->fixed);
    run->factor_n = numbers(1);
    run->exchanged = calloc((size_t)p->d, sizeof *run->exchanged);
    run->chosen = calloc((size_t)p->n_units, sizeof *run->chosen);
    run->sum = numbers(p->n * p->n);
    int good = run->walker && run->near && run->similar && run->s && run->v_in && run->reach && run->b_in && run->cross_terms && run->weighted && run->flat && run->factor_n && run->exchanged && run->chosen && run->sum;
    for (int64_t i = 0; good && i < n_walkers; i++) {
        Walker *w = run->walker + i;
        w->place = malloc((size_t)columns * sizeof *w->place);
        w->unit_place = malloc((size_t)p->n_units * sizeof *w->unit_place);
        w->unit = malloc((size_t)p->n_units * sizeof *w->unit);
        good = w->place && w->unit_place && w->unit;
    }
    if (!good) {
        run_free(run);
        return NULL;
    }
    for (int64_t j = 0; j < p->n_units; j++) run->near[j].count = -1;
    return run;
}

/* To be called when `listed` has changed. */
EXPORT void run_forget(Run *run) { forget_neighbours(run); }

/* Put a walker into a state; 0 without memory. */
EXPORT int run_start(Run *run, int64_t walker, const int32_t *units, int64_t n_in, int64_t node, const uint64_t *seed,
                     const double *weights, const double *linear, const double *cross, double yy) {
    const Problem *p = run->problem;
    Walker *w = run->walker + walker;
    int64_t m = p->fixed;
    for (int64_t i = 0; i < n_in; i++) m += width(p, units[i]);
    for (int64_t j = 0; j < p->d + p->fixed; j++) w->place[j] = -1;
    for (int64_t j = 0; j < p->n_units; j++) w->unit_place[j] = -1;
    w->m = w->n_in = w->known = 0;
    w->since_sum = INT64_MAX;
    w->node = node;
    w->weights = weights;
    w->linear = linear;
    w->cross = cross;
    w->yy = yy;
    if (seed) memcpy(w->random, seed, sizeof w->random);
    if (!ensure_room(run, w, m + p->widest)) return 0;
    for (int64_t j = 0; j < p->fixed; j++) {
        w->place[p->d + j] = (int32_t)w->m;
        w->column[w->m++] = (int32_t)(p->d + j);
    }
    for (int64_t i = 0; i < n_in; i++) note_in(p, w, units[i]);
    return rebuild(run, w, 0);
}

/* Whether a step may come to a size for which the prior is not tabulated. */
static int lacks_table(const Problem *p, const Walker *w) {
    return !p->odds && p->table_sizes <= p->n_units && w->n_in + most_more(p, w->n_in) + MARGIN > p->table_sizes;
}

/* `steps` light moves and a pass, `passes` times; how it ended, and in `done` the passes. */
EXPORT int run_advance(Run *run, int64_t walker, int64_t steps, int64_t passes, Record *record, int64_t *done) {
    const Problem *p = run->problem;
    Walker *w = run->walker + walker;
    for (*done = 0; *done < passes; (*done)++) {
        if (record->units && record->used + w->n_in + p->renewed_sizes + steps * MOST_TOGETHER > record->room &&
            record->used + p->n_units > record->room)
            return RECORD;
        if (!w->left) w->left = steps + 1;
        for (; w->left > 1; w->left--) {
            if (lacks_table(p, w)) return TABLE;
            step(run, w);
            if (run->failed) return MEMORY;
        }
        look(run, w, record);
        if (run->failed) return MEMORY;
        w->left = 0;
        if (!record->units) continue;
        uint64_t key = 0;
        for (int64_t i = 0; i < w->n_in; i++) {
            key ^= record->marks[w->unit[i]];
            record->units[record->used++] = w->unit[i];
        }
        record->size[*done] = (int32_t)w->n_in;
        record->node[*done] = (int32_t)w->node;
        record->key[*done] = key;
    }
    return DONE;
}

/* The part of a full pass on the columns `first` to `last` - 1 of units that are not watched. Rows of X'X of members,
   of these columns, are `lent`, those that `lent_at` says, if not NULL. 0 without memory. */
EXPORT int run_sweep(Run *run, int64_t walker, int64_t first, int64_t last, const double *lent, const int32_t *lent_at,
                     Record *record) {
    sweep(run, run->walker + walker, first, last, lent, lent_at, record);
    return !run->failed;
}

/* `steps` light moves of every walker without a pass; how it ended. After TABLE a call goes on where this one stood. */
EXPORT int run_walk(Run *run, int64_t steps) {
    const Problem *p = run->problem;
    for (; run->walking < run->n_walkers; run->walking++) {
        Walker *w = run->walker + run->walking;
        if (!w->left) w->left = steps + 1;
        for (; w->left > 1; w->left--) {
            if (lacks_table(p, w)) return TABLE;
            step(run, w);
            if (run->failed) return MEMORY;
        }
        w->left = 0;
    }
    run->walking = 0;
    return DONE;
}

/* Mean and covariance of the coefficients in the rows' form: with g of the slab, mean g X'P y and covariance
   g - g X'P X g of those that have it; P is that of state.c. */
static int dual_coefficients(Run *run, const Walker *w, double *mean, double *covariance) {
    const Problem *p = run->problem;
    const int64_t n = p->n, size = dual_size(p), m = w->m;
    const double g = 1.0 / p->k[w->node];
    double *px = malloc((size_t)(m * size) * sizeof *px); /* P of each column, or rows of P of the fixed ones */
    if (!px) return 0;
    memset(px, 0, (size_t)(m * size) * sizeof *px);
    for (int64_t i = 0; i < m; i++) {
        const int64_t j = w->column[i];
        double *to = px + i * size;
        if (j >= p->d) memcpy(to, w->p + (n + j - p->d) * size, (size_t)size * sizeof *to);
        for (int64_t r = 0; j < p->d && r < n; r++) {
            const double *from = w->p + r * size, own = p->xt[j * n + r];
            for (int64_t l = 0; l < size; l++) to[l] += own * from[l];
        }
        mean[i] = j < p->d ? g * dot(p->xt + j * n, w->py, n) : w->py[n + j - p->d];
    }
    for (int64_t i = 0; i < m; i++)
        for (int64_t l = 0; l <= i; l++) {
            /* Of two fixed columns an entry of P, with one of the others g times an entry of P x. */
            const int64_t a = w->column[i], b = w->column[l];
            double value;
            if (b >= p->d) value = -px[i * size + n + b - p->d] * (a < p->d ? g : 1.0);
            else value = -g * dot(px + i * size, p->xt + b * n, n) * (a < p->d ? g : 1.0);
            covariance[i * m + l] = covariance[l * m + i] = value + (i == l && a < p->d ? g : 0.0);
        }
    free(px);
    return 1;
}

/* A draw of the linear predictor in the rows' form: one of its prior and of the noise, corrected by what the data say
   of their sum (Papandreou & Yuille 2010). */
static void dual_predictor(const Run *run, const Walker *w, const double *normal, double *psi) {
    const Problem *p = run->problem;
    const int64_t n = p->n, size = dual_size(p);
    const double g = 1.0 / p->k[w->node], slab = sqrt(g);
    double *lacking = run->weighted;
    for (int64_t i = 0; i < w->m; i++) {
        const double *x = p->xt + w->column[i] * n, value = slab * normal[i];
        for (int64_t l = 0; w->column[i] < p->d && l < n; l++) psi[l] += value * x[l];
    }
    for (int64_t l = 0; l < n; l++)
        lacking[l] = psi[l] + normal[w->m + l] / sqrt(w->weights[l]);
    /* P (y, 0) - P (lacking, 0): what the rows and the fixed columns are corrected by. */
    double *by = run->u;
    memcpy(by, w->py, (size_t)size * sizeof *by);
    for (int64_t r = 0; r < n; r++) {
        const double *from = w->p + r * size;
        for (int64_t l = 0; l < size; l++) by[l] -= from[l] * lacking[r];
    }
    for (int64_t r = 0; r < n; r++) psi[r] += g * dot(w->q + r * n, by, n);
    for (int64_t c = 0; c < p->fixed; c++)
        for (int64_t l = 0; l < n; l++) psi[l] += by[n + c] * p->xt[(p->d + c) * n + l];
}

/* Coefficients given the set and the weights, for noise variance 1: their columns (fixed ones from d on), mean and
   covariance (m, m), unless NULL; how many. */
EXPORT int64_t run_coefficients(Run *run, int64_t walker, int32_t *column, double *mean, double *covariance) {
    const Walker *w = run->walker + walker;
    const int64_t m = w->m;
    if (!column) return m;
    memcpy(column, w->column, (size_t)m * sizeof *column);
    if (w->dual) return dual_coefficients(run, w, mean, covariance) ? m : -1;
    memcpy(mean, w->b, (size_t)m * sizeof *mean);
    for (int64_t i = 0; i < m; i++) memcpy(covariance + i * m, w->v + i * w->capacity, (size_t)m * sizeof *mean);
    return m;
}

/* Normal numbers for a draw of the linear predictor: one a column, and in the rows' form one a row. Of the walker that
   takes most of them. */
EXPORT int64_t run_normals(const Run *run) {
    int64_t most = 0;
    for (const Walker *w = run->walker; w < run->walker + run->n_walkers; w++) {
        const int64_t own = w->m + (w->dual ? run->problem->n : 0);
        if (own > most) most = own;
    }
    return most;
}

/* A draw of the linear predictor of every walker given its set and weights, (n_walkers, n), from independent normal
   numbers, (n_walkers, each); 0 without memory. */
EXPORT int run_predictors(Run *run, const double *normal, int64_t each, double *psi) {
    const Problem *p = run->problem;
    memset(psi, 0, (size_t)(run->n_walkers * p->n) * sizeof *psi);
    for (const Walker *w = run->walker; w < run->walker + run->n_walkers; w++, normal += each, psi += p->n) {
        const int64_t m = w->m;
        if (w->dual) {
            dual_predictor(run, w, normal, psi);
            continue;
        }
        if (!ensure_factor(run, m)) return 0;
        for (int64_t i = 0; i < m; i++)
            memcpy(run->factor + i * m, w->v + i * w->capacity, (size_t)m * sizeof *run->factor);
        cholesky(run->factor, m, m, 1e-300, 0);
        memcpy(run->solution, w->b, (size_t)m * sizeof *run->solution);
        for (int64_t i = 0; i < m; i++)
            for (int64_t l = i; l < m; l++) run->solution[l] += run->factor[i * m + l] * normal[i];
        for (int64_t i = 0; i < m; i++) {
            const double value = run->solution[i], *x = p->xt + w->column[i] * p->n;
            for (int64_t l = 0; l < p->n; l++) psi[l] += value * x[l];
        }
    }
    return 1;
}

/* Every walker takes a node, and new weights, which the caller has written where the old ones were, with X'y
   (n_walkers, d + fixed) and y'y; 0 without memory. */
EXPORT int run_reweigh(Run *run, const int64_t *node, const double *cross, const double *yy) {
    for (int64_t i = 0; i < run->n_walkers; i++, cross += run->problem->d + run->problem->fixed) {
        Walker *w = run->walker + i;
        w->node = node[i];
        w->cross = cross;
        w->yy = yy[i];
        w->known = 0;
        if (!rebuild(run, w, 0)) return 0;
    }
    return 1;
}

static int ascending(const void *a, const void *b) {
    const int32_t one = *(const int32_t *)a, other = *(const int32_t *)b;
    return (one > other) - (one < other);
}

/* Of every walker how many units are in, and the node; with `units` not NULL also which, ascending, one walker after
   the other. */
EXPORT void run_states(const Run *run, int32_t *units, int64_t *n_in, int64_t *node) {
    for (int64_t i = 0; i < run->n_walkers; i++) {
        const Walker *w = run->walker + i;
        n_in[i] = w->n_in;
        node[i] = w->node;
        if (!units) continue;
        memcpy(units, w->unit, (size_t)w->n_in * sizeof *units);
        qsort(units, (size_t)w->n_in, sizeof *units, ascending);
        units += w->n_in;
    }
}

/* Put the walkers that `which` says back into such states, with the weights that they have; 0 without memory. */
EXPORT int run_return(Run *run, const uint8_t *which, const int32_t *units, const int64_t *n_in, const int64_t *node) {
    for (int64_t i = 0; i < run->n_walkers; units += n_in[i++]) {
        const Walker *w = run->walker + i;
        if (which[i] && !run_start(run, i, units, n_in[i], node[i], NULL, w->weights, w->linear, w->cross, w->yy))
            return 0;
    }
    return 1;
}

/* The state of a walker: units in (n_in of them are written), node, and R, log |M|, drift. */
EXPORT int64_t run_state(const Run *run, int64_t walker, int32_t *units, int64_t *node, double *numbers) {
    const Walker *w = run->walker + walker;
    memcpy(units, w->unit, (size_t)w->n_in * sizeof *units);
    *node = w->node;
    numbers[0] = w->left_over;
    numbers[1] = w->log_det;
    numbers[2] = w->drift;
    numbers[3] = (double)w->dual;
    return w->n_in;
}

/* Moves proposed and accepted, of all walkers; whether a set came near the largest that is considered. */
EXPORT int64_t run_counts(const Run *run, int64_t *proposed, int64_t *accepted) {
    for (int e = 0; e < N_MOVES; e++) {
        proposed[e] = accepted[e] = 0;
        for (int64_t i = 0; i < run->n_walkers; i++) {
            proposed[e] += run->walker[i].proposed[e];
            accepted[e] += run->walker[i].accepted[e];
        }
    }
    return run->limited;
}
