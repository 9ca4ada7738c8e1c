/* Moves between sets that were visited before: explanations of the response that differ in several units.

   Of several lists one is drawn first, half of the time the first one. The units in are C u J, C those of which the
   sets of the list are made and J others. Let L be the list, and q a distribution over pairs (S, node) with S in L,
   both fixed. From (C u J, node) with C in L the move draws (S, node') from q and goes to (S u J, node') with
   probability

       min(1, [p(S u J, node') q(C, node)] / [p(C u J, node) q(S, node')]);

   with lists other than the first one the node stays, and q is a distribution of S alone. With C not in L the walker stays, and no such set is ever proposed. J does not change, so that for each J this is an
   independence sampler of the posterior of (C, node) given J and C in L: the posterior stays what it is, whatever q. */

#include <math.h>

#include "sampler.h"

/* The first of `n` ascending sums that is above a number. */
static int64_t first_above(const double *sum, int64_t n, double number) {
    int64_t low = 0, high = n - 1;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (sum[middle] > number) high = middle;
        else low = middle + 1;
    }
    return low;
}

static int64_t size_of(const Problem *p, int64_t set) { return p->recalled_start[set + 1] - p->recalled_start[set]; }

static int is_in(const Problem *p, int64_t set, int64_t unit) {
    int64_t low = p->recalled_start[set], high = p->recalled_start[set + 1];
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (p->recalled_unit[middle] < unit) low = middle + 1;
        else high = middle;
    }
    return low < p->recalled_start[set + 1] && p->recalled_unit[low] == unit;
}

/* Which of the sets the core units that are in are, -1 for none. */
static int64_t present(const Problem *p, const Walker *w, int64_t list, const uint8_t *is_core) {
    uint64_t key = 0;
    const int64_t end = p->list_start[list + 1];
    int64_t count = 0, low = p->list_start[list], high = end;
    for (int64_t i = 0; i < w->n_in; i++)
        if (is_core[w->unit[i]]) {
            key ^= p->mark[w->unit[i]];
            count++;
        }
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (p->recalled_key[middle] < key) low = middle + 1;
        else high = middle;
    }
    if (low == end || p->recalled_key[low] != key || size_of(p, low) != count) return -1;
    for (int64_t i = 0; i < w->n_in; i++)
        if (is_core[w->unit[i]] && !is_in(p, low, w->unit[i])) return -1;
    return low;
}

static double log_proposal(const Problem *p, int64_t list, int64_t set, int64_t node) {
    const int64_t pairs = p->list_start[1] * p->n_nodes;
    return p->log_recalled[list ? pairs + set - p->list_start[1] : set * p->n_nodes + node];
}

void recall(Run *run, Walker *w) {
    const Problem *p = run->problem;
    const int64_t list = p->n_lists > 1 && uniform(w) < 0.5 ? 1 + (int64_t)below(w, (uint64_t)p->n_lists - 1) : 0;
    const uint8_t *is_core = p->is_core + list * p->n_units;
    const int64_t here = present(p, w, list, is_core), first = p->list_start[list];
    if (here < 0) return;
    const int64_t there = first + first_above(p->recalled_sum + first, p->list_start[list + 1] - first, uniform(w));
    const int64_t node = list ? w->node : first_above(p->recalled_node_sum + there * p->n_nodes, p->n_nodes, uniform(w));
    if (there == here && node == w->node) return;
    const int32_t *unit = p->recalled_unit + p->recalled_start[there];
    int64_t leaving[MOST_RECALLED], n_leaving = 0, coming[MOST_RECALLED], n_coming = 0, more = 0;
    double ratio = 0.0, log_det, left;
    for (int64_t i = 0; i < w->n_in; i++)
        if (is_core[w->unit[i]] && !is_in(p, there, w->unit[i])) leaving[n_leaving++] = w->unit[i];
    for (int64_t i = 0; i < size_of(p, there); i++)
        if (w->unit_place[unit[i]] < 0) coming[n_coming++] = unit[i];
    for (int64_t i = 0; i < n_leaving; i++) more -= width(p, leaving[i]);
    for (int64_t i = 0; i < n_coming; i++) more += width(p, coming[i]);
    if (!fits(run, w, more) || !ensure_room(run, w, w->m + p->widest * n_coming)) return;
    int64_t m = 0;
    for (int64_t i = 0; i < w->m; i++) {
        const int64_t own = w->column[i] < p->d ? p->unit_of[w->column[i]] : -1;
        if (own < 0 || !is_core[own] || is_in(p, there, own)) run->columns[m++] = w->column[i];
    }
    for (int64_t i = 0; i < n_coming; i++)
        for (int64_t a = p->start[coming[i]]; a < p->start[coming[i] + 1]; a++) run->columns[m++] = (int32_t)p->order[a];
    if (!evaluate(run, w, run->columns, m, node, &log_det, &left)) return;
    ratio += log_likelihood(p, m - p->fixed, log_det, left, node) + log_target(p, w->n_in + n_coming - n_leaving, node);
    ratio -= log_likelihood(p, w->m - p->fixed, w->log_det, w->left_over, w->node) + log_target(p, w->n_in, w->node);
    ratio += log_proposal(p, list, here, w->node) - log_proposal(p, list, there, node);
    for (int64_t i = 0; p->odds && i < n_leaving; i++) ratio -= p->odds[leaving[i]];
    for (int64_t i = 0; p->odds && i < n_coming; i++) ratio += p->odds[coming[i]];
    if (!accepted(w, RECALL, ratio)) return;
    for (int64_t i = 0; i < n_leaving; i++) note_out(p, w, leaving[i]);
    for (int64_t i = 0; i < n_coming; i++) note_in(p, w, coming[i]);
    w->node = node;
    settle(run, w, run->columns, log_det, left);
}
