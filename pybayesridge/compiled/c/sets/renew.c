/* A move to a set that has nothing to do with the present one, as far as units are loose.

   Units are kept or loose, by a fixed list. The units in are K u J, K kept ones and J loose ones. With q a fixed
   distribution over pairs (s, node), s < S, and N loose units in all, the move draws (s, node') from q and J' from all
   sets of s loose units, each as likely, and goes from (K u J, node) to (K u J', node') with probability

       min(1, [p(K u J', node') q(|J|, node) / C(N, |J|)] / [p(K u J, node) q(s, node') / C(N, s)]);

   with |J| >= S the walker stays, and no such set is ever proposed. K does not change, so that for each K this is an
   independence sampler of the posterior of (J, node) given K and |J| < S: the posterior stays what it is, whatever q.
   `log_renewed` is log q(s, node) - log C(N, s). */

#include <math.h>

#include "sampler.h"

/* The first of the sums that is above a number: which size and node. */
static int64_t drawn(const Problem *p, double number) {
    int64_t low = 0, high = p->renewed_sizes * p->n_nodes - 1;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (p->renewed_sum[middle] > number) high = middle;
        else low = middle + 1;
    }
    return low;
}

/* The first `size` of the loose units become any of them. What was exchanged is written down: `put_back` undoes it. */
static void shuffle(Run *run, Walker *w, int64_t size) {
    const Problem *p = run->problem;
    for (int64_t i = 0; i < size; i++) {
        const int64_t other = i + (int64_t)below(w, (uint64_t)(p->n_loose - i));
        const int32_t unit = p->loose[i];
        p->loose[i] = p->loose[other];
        p->loose[other] = unit;
        run->exchanged[i] = (int32_t)other;
    }
}

static void put_back(const Run *run, int64_t size) {
    const Problem *p = run->problem;
    for (int64_t i = size - 1; i >= 0; i--) {
        const int64_t other = run->exchanged[i];
        const int32_t unit = p->loose[i];
        p->loose[i] = p->loose[other];
        p->loose[other] = unit;
    }
}

/* The set's columns, or -1 if it may not be so large. */
static int64_t listed_columns(Run *run, Walker *w, int64_t size) {
    const Problem *p = run->problem;
    int64_t m = 0, more = -w->m;
    for (int64_t i = 0; i < w->m; i++) m += !p->is_loose[p->unit_of[w->column[i]]];
    more += m;
    for (int64_t i = 0; i < size; i++) more += width(p, p->loose[i]);
    if (!fits(run, w, more) || !ensure_scratch(run, w->m + more)) return -1;
    m = 0;
    for (int64_t i = 0; i < w->m; i++)
        if (!p->is_loose[p->unit_of[w->column[i]]]) run->columns[m++] = w->column[i];
    for (int64_t i = 0; i < size; i++)
        for (int64_t a = p->start[p->loose[i]]; a < p->start[p->loose[i] + 1]; a++) run->columns[m++] = (int32_t)p->order[a];
    return m;
}

static void take_over(Run *run, Walker *w, int64_t size, int64_t m) {
    const Problem *p = run->problem;
    for (int64_t i = w->n_in - 1; i >= 0; i--)
        if (p->is_loose[w->unit[i]]) note_out(p, w, w->unit[i]);
    if (!make_room(run, w, m)) return;
    for (int64_t i = 0; i < size; i++) note_in(p, w, p->loose[i]);
    rebuild(run, w, 0);
}

void renew(Run *run, Walker *w) {
    const Problem *p = run->problem;
    int64_t before = 0;
    for (int64_t i = 0; i < w->n_in; i++) before += p->is_loose[w->unit[i]];
    if (before >= p->renewed_sizes) return;
    const int64_t at = drawn(p, uniform(w)), size = at / p->n_nodes, node = at % p->n_nodes;
    const int64_t kept = w->n_in - before;
    double log_det, left;
    shuffle(run, w, size);
    const int64_t m = listed_columns(run, w, size);
    if (m >= 0 && evaluate_afresh(run, w, run->columns, m, node, &log_det, &left)) {
        double ratio = log_likelihood(p, m, log_det, left, node) + log_target(p, kept + size, node) - p->log_renewed[at];
        ratio -= log_likelihood(p, w->m, w->log_det, w->left_over, w->node) + log_target(p, w->n_in, w->node);
        ratio += p->log_renewed[before * p->n_nodes + w->node];
        if (accepted(w, RENEW, ratio)) {
            w->node = node;
            take_over(run, w, size, m);
        }
    }
    put_back(run, size);
}
