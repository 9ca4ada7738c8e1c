/* The moves of a walker, each with the ratio that keeps the posterior. */

#include <math.h>
#include <stddef.h>

#include "sampler.h"

/* Nodes that a near and a far move of the node reach; the far one in half of the moves. */
#define NEAR_NODES 2
#define FAR_NODES 10

/* Least probability that a birth is of a unit that is out, for several to come in. */
#define LEAST_OUTSIDE 0.02

/* Draws of a birth until it is of a unit that is out: all of them fail with a probability of at most 1e-17. */
#define MOST_TRIES 2000

/* Least share of their turns that expensive moves take. */
#define LEAST_TURNS 0.08

/* Columns in, about, up to which moves of the node, and of several units, take all of their turns: the latter alone go
   a long way through large sets. */
#define OFTEN_NODE 15.0
#define OFTEN_TOGETHER 60.0

/* A multiple of the steps between moves of the node, and of those between moves of several units. */
#define TURNS 1000

/* Units up to which a move of several may change more than half of the larger set. */
#define FEW_TOGETHER 4

/* Numbers of units that such a move chooses from; 2 to the power of this, less one, at most `FEW_TOGETHER`. */
#define POWERS 2

/* Members whose weights are summed to draw some of them. */
#define GROUP 64

/* Share of the moves of several of which all units that move have the same part, where far more than the second are in:
   births by the probabilities of all sets are then too often of the same units. */
#define EVENLY 0.5
#define MANY_IN 20.0

/* Of a unit coming in, from the set of n_in units without it. */
static double prior_odds(const Problem *p, int64_t unit, int64_t n_in, int64_t node) {
    return p->odds ? p->odds[unit] : log_target(p, n_in + 1, node) - log_target(p, n_in, node);
}

/* What a change of R does to the log likelihood. */
double log_gain(const Problem *p, const Walker *w, double change) {
    if (p->noise) return -0.5 * change / p->noise[w->node];
    const double least = FLOOR * w->yy;
    if (!(w->left_over + change > least)) return -0.5 * p->nu * log(least / w->left_over);
    return -0.5 * p->nu * log1p(change / w->left_over);
}

double log_likelihood(const Problem *p, int64_t penalised, double log_det, double left, int64_t node) {
    const double volume = 0.5 * ((double)penalised * p->log_k[node] - log_det);
    if (p->noise) return volume - 0.5 * p->nu * log(p->noise[node]) - 0.5 * left / p->noise[node];
    return volume - 0.5 * p->nu * log(left);
}

int accepted(Walker *w, int move, double log_ratio) {
    w->proposed[move]++;
    if (!(log_ratio >= 0.0 || log(uniform(w)) < log_ratio)) return 0;
    w->accepted[move]++;
    return 1;
}

static int64_t draw_birth(const Problem *p, Walker *w) {
    int64_t at = (int64_t)below(w, (uint64_t)p->n_units);
    return uniform(w) < p->keep[at] ? at : p->alias[at];
}

static double exchange_weight(const Problem *p, const Walker *w) {
    double total = 0.0;
    for (int64_t i = 0; i < w->n_in; i++) total += p->exchange[w->unit[i]];
    return total;
}

static double death_weight(const Problem *p, const Walker *w) {
    double total = 0.0;
    for (int64_t i = 0; i < w->n_in; i++) total += p->death[w->unit[i]];
    return total;
}

/* A unit that is in, by the weights of deaths; -1 if none may leave. */
static int64_t draw_member(Walker *w, const double *weight, double total) {
    double point = uniform(w) * total;
    int64_t out = -1;
    for (int64_t i = 0; i < w->n_in; i++) {
        const double own = weight[w->unit[i]];
        if (!(own > 0.0)) continue;
        out = w->unit[i];
        if ((point -= own) < 0.0) break;
    }
    return out;
}

int fits(Run *run, const Walker *w, int64_t more) {
    if (w->m - run->problem->fixed + more <= run->problem->most_columns) return 1;
    run->limited = 1;
    return 0;
}

static void birth(Run *run, Walker *w) {
    const Problem *p = run->problem;
    const int64_t j = draw_birth(p, w);
    if (w->unit_place[j] >= 0 || !(p->birth[j] > 0.0) || !fits(run, w, width(p, j))) return;
    if (!ensure_room(run, w, w->m + width(p, j))) return;
    const Change in = peek_in(run, w, j);
    const double posterior = prior_odds(p, j, w->n_in, w->node) + log_gain(p, w, -in.gain) +
                             0.5 * ((double)width(p, j) * p->log_k[w->node] - in.log_det);
    const double back = p->death[j] / (death_weight(p, w) + p->death[j]);
    if (accepted(w, BIRTH, posterior + log(back) - p->log_birth[j])) let_in(run, w, j, &in);
}

static void death(Run *run, Walker *w) {
    const Problem *p = run->problem;
    const double total = death_weight(p, w);
    const int64_t a = draw_member(w, p->death, total);
    if (a < 0) return;
    const Change out = peek_out(run, w, a);
    const double posterior = -prior_odds(p, a, w->n_in - 1, w->node) + log_gain(p, w, out.gain) -
                             0.5 * ((double)width(p, a) * p->log_k[w->node] + out.log_det);
    if (accepted(w, DEATH, posterior + p->log_birth[a] - log(p->death[a] / total))) take_out(run, w, a);
}

/* One unit for another: half of the time one that is strongly correlated with it. */
static void swap(Run *run, Walker *w) {
    const Problem *p = run->problem;
    const double total = exchange_weight(p, w);
    const int64_t a = draw_member(w, p->exchange, total);
    if (a < 0) return;
    int64_t j = -1;
    const int near = uniform(w) < 0.5;
    if (near) {
        const Neighbours *of_a = neighbours(run, a);
        double point = uniform(w);
        for (int32_t i = 0; i < of_a->count; i++) {
            j = of_a->unit[i];
            if ((point -= of_a->share[i]) < 0.0) break;
        }
    } else j = draw_birth(p, w);
    if (j < 0 || w->unit_place[j] >= 0 || !(p->birth[j] > 0.0)) return;
    if (!fits(run, w, width(p, j) - width(p, a)) || !ensure_room(run, w, w->m + width(p, j))) return;
    const Change out = peek_out(run, w, a), in = peek_swap(run, w, a, j);
    double posterior = log_gain(p, w, out.gain - in.gain) - 0.5 * (out.log_det + in.log_det) +
                       0.5 * (double)(width(p, j) - width(p, a)) * p->log_k[w->node];
    if (p->odds) posterior += p->odds[j] - p->odds[a];
    const double there = p->exchange[a] / total * (0.5 * p->birth[j] + 0.5 * near_share(run, a, j));
    const double left = total - p->exchange[a] > 0.0 ? total - p->exchange[a] : 0.0;
    const double back = p->exchange[j] / (left + p->exchange[j]) * (0.5 * p->birth[a] + 0.5 * near_share(run, j, a));
    if (!accepted(w, near ? NEAR_SWAP : SWAP, posterior + log(back) - log(there))) return;
    exchange(run, w, a, j);
}

static void move_node(Run *run, Walker *w) {
    const Problem *p = run->problem;
    const int64_t reach = uniform(w) < 0.5 ? NEAR_NODES : FAR_NODES;
    int64_t by = 1 + (int64_t)below(w, (uint64_t)reach), penalised = w->m - p->fixed;
    if (uniform(w) < 0.5) by = -by;
    const int64_t node = w->node + by;
    double log_det, left;
    if (node < 0 || node >= p->n_nodes || !evaluate(run, w, w->column, w->m, node, &log_det, &left)) return;
    const double now = log_likelihood(p, penalised, w->log_det, w->left_over, w->node) + log_target(p, w->n_in, w->node);
    const double then = log_likelihood(p, penalised, log_det, left, node) + log_target(p, w->n_in, node);
    if (accepted(w, NODE, then - now)) go_to_node(run, w, node, log_det, left);
}

/* The share of the turns of the node, and of several units, that are taken in a set of m columns: the cost of these
   moves grows with the cube of m, that of others with its square. */
static double share_of_turns(const Problem *p, int64_t m, double often) {
    double columns = (double)(m - p->fixed);
    if (p->dual_from && columns > (double)p->n) columns = (double)p->n;
    const double share = often / (12.0 + columns);
    return share > LEAST_TURNS ? (share < 1.0 ? share : 1.0) : LEAST_TURNS;
}

static int takes_turn(const Problem *p, Walker *w, double often) {
    const double share = share_of_turns(p, w->m, often);
    return share >= 1.0 || uniform(w) < share;
}

/* The node that is nearest to a value of log g. */
static int64_t nearest(const Problem *p, double log_g) {
    int64_t low = 0, high = p->n_nodes - 1;
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (p->log_g[middle] <= log_g) low = middle;
        else high = middle;
    }
    return log_g - p->log_g[low] <= p->log_g[high] - log_g ? low : high;
}

/* The probability that a birth is of a unit that is out. */
static double birth_outside(const Problem *p, const Walker *w) {
    double inside = 0.0;
    for (int64_t i = 0; i < w->n_in; i++) inside += p->birth[w->unit[i]];
    return 1.0 - inside;
}

/* Units that a move changes, in their order; those of run->chosen. */
typedef struct {
    int64_t count, unit[MOST_TOGETHER];
} Chosen;

static void choose(Run *run, Chosen *some, int64_t unit) {
    run->chosen[unit] = 1;
    some->unit[some->count++] = unit;
}

/* A unit that is out and not chosen yet, by the weights of births; -1 if none was found. */
static int64_t draw_outside(const Run *run, Walker *w) {
    const Problem *p = run->problem;
    for (int tries = 0; tries < MOST_TRIES; tries++) {
        const int64_t one = draw_birth(p, w);
        if (w->unit_place[one] < 0 && p->birth[one] > 0.0 && !run->chosen[one]) return one;
    }
    return -1;
}

/* The sum of some weights, the first of which is `first`. */
static double group_sum(const double *weight, int64_t first, int64_t n) {
    double sum = 0.0;
    for (int64_t l = first; l < n && l < first + GROUP; l++) sum += weight[l];
    return sum;
}

/* The last of n weights from `first` on that is not 0 and before which a number ends, of which it takes them; -1 if all
   are 0. */
static int64_t where(const double *weight, int64_t first, int64_t n, double *number) {
    int64_t at = -1;
    for (int64_t l = first; l < n; l++) {
        if (!(weight[l] > 0.0)) continue;
        at = l;
        if (*number < weight[l]) break;
        *number -= weight[l];
    }
    return at;
}

/* A unit that is in, by the weights of the members, which sum to `total`; its own becomes 0. -1 if none may. `group`:
   sums of `GROUP` weights each. */
static int64_t draw_of_members(Walker *w, double *weight, double *group, double total) {
    double point = uniform(w) * total;
    const int64_t of = where(group, 0, (w->n_in + GROUP - 1) / GROUP, &point), first = of * GROUP;
    if (of < 0) return -1;
    const int64_t at = where(weight, first, w->n_in < first + GROUP ? w->n_in : first + GROUP, &point);
    weight[at] = 0.0;
    group[of] = group_sum(weight, first, w->n_in);
    return w->unit[at];
}

/* A unit that is out and not chosen yet, all as likely; -1 if none was found. */
static int64_t draw_any_outside(const Run *run, Walker *w) {
    const Problem *p = run->problem;
    for (int tries = 0; tries < MOST_TRIES; tries++) {
        const int64_t one = (int64_t)below(w, (uint64_t)p->n_units);
        if (w->unit_place[one] < 0 && p->birth[one] > 0.0 && !run->chosen[one]) return one;
    }
    return -1;
}

/* As `choose_units`, of units that are all as likely. */
static int choose_evenly(Run *run, Walker *w, int in, int64_t count, Chosen *some, double *log_there, double *log_back) {
    const Problem *p = run->problem;
    int64_t larger = 0, width_in = 0;
    double births = 0.0, deaths = 0.0, *weight = run->h, *group = run->u;
    for (int64_t l = 0; l < w->n_in; l++) larger += (weight[l] = p->death[w->unit[l]] > 0.0) > 0.0;
    if (in) larger += count;
    for (int64_t l = 0; l < w->n_in; l += GROUP) group[l / GROUP] = group_sum(weight, l, w->n_in);
    if (larger < count || (double)(p->n_free - larger + 1) < LEAST_OUTSIDE * (double)p->n_units) return 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t unit = in ? draw_any_outside(run, w) : draw_of_members(w, weight, group, (double)(larger - i));
        if (unit < 0) return 0;
        choose(run, some, unit);
        births -= log((double)(p->n_free - larger + 1 + i));
        deaths -= log((double)(larger - i));
        width_in += in ? width(p, unit) : 0;
    }
    *log_there = in ? births : deaths;
    *log_back = in ? deaths : births;
    return fits(run, w, width_in);
}

/* The units of a move of several: how likely they are proposed, and the way back. 0 if there is no such move. They come
   in by the weights of births of units that are out, one after the other, and leave by those of deaths in the opposite
   order. */
static int choose_units(Run *run, Walker *w, int in, int64_t count, Chosen *some, double *log_there, double *log_back) {
    const Problem *p = run->problem;
    double total = death_weight(p, w), left = total, outside = birth_outside(p, w), *weight = run->h, *group = run->u;
    int64_t width_in = 0;
    for (int64_t l = 0; l < w->n_in; l++) weight[l] = p->death[w->unit[l]];
    for (int64_t l = 0; l < w->n_in; l += GROUP) group[l / GROUP] = group_sum(weight, l, w->n_in);
    for (int64_t i = 0; i < count; i++) {
        if (in) {
            if (outside < LEAST_OUTSIDE) return 0;
            const int64_t unit = draw_outside(run, w);
            if (unit < 0) return 0;
            choose(run, some, unit);
            total += p->death[unit];
            *log_there += p->log_birth[unit] - log(outside);
            outside -= p->birth[unit];
            *log_back += log(p->death[unit] / total);
            width_in += width(p, unit);
        } else {
            if (!(left > 0.0)) return 0;
            const int64_t unit = draw_of_members(w, weight, group, left);
            if (unit < 0) return 0;
            choose(run, some, unit);
            *log_there += log(p->death[unit] / left);
            left -= p->death[unit];
            outside += p->birth[unit];
            if (outside < LEAST_OUTSIDE) return 0;
            *log_back += p->log_birth[unit] - log(outside);
        }
    }
    return fits(run, w, width_in);
}

/* Units of n_in that leave with one move of several at most, or come in to them: those of the smaller set, or few. */
static int64_t most_at_once(int64_t n_in, int in) {
    const int64_t smaller = in ? n_in : n_in / 2, most = smaller > FEW_TOGETHER ? smaller : FEW_TOGETHER;
    return most < MOST_TOGETHER ? most : MOST_TOGETHER;
}

/* Units that come in with one move at most, of n_in. */
int64_t most_more(const Problem *p, int64_t n_in) {
    int64_t most = most_at_once(n_in, 1);
    if (p->n_lists && p->largest_recalled > most) most = p->largest_recalled;
    return p->renew_every && p->renewed_sizes > most ? p->renewed_sizes : most;
}

/* How many units it changes: 2 to the power of what this returns, or to one of the next `POWERS` - 1. What fewer units
   do, moves of one unit and of the node do. */
static int64_t least_power(int64_t n_in, int in) {
    const int64_t most = most_at_once(n_in, in);
    int64_t end = 1;
    while ((int64_t)1 << end <= most) end++;
    return end - POWERS;
}

static double share_evenly(int64_t n_in) { return EVENLY * (double)n_in / ((double)n_in + MANY_IN); }

/* Several units in or out, and g such that the share explained a priori stays about as it is. */
static void change_several(Run *run, Walker *w, Chosen *some) {
    const Problem *p = run->problem;
    int64_t m = 0;
    const int in = uniform(w) < 0.5, evenly = uniform(w) < share_evenly(w->n_in);
    const int64_t power = least_power(w->n_in, in) + (int64_t)below(w, POWERS), count = (int64_t)1 << power;
    double log_there = 0.0, log_back = 0.0, log_det, left;
    const int64_t to_nearest = (int64_t)below(w, 2 * NEAR_NODES + 1) - NEAR_NODES;
    if (!(evenly ? choose_evenly : choose_units)(run, w, in, count, some, &log_there, &log_back)) return;
    const int64_t n_in = w->n_in + (in ? count : -count);
    const int64_t least_back = least_power(n_in, !in);
    if (power < least_back || power >= least_back + POWERS) return;
    const double shift = log((double)(n_in + 1) / (double)(w->n_in + 1));
    const int64_t node = nearest(p, p->log_g[w->node] - shift) + to_nearest;
    if (node < 0 || node >= p->n_nodes) return;
    const int64_t off = w->node - nearest(p, p->log_g[node] + shift);
    if (off < -NEAR_NODES || off > NEAR_NODES || !ensure_room(run, w, w->m + count * p->widest)) return;
    int32_t *columns = run->columns;
    for (int64_t i = 0; i < w->m; i++)
        if (w->column[i] >= p->d || !run->chosen[p->unit_of[w->column[i]]]) columns[m++] = w->column[i];
    const int64_t *unit = some->unit;
    for (int64_t l = 0; l < count && in; l++)
        for (int64_t a = p->start[unit[l]]; a < p->start[unit[l] + 1]; a++) columns[m++] = (int32_t)p->order[a];
    if (!evaluate(run, w, columns, m, node, &log_det, &left)) return;
    double ratio = log_likelihood(p, m - p->fixed, log_det, left, node) + log_target(p, n_in, node);
    if (evenly) ratio += log(share_evenly(n_in) / share_evenly(w->n_in));
    else ratio += log((1.0 - share_evenly(n_in)) / (1.0 - share_evenly(w->n_in)));
    ratio += log(share_of_turns(p, m, OFTEN_TOGETHER) / share_of_turns(p, w->m, OFTEN_TOGETHER));
    ratio -= log_likelihood(p, w->m - p->fixed, w->log_det, w->left_over, w->node) + log_target(p, w->n_in, w->node);
    for (int64_t l = 0; l < count && p->odds; l++) ratio += in ? p->odds[unit[l]] : -p->odds[unit[l]];
    if (!accepted(w, TOGETHER, ratio + log_back - log_there)) return;
    for (int64_t l = 0; l < count; l++) (in ? note_in : note_out)(p, w, unit[l]);
    w->node = node;
    settle(run, w, columns, log_det, left);
}

static void move_together(Run *run, Walker *w) {
    Chosen some = {.count = 0};
    change_several(run, w, &some);
    for (int64_t i = 0; i < some.count; i++) run->chosen[some.unit[i]] = 0;
}

void step(Run *run, Walker *w) {
    const Problem *p = run->problem;
    w->count++;
    /* With weights some walks are proposals as a whole, which have to be as likely backwards: no order of turns. */
    const int64_t turn = w->weights ? (int64_t)below(w, TURNS) : w->count;
    if (p->node_every && turn % p->node_every == 0) {
        if (takes_turn(p, w, OFTEN_NODE)) move_node(run, w);
    } else if (p->together_every && turn % p->together_every == 1) {
        if (takes_turn(p, w, OFTEN_TOGETHER)) move_together(run, w);
    } else if (p->n_lists && turn % p->recall_every == 2) {
        recall(run, w);
    } else if (p->renew_every && turn % p->renew_every == 3) {
        renew(run, w);
    } else if (uniform(w) < p->swap_share) swap(run, w);
    else if (uniform(w) < 0.5) birth(run, w);
    else death(run, w);
}
