/* Moments of rows of the logit link: the likelihood of successes and failures times a normal density of the linear
   predictor, by the two rules that need no search (binomial/one_trial.py, binomial/hermite.py: the same sums).

   The symbol is that of binomial/compiled_moments.py, which calls it. All arrays are of the caller. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* Nodes of the largest Gauss-Hermite rule, and rows that are summed at once. */
#define MOST 32
#define LANES 16

/* 1.5 * 2^52 added to a number rounds it to an integer, which is then in the lowest bits. */
#define ROUNDER 6755399441055744.0

/* Exponents below this count as this: what is left is nothing beside the other terms. */
#define LEAST_EXPONENT (-700.0)

/* The rules and their limits; in the order of compiled_moments.Rules. */
typedef struct {
    int64_t n_rules;        /* Gauss-Hermite rules */
    const int64_t *size;    /* nodes of each */
    const double *widest;   /* largest width of a row for each */
    const double *at;       /* nodes, MOST for each rule */
    const double *weight;   /* weights, likewise */
    double rare, few;       /* by exp(-|center|), how often trials count where events are rare; how many do at least */
    double farthest_step;   /* of the center from the cavity's, in units of the width */
    int64_t reach;          /* nodes at fixed places: from -reach to reach, times spacing */
    double spacing;
    const double *averaged; /* (2 reach + 1, 3): what is averaged there */
    double bend;            /* standard deviation of the normal distribution function that is taken off */
    double narrowest, flattest, lowest, farthest; /* cavities that fixed nodes suit */
} Rules;

/* The moments of the rows; in the order of tilted.Tilted. */
typedef struct {
    double *log_integral, *mean, *variance, *gradient, *site_precision;
} Moments;

/* exp, relatively to 1e-14. */
static void exponentials(const double *x, double *out)
{
    double rounded[LANES], rest[LANES];
    uint64_t bits[LANES];
    for (int i = 0; i < LANES; i++) {
        double at = x[i] > LEAST_EXPONENT ? x[i] : LEAST_EXPONENT;
        rounded[i] = at * 1.4426950408889634 + ROUNDER;
        double whole = rounded[i] - ROUNDER;
        rest[i] = (at - whole * 0.6931471803691238) - whole * 1.9082149292705877e-10;
    }
    memcpy(bits, rounded, sizeof bits);
    for (int i = 0; i < LANES; i++)
        bits[i] = (bits[i] + 1023u) << 52;
    memcpy(rounded, bits, sizeof bits);
    for (int i = 0; i < LANES; i++) {
        double r = rest[i], p = 1.0 / 39916800.0;
        p = p * r + 1.0 / 3628800.0;
        p = p * r + 1.0 / 362880.0;
        p = p * r + 1.0 / 40320.0;
        p = p * r + 1.0 / 5040.0;
        p = p * r + 1.0 / 720.0;
        p = p * r + 1.0 / 120.0;
        p = p * r + 1.0 / 24.0;
        p = p * r + 1.0 / 6.0;
        p = p * r + 0.5;
        p = p * r + 1.0;
        p = p * r + 1.0;
        out[i] = p * rounded[i];
    }
}

/* One success (`sign` 1) or failure (-1) under N(mean, 1 / precision): sums over nodes at fixed places. */
static void by_fixed_nodes(const Rules *rules, double sign, double precision, double slope, double mean, int64_t i,
                           Moments *out)
{
    double h = rules->spacing, variance = 1.0 / precision, towards = sign * mean;
    double nearest = floor(towards / h + 0.5), reach = (double)rules->reach;
    int64_t first = (int64_t)(nearest < -reach ? -reach : nearest > reach ? reach : nearest) + rules->reach;
    double away = h * (double)(first - rules->reach) - towards;
    /* From node to node the normal density changes by a factor, which itself changes by a constant one. */
    double start = exp(-0.5 * precision * away * away), bent = exp(-h * h * precision);
    double value = start, factor = exp(-h * precision * (away + 0.5 * h)), sums[3] = {0.0, 0.0, 0.0};
    const double *averaged = rules->averaged;
    for (int64_t j = first; j <= 2 * rules->reach; j++) {
        for (int c = 0; c < 3; c++)
            sums[c] += averaged[3 * j + c] * value;
        value *= factor;
        factor *= bent;
    }
    factor = exp(h * precision * (away - 0.5 * h));
    value = start * factor;
    for (int64_t j = first - 1; j >= 0; j--) {
        factor *= bent;
        for (int c = 0; c < 3; c++)
            sums[c] += averaged[3 * j + c] * value;
        value *= factor;
    }
    double root = sqrt(precision);
    double integral = 0.5 * erfc(-towards / sqrt(2.0 * (rules->bend * rules->bend + variance))) + sums[0] * root;
    double gradient = sums[1] * root / integral;
    double curvature = gradient * gradient - sums[2] * root / integral;
    if (curvature < 0.0)
        curvature = 0.0;
    double kept = 1.0 - variance * curvature;
    gradient *= sign;
    out->log_integral[i] = log(integral) + 0.5 * log(6.283185307179586 * variance) + 0.5 * variance * slope * slope;
    out->mean[i] = mean + variance * gradient;
    out->variance[i] = variance * kept;
    out->gradient[i] = gradient;
    out->site_precision[i] = curvature / kept;
}

/* Whether fixed nodes suit a row of one trial. */
static int suits_fixed_nodes(const Rules *rules, double precision, double towards)
{
    return precision <= 1.0 / rules->narrowest && precision >= 1.0 / rules->flattest &&
           towards * sqrt(precision) >= rules->lowest && (-towards - rules->farthest) * precision <= 1.0 / rules->farthest;
}

/* The Gauss-Hermite rules of rows, -1 where none is right, and one step of Newton's method from the cavity's center. */
static void choose_rules(const Rules *rules, int64_t n, const double *successes, const double *failures,
                         const double *center, const double *precision, const double *slope, double *step,
                         double *unit, int64_t *rule)
{
    double away[LANES], small[LANES];
    for (int64_t start = 0; start < n; start += LANES) {
        int m = n - start < LANES ? (int)(n - start) : LANES;
        for (int l = 0; l < LANES; l++)
            away[l] = l < m ? -fabs(center[start + l]) : 0.0;
        exponentials(away, small);
        for (int l = 0; l < m; l++) {
            int64_t i = start + l, which = 0;
            double trials = successes[i] + failures[i], large_share = 1.0 / (1.0 + small[l]);
            double small_share = small[l] * large_share;
            double rise = center[i] > 0.0 ? successes[i] * small_share - failures[i] * large_share
                                          : successes[i] * large_share - failures[i] * small_share;
            unit[i] = 1.0 / sqrt(precision[i] + trials * (small_share * large_share));
            step[i] = (slope[i] + rise) * unit[i];
            double share = rules->rare * small[l], counted = share < 1.0 ? trials * share : trials;
            double least = trials < rules->few ? trials : rules->few;
            if (counted < least)
                counted = least;
            double width = counted > 1.0 ? unit[i] * cbrt(counted) : unit[i];
            while (which < rules->n_rules && !(width <= rules->widest[which]))
                which++;
            int right = which < rules->n_rules && fabs(step[i]) <= rules->farthest_step && isfinite(center[i]);
            rule[i] = right ? which : -1;
        }
    }
}

/* The moments of m rows, at most LANES, by a rule of `size` nodes; step and unit are in out->mean and out->variance. */
static void by_hermite(int64_t size, const double *at, const double *weight, int m, const int64_t *rows,
                       const double *successes, const double *failures, const double *center, const double *precision,
                       const double *slope, Moments *out)
{
    double up[LANES], down[LANES], prec[LANES], unit[LANES], away[LANES], top[LANES], pull[LANES];
    double total[LANES] = {0}, first[LANES] = {0}, second[LANES] = {0}, of_slope[LANES] = {0}, both[LANES] = {0};
    double likely_there[LANES] = {0}, slope_there[LANES] = {0};
    double eta[LANES], exponent[LANES], smaller[LANES], density[LANES], likely[LANES], rise[LANES];
    int single = 1;
    for (int l = 0; l < LANES; l++) {
        int64_t i = rows[l < m ? l : 0];
        up[l] = successes[i];
        down[l] = failures[i];
        single &= up[l] + down[l] == 1.0 && up[l] * down[l] == 0.0;
        prec[l] = precision[i];
        unit[l] = out->variance[i];
        away[l] = out->mean[i] * unit[l];
        top[l] = center[i] + away[l];
        pull[l] = slope[i] - prec[l] * away[l];
    }
    /* First the center itself, to which values are relative. */
    for (int64_t k = -1; k < size; k++) {
        double node = k < 0 ? 0.0 : at[k], share = k < 0 ? 0.0 : weight[k];
        for (int l = 0; l < LANES; l++) {
            eta[l] = top[l] + node * unit[l];
            exponent[l] = -fabs(eta[l]);
        }
        exponentials(exponent, smaller);
        for (int l = 0; l < LANES; l++) {
            double larger = 1.0 / (1.0 + smaller[l]), less = smaller[l] * larger;
            double success = eta[l] > 0.0 ? larger : less, failure = eta[l] > 0.0 ? less : larger;
            rise[l] = up[l] * failure - down[l] * success;
            likely[l] = up[l] > down[l] ? success : failure;
        }
        if (!single)
            for (int l = 0; l < LANES; l++)
                likely[l] = (eta[l] > 0.0 ? -down[l] * eta[l] : up[l] * eta[l]) - (up[l] + down[l]) * log1p(smaller[l]);
        if (k < 0) {
            memcpy(likely_there, likely, sizeof likely);
            memcpy(slope_there, rise, sizeof rise);
            continue;
        }
        for (int l = 0; l < LANES; l++) {
            double moved = node * unit[l];
            exponent[l] = moved * (pull[l] - 0.5 * prec[l] * moved);
        }
        if (!single)
            for (int l = 0; l < LANES; l++) {
                exponent[l] += likely[l] - likely_there[l];
                likely[l] = 1.0;
            }
        exponentials(exponent, density);
        for (int l = 0; l < LANES; l++) {
            double mass = share * density[l] * likely[l], change = rise[l] - slope_there[l];
            total[l] += mass;
            first[l] += mass * node;
            second[l] += mass * (node * node);
            of_slope[l] += mass * change;
            both[l] += mass * change * node;
        }
    }
    for (int l = 0; l < m; l++) {
        int64_t i = rows[l];
        double mean = first[l] / total[l], mean_slope = of_slope[l] / total[l];
        double variance = second[l] / total[l] - mean * mean, covariance = both[l] / total[l] - mean_slope * mean;
        double integral = log(total[l] * unit[l]) + away[l] * (slope[i] - 0.5 * prec[l] * away[l]);
        out->log_integral[i] = single ? integral : integral + likely_there[l];
        out->mean[i] = top[l] + unit[l] * mean;
        out->variance[i] = unit[l] * unit[l] * variance;
        out->gradient[i] = slope_there[l] + mean_slope;
        out->site_precision[i] = covariance < 0.0 ? -covariance / (unit[l] * variance) : 0.0;
    }
}

/* Moments of n rows; `left` are those that neither rule suits, and their number is returned. */
EXPORT int64_t tilted_logit(const Rules *rules, int64_t n, const double *successes, const double *failures,
                            const double *center, const double *precision, const double *slope, Moments *out,
                            int64_t *left)
{
    int64_t n_left = 0, rows[LANES];
    choose_rules(rules, n, successes, failures, center, precision, slope, out->mean, out->variance, left);
    for (int64_t i = 0; i < n; i++) {
        double sign = successes[i] - failures[i], mean = center[i] + slope[i] / precision[i];
        if (fabs(sign) == 1.0 && successes[i] * failures[i] == 0.0 && suits_fixed_nodes(rules, precision[i], sign * mean)) {
            by_fixed_nodes(rules, sign, precision[i], slope[i], mean, i, out);
            left[i] = rules->n_rules;
        }
    }
    for (int64_t rule = 0; rule < rules->n_rules; rule++) {
        const double *at = rules->at + rule * MOST, *weight = rules->weight + rule * MOST;
        int m = 0;
        for (int64_t i = 0; i < n; i++) {
            if (left[i] == rule)
                rows[m++] = i;
            if (m == LANES || (m > 0 && i == n - 1)) {
                by_hermite(rules->size[rule], at, weight, m, rows, successes, failures, center, precision, slope, out);
                m = 0;
            }
        }
    }
    for (int64_t i = 0; i < n; i++)
        if (left[i] < 0)
            left[n_left++] = i;
    return n_left;
}
