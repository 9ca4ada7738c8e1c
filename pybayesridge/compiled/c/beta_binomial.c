/* The log likelihood of beta-binomial counts and its slope (binomial/beta_binomial.py: the same sums), by products of
   consecutive numbers: with p the mean, q = 1 - p and a the dispersion it is, for y successes and f failures,

       sum_{i < y} log(p + i a) + sum_{i < f} log(q + i a) - sum_{i < y + f} log(1 + i a).

   The symbol is that of binomial/compiled_shares.py, which calls it. All arrays are of the caller. */

#include <math.h>
#include <stdint.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* Factors of a product whose logarithm is taken: two such products are a number, with the dispersions of the caller. */
#define FACTORS 16

/* Nodes at once. */
#define LANES 8

/* Logs of the products of p + i a for i from 1 to count - 1, less that of the `product` of the last of them; adds up
   p / (p + i a). */
static void consecutive(const double *p, double a, int64_t count, double *log_before, double *product, double *sum)
{
    double all[LANES], without[LANES], reciprocals[LANES];
    for (int l = 0; l < LANES; l++) {
        log_before[l] = reciprocals[l] = 0.0;
        product[l] = 1.0;
    }
    for (int64_t i = 1; i < count;) {
        int64_t last = i + FACTORS < count ? i + FACTORS : count;
        for (int l = 0; l < LANES; l++) {
            all[l] = 1.0;
            without[l] = 0.0;
        }
        for (; i < last; i++)
            for (int l = 0; l < LANES; l++) {
                double factor = p[l] + (double)i * a;
                without[l] = without[l] * factor + all[l];
                all[l] *= factor;
            }
        for (int l = 0; l < LANES; l++) {
            reciprocals[l] += without[l] / all[l];
            if (i < count)
                log_before[l] += log(all[l]);
            else
                product[l] = all[l];
        }
    }
    for (int l = 0; l < LANES; l++)
        sum[l] += p[l] * reciprocals[l];
}

/* Values and slopes of one copy at linear predictors (nodes, rows). */
EXPORT void beta_binomial(int64_t rows, int64_t nodes, const double *eta, const double *successes,
                          const double *failures, double alpha, double *value, double *slope)
{
    double p[LANES], q[LANES], logs[LANES], up[LANES], down[LANES], before[LANES], of_up[LANES], of_down[LANES];
    for (int64_t j = 0; j < rows; j++) {
        int64_t y = (int64_t)successes[j], f = (int64_t)failures[j];
        for (int l = 0; l < LANES; l++) {
            p[l] = 1.0;
            up[l] = 0.0;
        }
        consecutive(p, alpha, y + f, before, of_up, up);
        double constant = before[0] + log(of_up[0]);
        for (int64_t k = 0; k < nodes; k += LANES) {
            int m = nodes - k < LANES ? (int)(nodes - k) : LANES;
            for (int l = 0; l < m; l++) {
                double at = eta[(k + l) * rows + j], small = exp(-fabs(at)), rest = log1p(small);
                double rarer = small / (1.0 + small), other = 1.0 / (1.0 + small);
                p[l] = at < 0.0 ? rarer : other;
                q[l] = at < 0.0 ? other : rarer;
                up[l] = y > 0 ? 1.0 : 0.0;
                down[l] = f > 0 ? 1.0 : 0.0;
                logs[l] = up[l] * ((at < 0.0 ? at : 0.0) - rest) + down[l] * ((at > 0.0 ? -at : 0.0) - rest) - constant;
            }
            for (int l = m; l < LANES; l++) {
                p[l] = q[l] = 1.0;
                up[l] = down[l] = logs[l] = 0.0;
            }
            consecutive(p, alpha, y, before, of_up, up);
            for (int l = 0; l < m; l++)
                logs[l] += before[l];
            consecutive(q, alpha, f, before, of_down, down);
            for (int l = 0; l < m; l++) {
                value[(k + l) * rows + j] = logs[l] + before[l] + log(of_up[l] * of_down[l]);
                slope[(k + l) * rows + j] = q[l] * up[l] - p[l] * down[l];
            }
        }
    }
}
