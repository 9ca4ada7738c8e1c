/* The posterior of l = log t2 of one response: the zeros of a derivative, and the trapezoidal rule.

   The same steps as ridge/profile.py and ridge/quadrature.py, which have the reasons; ridge/penalty_compiled.py calls
   them. Sums over the singular values are taken in LANES parts. A negative result means that the case is left to
   those. */

#include <float.h>
#include <math.h>
#include <stdint.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* Singular values that are taken at once. */
#define LANES 4

/* A logarithm is taken of the product of as many sums 1 + t2 s^2 as stay below e^LARGEST_PRODUCT. */
#define LARGEST_PRODUCT 600.0
#define MOST_FACTORS 32

/* Numbers that converge: log integral, means of log t2 and of the effective df, log mean variance. */
#define TOTALS 4

/* A slope up to this share of its terms is as close to 0 as it can be found. */
#define ROUNDING (4 * DBL_EPSILON)

/* The case is left to NumPy. */
#define LEFT (-1)

/* The rotated problem, the prior and the noise; in the order of ridge/penalty_compiled.py. */
typedef struct {
    int64_t rank;
    const double *s2, *z2;   /* squared singular values, descending, and squares of U'y, (rank,) */
    double rss0;             /* what no coefficients can explain */
    double half;             /* half the degrees of freedom that the noise counts */
    double variance;         /* of the noise, or 0 where it is not known */
    double a, b, log_scale;  /* the prior */
    double half_k;           /* half of what the density counts log t2 with */
    double cancelled;        /* a slope below this share of its terms is 0 */
    double largest;          /* largest exponent of a penalty */
} Penalty;

/* What is weighed at one point: log density, log variance of the least certain direction, log R, the share that is
   shrunk away, and the log of the squared shrinkage of the last direction. */
typedef struct {
    double density, variance, log_rss, left, spread;
} Node;

/* What the quadrature is to find; in the order of ridge/penalty_compiled.py. */
typedef struct {
    int64_t outside;         /* whether the variance outside the row space has a mean */
    double fall;             /* rate at which the density falls for large t2 */
    double log_first, log_last; /* logs of the largest and the smallest s2 */
    double drop, coarse, negligible, epsilon, tol;
    int64_t first, most;     /* nodes of the first and of the last rule: powers of two plus 1 */
    int64_t doublings;       /* from one to the next, at most */
    int64_t n_grid;
    const double *grid;      /* where ends are looked for; `coarse` apart */
    double *room;            /* WEIGHED numbers for each point of the grid, or each node if these are more */
    Node *nodes;             /* (most,) */
    double *log_t2, *weight; /* (most,): the nodes that matter and their weights */
    double log_integral, error;
} Rule;

/* What is known at one point. */
typedef struct {
    double rss, determinant, left;
} Point;

static double log_1_plus_exp(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }

/* R, the log determinant, and the share of the directions that is shrunk away. */
static Point at_point(const Penalty *a, double l) {
    const double t2 = exp(l);
    /* Each lane has as many factors as keep the product of all lanes a number; for larger t2 one, and a log of its own. */
    const int together = (LANES + 1) * l < LARGEST_PRODUCT;
    int64_t factors = (int64_t)(LARGEST_PRODUCT / (LANES * (l > 1 ? l + 1 : 2)));
    if (factors > MOST_FACTORS) factors = MOST_FACTORS;
    if (factors < 1) factors = 1;
    double rss[LANES] = {0}, left[LANES] = {0}, logs = 0;
    int64_t j = 0;
    while (j + LANES <= a->rank) {
        double product[LANES] = {1, 1, 1, 1};
        for (int64_t i = 0; i < factors && j + LANES <= a->rank; i++, j += LANES)
            for (int k = 0; k < LANES; k++) {
                const double total = 1 + a->s2[j + k] * t2, share = 1 / total;
                rss[k] += share * a->z2[j + k];
                left[k] += share;
                product[k] *= total;
            }
        if (together) logs += log((product[0] * product[1]) * (product[2] * product[3]));
        else
            for (int k = 0; k < LANES; k++) logs += log(product[k]);
    }
    double product = 1;
    for (; j < a->rank; j++) {
        const double total = 1 + a->s2[j] * t2, share = 1 / total;
        rss[0] += share * a->z2[j];
        left[0] += share;
        if (together) product *= total;
        else logs += log(total);
    }
    const Point out = {((rss[0] + rss[1]) + (rss[2] + rss[3])) + a->rss0, logs + log(product),
                       ((left[0] + left[1]) + (left[2] + left[3])) / (double)a->rank};
    return out;
}

/* Minus the log likelihood of l. */
static double misfit(const Penalty *a, double rss) {
    return a->variance > 0 ? rss / (2 * a->variance) : a->half * log(rss);
}

/* The derivative of f at l, its size, and the second derivative. */
static void slope(const Penalty *a, double l, double *first, double *size, double *second) {
    const double penalty = exp(-l < a->largest ? -l : a->largest);
    double e[LANES] = {0}, v[LANES] = {0}, drop[LANES] = {0}, bend[LANES] = {0}, rest[LANES] = {0};
    for (int64_t j = 0; j < a->rank; j += LANES)
        for (int64_t k = 0; k < LANES && j + k < a->rank; k++) {
            const double inverse = 1 / (a->s2[j + k] + penalty), z2 = a->z2[j + k];
            const double kept = a->s2[j + k] * inverse, gone = penalty * inverse, both = kept * gone;
            e[k] += kept;
            v[k] += both;
            drop[k] += both * z2;
            bend[k] += both * z2 * (gone - kept);
            rest[k] += gone * z2;
        }
    for (int k = 1; k < LANES; k++) {
        e[0] += e[k];
        v[0] += v[k];
        drop[0] += drop[k];
        bend[0] += bend[k];
        rest[0] += rest[k];
    }
    const double rss = a->rss0 + rest[0], ratio = drop[0] / rss, sum = a->a + a->b;
    const double share = 1 / (1 + exp(-(l - a->log_scale)));
    const double data = a->variance > 0 ? -drop[0] / (2 * a->variance) : -a->half * ratio;
    const double bent =
        a->variance > 0 ? -bend[0] / (2 * a->variance) : -a->half * (bend[0] / rss + ratio * ratio);
    const double terms = 0.5 * e[0] + sum * share;
    *first = data + terms + a->half_k;
    *size = fabs(data) + terms + fabs(a->half_k);
    *second = 0.5 * v[0] + bent + sum * share * (1 - share);
}

/* Whether three slopes may step over a zero that comes with another: an extremum beyond 0 between them. */
static int steps_over(double before, double middle, double after) {
    const int lowest = middle > 0 && before >= middle && after >= middle;
    const int highest = middle < 0 && before <= middle && after <= middle;
    if (!lowest && !highest) return 0;
    const double bend = before - 2 * middle + after;
    const double vertex = middle - (after - before) * (after - before) / (8 * bend);
    const double overshoot = fabs(vertex - middle) + 0.1 * fabs(bend);
    return lowest ? vertex < overshoot : vertex > -overshoot;
}

/* Newton's iteration in a bracket, bisecting where it would leave it; the steps taken. Where f is flat, steps may not
   become as small as `tol`: it ends where the slope is a rounding error, too. */
static int64_t refine(const Penalty *a, double low, double high, double tol, int64_t most, double *root, int *done) {
    double point = 0.5 * (low + high), first, size, second;
    *done = 0;
    int64_t steps = 0;
    while (steps < most && !*done) {
        steps++;
        slope(a, point, &first, &size, &second);
        if (first >= 0) high = point;
        if (first < 0) low = point;
        const double newton = point - first / second, middle = 0.5 * (low + high);
        const double next = second > 0 && newton >= low && newton <= high ? newton : middle;
        *done = fabs(next - point) <= tol || fabs(first) <= ROUNDING * size;
        point = next;
    }
    *root = point;
    return steps;
}

/* The minima of f between points of a grid, and the lowest of them; the steps of the slowest iteration.

   `log_t2` is -inf where there is none, and the last point of the grid where f falls for ever. `counts`: how many
   minima there are, whether the lowest converged, whether f falls for ever. */
EXPORT int64_t penalty_modes(const Penalty *a, const double *grid, int64_t n, double tol, int64_t most, double *log_t2,
                             int64_t *counts) {
    int64_t *const n_modes = counts, *const converged = counts + 1, *const unbounded = counts + 2;
    double before = 0, middle = 0, after, size, second, best = INFINITY;
    int64_t slowest = 0;
    *n_modes = 0;
    *log_t2 = -INFINITY;
    *converged = 1;
    for (int64_t i = 0; i < n; i++, before = middle, middle = after) {
        slope(a, grid[i], &after, &size, &second);
        if (fabs(after) <= a->cancelled * size) after = 0;
        if (i >= 2 && steps_over(before, middle, after)) return LEFT;
        if (i == 0 || !(middle < 0 && after >= 0)) continue;
        double root;
        int done;
        const int64_t steps = refine(a, grid[i - 1], grid[i], tol, most, &root, &done);
        if (steps > slowest) slowest = steps;
        const Point at = at_point(a, root);
        const double own = root - a->log_scale;
        const double height = 0.5 * at.determinant + misfit(a, at.rss) + a->half_k * own +
                              (a->a + a->b) * log_1_plus_exp(own);
        if (++*n_modes == 1 || height < best) {
            best = height;
            *log_t2 = root;
            *converged = done;
        }
    }
    *unbounded = middle < 0;
    if (*unbounded && *n_modes == 0) {
        *log_t2 = grid[n - 1];
        *converged = 0;
    }
    return slowest;
}

static Node at_node(const Penalty *a, const Rule *rule, double l) {
    const Point at = at_point(a, l);
    const double own = l - a->log_scale, log_rss = log(at.rss);
    const double fit = a->variance > 0 ? at.rss / (2 * a->variance) : a->half * log_rss;
    const double inside = l - log_1_plus_exp(l + rule->log_last);
    const Node out = {-0.5 * at.determinant - fit + a->a * own - (a->a + a->b) * log_1_plus_exp(own),
                      (rule->outside ? l : inside) + (a->variance > 0 ? 0 : log_rss), log_rss, at.left,
                      2 * (inside + rule->log_last)};
    return out;
}

/* Means that count: of the density itself, of t2 and 1/t2 where they have one, of the variance, of R, and of the
   squares of where the first and the last direction lie. */
#define WEIGHED 7

/* Logs of what is integrated for each of these at a node; how many they are. */
static int weighed(const Penalty *a, const Rule *rule, double l, double density, const Node *at, double *out) {
    int n = 0;
    out[n++] = density;
    out[n++] = density + at->variance;
    out[n++] = density + at->log_rss;
    out[n++] = density - 2 * log_1_plus_exp(-l - rule->log_first);
    out[n++] = density + at->spread;
    if (rule->fall > 1) out[n++] = density + l;
    if (a->a > 1) out[n++] = density - l;
    return n;
}

/* Where the density, and its products with what has a mean, are negligible, and the height of its maximum. */
typedef struct {
    double low, high, top;
    double below, above; /* rates at which the density goes on falling beyond the nodes; INFINITY: nothing is left */
} Ends;

/* A density that is no number, or infinite, is left to NumPy: 0. */
static int find_ends(const Penalty *a, const Rule *rule, double mode, Ends *ends) {
    const int64_t n = rule->n_grid;
    double most[WEIGHED];
    int64_t highest = 0, first = n, last = -1;
    int kinds = 0;
    for (int64_t i = 0; i < n; i++) {
        const Node at = at_node(a, rule, rule->grid[i]);
        double *const here = rule->room + i * WEIGHED;
        if (!(at.density < INFINITY)) return 0;
        kinds = weighed(a, rule, rule->grid[i], at.density, &at, here);
        for (int k = 0; k < kinds; k++)
            if (i == 0 || here[k] > most[k]) most[k] = here[k];
        if (at.density > rule->room[highest * WEIGHED]) highest = i;
    }
    const double at_mode = isfinite(mode) ? mode : rule->grid[highest];
    const double there = at_node(a, rule, at_mode).density;
    if (!(there < INFINITY)) return 0;
    if (there > most[0]) most[0] = there;
    ends->top = most[0];
    for (int64_t i = 0; i < n; i++) {
        int inside = 0;
        for (int k = 0; k < kinds; k++) inside |= rule->room[i * WEIGHED + k] > most[k] - rule->drop;
        if (!inside) continue;
        if (first == n) first = i;
        last = i;
    }
    const int any = last >= 0;
    ends->below = any && first == 0 ? a->a : INFINITY;
    ends->above = any && last == n - 1 ? rule->fall : INFINITY;
    ends->low = (any && rule->grid[first] < at_mode ? rule->grid[first] : at_mode) - rule->coarse;
    ends->high = (any && rule->grid[last] > at_mode ? rule->grid[last] : at_mode) + rule->coarse;
    return 1;
}

/* The log density of a node, with what an endless row of nodes has beyond the ends added to these. */
static double closed(const Ends *ends, double density, double spacing, int is_first, int is_last) {
    if (is_first) density -= log(-expm1(-ends->below * spacing));
    if (is_last) density -= log(-expm1(-ends->above * spacing));
    return density;
}

/* Sums over every `step`-th node of the finest rule that converge. */
static void totals(const Rule *rule, const Ends *ends, const Node *nodes, int64_t step, double *out) {
    const int64_t last = rule->most - 1;
    const double width = ends->high - ends->low, spacing = width * ((double)step / (double)last);
    double total = 0, mean = 0, left = 0, variance = 0, largest = -INFINITY;
    for (int64_t i = 0; i <= last; i += step)
        if (nodes[i].variance > largest) largest = nodes[i].variance;
    for (int64_t i = 0; i <= last; i += step) {
        const double weight = exp(closed(ends, nodes[i].density, spacing, i == 0, i == last) - ends->top);
        total += weight;
        mean += weight * (ends->low + width * ((double)i / (double)last));
        left += weight * nodes[i].left;
        variance += weight * exp(nodes[i].variance - largest);
    }
    out[0] = log(total * spacing);
    out[1] = mean / total;
    out[2] = left / total;
    out[3] = largest + log(variance / total);
}

/* Distance from the first node of an endless row, falling at `rate`, to the mean of l, or to log E exp(l). */
static double shift(double rate, double spacing, int exponential) {
    if (isinf(rate)) return 0;
    if (exponential) return log(expm1(-rate * spacing) / expm1(-(rate - 1) * spacing));
    return spacing / expm1(rate * spacing);
}

/* The nodes that matter to some mean, and their weights, into `log_t2` and `weight`; how many they are. */
static int64_t collect(const Penalty *a, Rule *rule, const Ends *ends, const Node *nodes, int64_t step) {
    const int64_t last = rule->most - 1;
    const double width = ends->high - ends->low, spacing = width * ((double)step / (double)last);
    double *const values = rule->room;
    double most[WEIGHED], sum[WEIGHED] = {0};
    int64_t n = 0, kept = 0;
    int kinds = 0;
    for (int64_t i = 0; i <= last; i += step, n++) {
        double l = ends->low + width * ((double)i / (double)last), *const here = values + n * WEIGHED;
        if (i == 0) l -= shift(ends->below, spacing, a->a > 1);
        if (i == last) l += shift(ends->above, spacing, rule->fall > 1);
        const double density = closed(ends, nodes[i].density, spacing, i == 0, i == last) - ends->top;
        Node at = nodes[i];
        if (i == 0 || i == last) at.spread = -2 * log_1_plus_exp(-l - rule->log_last);
        kinds = weighed(a, rule, l, density, &at, here);
        for (int k = 0; k < kinds; k++)
            if (i == 0 || here[k] > most[k]) most[k] = here[k];
        rule->log_t2[n] = l;
    }
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < kinds; k++) {
            double *const value = values + i * WEIGHED + k;
            *value = exp(*value - most[k]);
            sum[k] += *value;
        }
    for (int64_t i = 0; i < n; i++) {
        const double *here = values + i * WEIGHED;
        int matters = 0;
        for (int k = 0; k < kinds; k++) matters |= here[k] > rule->negligible * sum[k];
        if (!matters) continue;
        rule->log_t2[kept] = rule->log_t2[i];
        rule->weight[kept++] = here[0] / sum[0];
    }
    const double total = sum[0] * exp(most[0]);
    rule->log_integral = ends->top + log(total * spacing);
    return kept;
}

/* The quadrature of one response, its density having a mode or not; how many nodes it has. */
EXPORT int64_t penalty_quadrature(const Penalty *a, Rule *rule, double mode) {
    const int64_t most = rule->most;
    Node *const nodes = rule->nodes;
    double before[TOTALS], now[TOTALS];
    Ends ends;
    if (!find_ends(a, rule, mode, &ends)) return LEFT;
    int64_t step = (most - 1) / (rule->first - 1);
    for (int64_t i = 0; i < most; i += step)
        nodes[i] = at_node(a, rule, ends.low + (ends.high - ends.low) * ((double)i / (double)(most - 1)));
    totals(rule, &ends, nodes, step, before);
    for (int64_t doubling = 0; doubling < rule->doublings && step > 1; doubling++) {
        const int64_t every = step;
        step /= 2;
        for (int64_t i = step; i < most; i += every)
            nodes[i] = at_node(a, rule, ends.low + (ends.high - ends.low) * ((double)i / (double)(most - 1)));
        totals(rule, &ends, nodes, step, now);
        double change = 0;
        for (int k = 0; k < TOTALS; k++) {
            const double moved = fabs(now[k] - before[k]);
            if (!isfinite(moved)) return LEFT;
            if (moved > change) change = moved;
            before[k] = now[k];
        }
        rule->error = fmin(change, 100 * change * change) + rule->epsilon;
        if (rule->error <= rule->tol) return collect(a, rule, &ends, nodes, step);
    }
    return LEFT;
}
