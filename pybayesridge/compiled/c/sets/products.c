/* Entries of X'X, weighted where the walker has weights, and the units that are strongly correlated with one. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sampler.h"

static double weighted_dot(const double *a, const double *b, const double *w, int64_t n) {
    double s[4] = {0, 0, 0, 0};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int l = 0; l < 4; l++) s[l] += a[i + l] * b[i + l] * w[i + l];
    for (; i < n; i++) s[0] += a[i] * b[i] * w[i];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* X'x_j without weights, or NULL where it is not held. */
const double *row(const Problem *p, int64_t j) {
    if (p->gram) return p->gram + j * p->d;
    if (!p->held || j >= p->d || p->held_at[j] < 0) return NULL;
    return p->held + (int64_t)p->held_at[j] * p->d;
}

/* x_a'x_j. */
double product(Run *run, const Walker *w, int64_t a, int64_t j) {
    const Problem *p = run->problem;
    if (w->weights) return weighted_dot(p->xt + a * p->n, p->xt + j * p->n, w->weights, p->n);
    if (a == j) return p->diag[j];
    const double *from = row(p, j);
    if (from) return from[a];
    from = row(p, a);
    return from ? from[j] : dot(p->xt + a * p->n, p->xt + j * p->n, p->n);
}

/* x_a'x_j for all members a. */
void products(Run *run, const Walker *w, int64_t j, double *out) {
    const Problem *p = run->problem;
    if (w->weights) {
        const double *x = p->xt + j * p->n;
        for (int64_t i = 0; i < p->n; i++) run->weighted[i] = x[i] * w->weights[i];
        for (int64_t i = 0; i < w->m; i++) out[i] = dot(p->xt + w->column[i] * p->n, run->weighted, p->n);
        return;
    }
    const double *from = row(p, j);
    if (from)
        for (int64_t i = 0; i < w->m; i++) out[i] = from[w->column[i]];
    else
        for (int64_t i = 0; i < w->m; i++) out[i] = product(run, w, w->column[i], j);
}

static int add_neighbour(Neighbours *near, int32_t unit, double r) {
    int32_t at = near->count;
    if (at == MOST_NEIGHBOURS && !(r > near->share[at - 1])) return 0;
    if (at < MOST_NEIGHBOURS) near->count = at + 1;
    else at--;
    for (; at > 0 && near->share[at - 1] < r; at--) {
        near->share[at] = near->share[at - 1];
        near->unit[at] = near->unit[at - 1];
    }
    near->share[at] = r;
    near->unit[at] = unit;
    return 1;
}

void forget_neighbours(Run *run) {
    for (int64_t i = 0; i < run->problem->n_units; i++) {
        free(run->near[i].unit);
        free(run->near[i].share);
        run->near[i].unit = NULL;
        run->near[i].share = NULL;
        run->near[i].count = -1;
    }
}

/* The listed units with the largest absolute correlations, and their shares of the proposals; none if it is not
   listed itself. */
const Neighbours *neighbours(Run *run, int64_t unit) {
    const Problem *p = run->problem;
    Neighbours *near = run->near + unit;
    if (near->count >= 0) return near;
    near->count = 0;
    if (!p->listed[unit]) return near;
    near->unit = malloc(MOST_NEIGHBOURS * sizeof *near->unit);
    near->share = malloc(MOST_NEIGHBOURS * sizeof *near->share);
    if (!near->unit || !near->share) {
        run->failed = 1;
        return near;
    }
    memset(run->similar, 0, (size_t)p->n_units * sizeof *run->similar);
    for (int64_t a = p->start[unit]; a < p->start[unit + 1]; a++) {
        int64_t j = p->order[a];
        const double *products = row(p, j);
        for (int64_t i = 0; i < p->d && products; i++) {
            double both = p->diag[i] * p->diag[j], r2 = both > 0 ? products[i] * products[i] / both : 0.0;
            int64_t of = p->unit_of[i];
            if (r2 > run->similar[of]) run->similar[of] = r2;
        }
    }
    for (int64_t u = 0; u < p->n_units; u++)
        if (u != unit && p->listed[u] && run->similar[u] >= LEAST_CORRELATION * LEAST_CORRELATION)
            add_neighbour(near, (int32_t)u, run->similar[u] * run->similar[u]);
    double total = 0.0;
    for (int32_t i = 0; i < near->count; i++) total += near->share[i];
    for (int32_t i = 0; i < near->count; i++) near->share[i] /= total;
    return near;
}

/* The share of a unit among the neighbours of another one. */
double near_share(Run *run, int64_t from, int64_t to) {
    if (!run->problem->listed[from] || !run->problem->listed[to]) return 0.0;
    const Neighbours *near = neighbours(run, from);
    for (int32_t i = 0; i < near->count; i++)
        if (near->unit[i] == to) return near->share[i];
    return 0.0;
}
