/* The prior of sets of each size at each node of log g: integrals over t by quadrature. */

#include <math.h>

#include "sampler.h"

/* Terms below the largest one by more nats than this do not count. */
#define NATS 45.0

/* log sum_t exp(w + m p + (units - m) q) of `points` nodes, in the order of t, in which the terms are log-concave;
   the largest one is at `top` or after it, but for a little, and `top` becomes its place. */
static double of_size(int64_t m, int64_t units, int64_t points, const double *p, const double *q, const double *w, int64_t *top) {
    const double in = (double)m, not_in = (double)(units - m);
    double most = -INFINITY, sum = 1.0;
    /* Weights of the rule make the terms jump a little within a panel. */
    for (int64_t l = *top > 40 ? *top - 40 : 0; l < points; l++) {
        const double term = w[l] + in * p[l] + not_in * q[l];
        if (term > most) {
            most = term;
            *top = l;
        } else if (l > *top + 40) break;
    }
    for (int64_t l = *top - 1; l >= 0; l--) {
        const double term = w[l] + in * p[l] + not_in * q[l] - most;
        if (term > -NATS) sum += exp(term);
        else if (l < *top - 40) break;
    }
    for (int64_t l = *top + 1; l < points; l++) {
        const double term = w[l] + in * p[l] + not_in * q[l] - most;
        if (term > -NATS) sum += exp(term);
        else if (l > *top + 40) break;
    }
    return most > -INFINITY ? most + log(sum) : -INFINITY;
}

/* out[(m - first) * nodes + i] is that at node i, for sizes m from `first` to `last` - 1; p, q and w are
   (nodes, points). */
EXPORT void run_table(double *out, int64_t first, int64_t last, int64_t units, int64_t nodes, int64_t points,
                      const double *p, const double *q, const double *w) {
    for (int64_t i = 0; i < nodes; i++) {
        int64_t top = 0; /* it moves up as m grows */
        for (int64_t m = first; m < last; m++)
            out[(m - first) * nodes + i] = of_size(m, units, points, p + i * points, q + i * points, w + i * points, &top);
    }
}

/* The log prior of a set of n_in units, or its part without the odds of the units where these are given: computed when
   it is asked for first. */
double log_prior(const Problem *p, int64_t n_in, int64_t node) {
    if (p->odds) return p->log_weight[node];
    double *held = p->table + n_in * p->n_nodes + node;
    if (isnan(*held)) {
        const int64_t at = p->t_nodes > 1 ? node * p->t_points : 0;
        int64_t top = 0;
        *held = p->log_weight[node] + of_size(n_in, p->n_units, p->t_points, p->t_in + at, p->t_out + at, p->t_weight + at, &top);
    }
    return *held;
}

/* Weight of a state in averages: sets of more than `often_from` units are visited more often than they are likely. */
double weight_of(const Problem *p, int64_t n_in) {
    const double size = (double)n_in;
    return size > p->often_from ? (p->often_from + 1.0) / (size + 1.0) : 1.0;
}

/* As `log_prior`, of the distribution that the walkers keep. */
double log_target(const Problem *p, int64_t n_in, int64_t node) {
    const double prior = log_prior(p, n_in, node);
    return (double)n_in > p->often_from ? prior - log(weight_of(p, n_in)) : prior;
}

/* The log prior, of a run. */
EXPORT double run_log_prior(const Run *run, int64_t n_in, int64_t node) { return log_prior(run->problem, n_in, node); }
