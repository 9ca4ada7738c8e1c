/* The prior of sets of each size at each node of log g: integrals over t by quadrature. */

#include <math.h>

#include "sampler.h"

/* Terms below the largest one by more nats than this do not count. */
#define NATS 45.0

/* out[(m - first) * nodes + i] = log sum_t exp(w + m p + (units - m) q) at node i, for sizes m from `first` to
   `last` - 1; p, q and w are (nodes, points), in the order of t, in which the terms are log-concave. */
EXPORT void run_table(double *out, int64_t first, int64_t last, int64_t units, int64_t nodes, int64_t points,
                      const double *p, const double *q, const double *w) {
    for (int64_t i = 0; i < nodes; i++) {
        const double *pi = p + i * points, *qi = q + i * points, *wi = w + i * points;
        int64_t top = 0;
        for (int64_t m = first; m < last; m++) {
            const double in = (double)m, not_in = (double)(units - m);
            double most = -INFINITY, sum = 1.0;
            /* The largest term moves up as m grows; weights of the rule make it jump a little within a panel. */
            for (int64_t l = top > 40 ? top - 40 : 0; l < points; l++) {
                const double term = wi[l] + in * pi[l] + not_in * qi[l];
                if (term > most) {
                    most = term;
                    top = l;
                } else if (l > top + 40) break;
            }
            for (int64_t l = top - 1; l >= 0; l--) {
                const double term = wi[l] + in * pi[l] + not_in * qi[l] - most;
                if (term > -NATS) sum += exp(term);
                else if (l < top - 40) break;
            }
            for (int64_t l = top + 1; l < points; l++) {
                const double term = wi[l] + in * pi[l] + not_in * qi[l] - most;
                if (term > -NATS) sum += exp(term);
                else if (l > top + 40) break;
            }
            out[(m - first) * nodes + i] = most > -INFINITY ? most + log(sum) : -INFINITY;
        }
    }
}
