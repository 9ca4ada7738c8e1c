/* A walker's set: units come in, leave, and what is held of the set.

   With A the columns in, M = X_A'X_A + k I (no k for the fixed ones), held are V = M^-1, b = V X_A'y, R = y'y - y'X_A b
   and log |M|. For sets of more columns than rows, instead of V and b, P and P (y, 0) with

       P = ( W^-1 + X_A X_A' / k   C )^-1
           (          C'           0 )      ,

   A without the fixed columns C, W the weights of the rows (1 without them), y the linear terms divided by these. With
   zeros below columns x, x'P x and x'P (y, 0) are those given C; the last entries of P (y, 0) are the coefficients of
   C, minus the last block of P is their covariance, and a column that comes in or leaves changes P by rank one. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sampler.h"

/* Changes of a set after which it is factorised afresh. */
#define REFRESH 400

/* Columns that come in or leave, after which X_A X_A' is summed afresh: as many as there are, but at least these. */
#define SUM_AFRESH 128

/* The same at once, where a column had less than this share of its square outside the others: differences of large
   entries of V have lost as many digits. */
#define LEAST_OUTSIDE 1e-5

int64_t width(const Problem *p, int64_t unit) { return p->start[unit + 1] - p->start[unit]; }

/* Rows and columns of P. */
int64_t dual_size(const Problem *p) { return p->n + p->fixed; }

/* Between vectors in the scratch. */
static int64_t scratch_stride(const Run *run) {
    const int64_t n = dual_size(run->problem);
    return run->room > n ? run->room : n;
}

static double *moved(const double *old, int64_t m, int64_t stride, int64_t to) {
    double *out = malloc((size_t)(to * to) * sizeof *out);
    if (out && old)
        for (int64_t i = 0; i < m; i++) memcpy(out + i * to, old + i * stride, (size_t)m * sizeof *out);
    return out;
}

static int grown(void *at, size_t bytes) {
    void **pointer = at, *out = realloc(*pointer, bytes);
    if (out) *pointer = out;
    return out != NULL;
}

/* Room for m members in the scratch. */
int ensure_scratch(Run *run, int64_t m) {
    const Problem *p = run->problem;
    if (m <= run->room) return 1;
    int64_t to = run->room ? run->room : 16, q = p->widest;
    while (to < m) to *= 2;
    int64_t length = to > dual_size(p) ? to : dual_size(p);
    const int good = grown(&run->h, (size_t)(q * length) * sizeof *run->h) &&
                     grown(&run->u, (size_t)(q * length) * sizeof *run->u) &&
                     grown(&run->solution, (size_t)(2 * length + q + q * q) * sizeof *run->solution) &&
                     grown(&run->columns, (size_t)to * sizeof *run->columns) &&
                     grown(&run->block, (size_t)(to * BLOCK) * sizeof *run->block);
    if (good) run->room = to;
    else run->failed = 1;
    return good;
}

/* Room for m members in the walker and for as many in the scratch. */
int ensure_room(Run *run, Walker *w, int64_t m) {
    int good = 1;
    if (m > w->capacity) {
        int64_t to = w->capacity ? w->capacity : 16;
        while (to < m) to *= 2;
        if (!w->dual) {
            double **both[] = {&w->v, &w->inner};
            for (int e = 0; good && e < 2; e++) {
                double *out = moved(*both[e], w->m, w->capacity, to);
                if (out) {
                    free(*both[e]);
                    *both[e] = out;
                }
                good = out != NULL;
            }
        }
        good = good && grown(&w->b, (size_t)to * sizeof *w->b) && grown(&w->column, (size_t)to * sizeof *w->column);
        if (good) w->capacity = to;
    }
    if (!good) run->failed = 1;
    return good && ensure_scratch(run, m);
}

/* Two n x n scratch matrices; kept apart from the room since the rows' form needs none for many members. */
int ensure_factor(Run *run, int64_t n) {
    static const int64_t LEAST = 16;
    if (n < LEAST) n = LEAST;
    if (n * n > (int64_t)run->factor_n[0]) {
        if (!grown(&run->factor, (size_t)(2 * n * n) * sizeof *run->factor)) {
            run->failed = 1;
            return 0;
        }
        run->factor_n[0] = (double)(n * n);
    }
    return 1;
}

/* S and r of a unit that is out; in the scratch also H and U = V H (rows' form: U = P x). H may be there already. */
WIDE static void look_in(Run *run, Walker *w, int64_t unit, int has_products) {
    const Problem *p = run->problem;
    const int64_t q = width(p, unit), *j = p->order + p->start[unit];
    const double k = p->k[w->node];
    const int64_t length = w->dual ? dual_size(p) : w->m, known = w->dual ? p->n : w->m, stride = scratch_stride(run);
    for (int64_t c = 0; c < q; c++) {
        double *h = run->h + c * stride, *u = run->u + c * stride;
        memset(u, 0, (size_t)length * sizeof *u);
        const double *matrix = w->dual ? w->p : w->v;
        int64_t matrix_stride = w->dual ? length : w->capacity;
        if (w->dual) memcpy(h, p->xt + j[c] * p->n, (size_t)p->n * sizeof *h);
        else if (!has_products) products(run, w, j[c], h);
        for (int64_t i = 0; i < known; i++) {
            const double *from = matrix + i * matrix_stride, hi = h[i];
            for (int64_t l = 0; l < length; l++) u[l] += from[l] * hi;
        }
        run->reach[c] = w->dual ? dot(h, w->py, known) : w->cross[j[c]] - dot(h, w->b, known);
        for (int64_t e = 0; e <= c; e++) {
            double inner = dot(run->h + e * stride, u, known);
            run->s[e * p->widest + c] = w->dual ? inner : product(run, w, j[e], j[c]) - inner;
        }
        run->s[c * p->widest + c] += k;
    }
}

static Change changed(Run *run, int64_t q, double least) {
    const int64_t stride = run->problem->widest;
    Change out;
    out.log_det = cholesky(run->s, q, stride, least, 0);
    memcpy(run->solution, run->reach, (size_t)q * sizeof(double));
    forward(run->s, run->solution, q, stride);
    out.gain = dot(run->solution, run->solution, q);
    return out;
}

/* log |S| and r'S^-1 r of a unit that is out. */
Change peek_in(Run *run, Walker *w, int64_t unit) {
    look_in(run, w, unit, 0);
    return changed(run, width(run->problem, unit), run->problem->k[w->node]);
}

/* V_JJ and b_J of a unit that is in; in the rows' form also P x in the scratch `cross_terms`. */
void look_out(Run *run, Walker *w, int64_t unit) {
    const Problem *p = run->problem;
    const int64_t q = width(p, unit), size = dual_size(p), *j = p->order + p->start[unit];
    const double k = p->k[w->node], g = 1.0 / k;
    for (int64_t c = 0; c < q; c++) {
        if (!w->dual) {
            int64_t at = w->place[j[c]];
            run->b_in[c] = w->b[at];
            for (int64_t e = 0; e <= c; e++) run->v_in[e * p->widest + c] = w->v[at * w->capacity + w->place[j[e]]];
            continue;
        }
        const double *x = p->xt + j[c] * p->n;
        double *u = run->cross_terms + c * size;
        memset(u, 0, (size_t)size * sizeof *u);
        for (int64_t i = 0; i < p->n; i++) {
            const double *from = w->p + i * size, xi = x[i];
            for (int64_t l = 0; l < size; l++) u[l] += from[l] * xi;
        }
        run->b_in[c] = g * dot(x, w->py, p->n);
        for (int64_t e = 0; e <= c; e++)
            run->v_in[e * p->widest + c] = g * ((e == c) - g * dot(p->xt + j[e] * p->n, u, p->n));
    }
}

/* log |V_JJ| and b_J'V_JJ^-1 b_J of a unit that is in; `v_in` and `b_in` become the factor and what it solves. */
Change peek_out(Run *run, Walker *w, int64_t unit) {
    const Problem *p = run->problem;
    const int64_t q = width(p, unit);
    Change out;
    look_out(run, w, unit);
    out.log_det = cholesky(run->v_in, q, p->widest, 1e-300, 0);
    forward(run->v_in, run->b_in, q, p->widest);
    out.gain = dot(run->b_in, run->b_in, q);
    return out;
}

/* log |S| and r'S^-1 r of a unit after another one has left; after `peek_out` of that one. */
Change peek_swap(Run *run, Walker *w, int64_t out, int64_t in) {
    const Problem *p = run->problem;
    const int64_t q = width(p, in), gone = width(p, out), *j = p->order + p->start[out];
    const int64_t stride = scratch_stride(run);
    const double g = 1.0 / p->k[w->node];
    look_in(run, w, in, 0);
    double *terms = run->solution + p->widest;
    for (int64_t c = 0; c < q; c++) {
        double *t = terms + c * gone;
        for (int64_t e = 0; e < gone; e++)
            t[e] = w->dual ? g * dot(p->xt + j[e] * p->n, run->u + c * stride, p->n) : run->u[c * stride + w->place[j[e]]];
        forward(run->v_in, t, gone, p->widest);
        run->reach[c] += dot(t, run->b_in, gone);
        for (int64_t e = 0; e <= c; e++) run->s[e * p->widest + c] += dot(t, terms + e * gone, gone);
    }
    return changed(run, q, p->k[w->node]);
}

/* Put a unit on the lists alone. */
void note_in(const Problem *p, Walker *w, int64_t unit) {
    for (int64_t a = p->start[unit]; a < p->start[unit + 1]; a++) {
        w->place[p->order[a]] = (int32_t)w->m;
        w->column[w->m++] = (int32_t)p->order[a];
    }
    w->unit_place[unit] = (int32_t)w->n_in;
    w->unit[w->n_in++] = (int32_t)unit;
}

static void drop_column(Walker *w, int64_t at) {
    const int64_t cap = w->capacity, last = --w->m;
    if (last < w->known) w->known--;
    else if (at < w->known) w->known = at;
    w->place[w->column[at]] = -1;
    if (at == last) return;
    w->column[at] = w->column[last];
    w->place[w->column[at]] = (int32_t)at;
    w->b[at] = w->b[last];
    if (w->dual) return;
    double *both[] = {w->v, w->inner};
    for (int e = 0; e < 2; e++) {
        double *v = both[e];
        for (int64_t i = 0; i < last; i++)
            if (i != at) v[at * cap + i] = v[i * cap + at] = v[last * cap + i];
        v[at * cap + at] = v[last * cap + last];
    }
}

/* Take a unit from the lists alone. */
void note_out(const Problem *p, Walker *w, int64_t unit) {
    for (int64_t a = p->start[unit]; a < p->start[unit + 1]; a++) drop_column(w, w->place[p->order[a]]);

    int32_t at = w->unit_place[unit], last = w->unit[--w->n_in];
    w->unit[at] = last;
    w->unit_place[last] = at;
    w->unit_place[unit] = -1;
}

WIDE static void add_square(const Problem *p, Walker *w, int64_t column, double times) {
    const double *x = p->xt + column * p->n;
    for (int64_t r = 0; r < p->n; r++) {
        double *sum = w->q + r * p->n;
        const double each = times * x[r];
        for (int64_t l = 0; l < p->n; l++) sum[l] += each * x[l];
    }
}

/* A unit that comes in (once) or leaves (-1 times), in X_A X_A'. */
static void add_to_sum(const Problem *p, Walker *w, int64_t unit, double times) {
    for (int64_t a = p->start[unit]; w->dual && a < p->start[unit + 1]; a++, w->since_sum++)
        add_square(p, w, p->order[a], times);
}

static int refreshed(Run *run, Walker *w, int collinear) {
    const Problem *p = run->problem;
    int64_t from = p->dual_from;
    int other = from && (w->dual ? w->m < from - from / 4 : w->m > from);
    if (++w->since_refresh < REFRESH && !other && !collinear) return 1;
    return rebuild(run, w, !other);
}

/* Whether differences lose digits where a member j, with this entry on the diagonal of V, comes in or leaves: because
   next to nothing of it is outside the others; in the rows' form because they leave next to nothing of P. */
static int is_collinear(Run *run, Walker *w, int64_t j, double v) {
    if (w->dual) return run->problem->k[w->node] * v < LEAST_OUTSIDE;
    return product(run, w, j, j) * v * LEAST_OUTSIDE > 1.0;
}

/* Let a unit in; after `peek_in` of it, what that found. */
int let_in(Run *run, Walker *w, int64_t unit, const Change *peeked) {
    const Problem *p = run->problem;
    const int64_t q = width(p, unit), m = w->m;
    if (!ensure_room(run, w, m + q)) return 0;
    const Change change = peeked ? *peeked : peek_in(run, w, unit);
    const int64_t stride = scratch_stride(run), length = w->dual ? dual_size(p) : m;
    /* With the factor L' of S, U := U L^-T, so that the update is U U'; r := L^-1 r. */
    for (int64_t c = 0; c < q; c++) {
        double *u = run->u + c * stride;
        for (int64_t e = 0; e < c; e++) {
            const double *before = run->u + e * stride, l = run->s[e * p->widest + c];
            for (int64_t i = 0; i < length; i++) u[i] -= l * before[i];
        }
        const double l = run->s[c * p->widest + c];
        for (int64_t i = 0; i < length; i++) u[i] /= l;
    }
    const double *z = run->solution;
    w->left_over -= change.gain;
    if (!(w->left_over > FLOOR * w->yy)) w->left_over = FLOOR * w->yy;
    w->log_det += change.log_det;
    if (w->dual) {
        for (int64_t c = 0; c < q; c++) {
            const double *u = run->u + c * stride;
            for (int64_t i = 0; i < length; i++) {
                double *to = w->p + i * length;
                for (int64_t l = 0; l < length; l++) to[l] -= u[i] * u[l];
                w->py[i] -= u[i] * z[c];
            }
        }
        add_to_sum(p, w, unit, 1.0);
        note_in(p, w, unit);
        return refreshed(run, w, 0);
    }
    const int64_t cap = w->capacity;
    int collinear = 0;
    for (int64_t c = 0; c < q; c++) {
        const double *u = run->u + c * stride;
        for (int64_t i = 0; i < m; i++) {
            double *to = w->v + i * cap;
            for (int64_t l = 0; l < m; l++) to[l] += u[i] * u[l];
            w->b[i] -= u[i] * z[c];
        }
    }
    /* L^-T: its column c solves L' x = e_c. V_AJ = -U L^-1, V_JJ = L^-T L^-1, b_J = L^-T z. */
    double *inverse = run->v_in;
    invert(run->s, inverse, q, p->widest, p->widest, run->cross_terms);
    for (int64_t c = 0; c < q; c++) {
        /* The c-th row of L^-T is the c-th column of L^-1, which `invert` leaves in its scratch. */
        const double *column = run->cross_terms + c;
        double coef = 0.0;
        for (int64_t e = c; e < q; e++) coef += column[e * q] * z[e];
        w->b[m + c] = coef;
        for (int64_t i = 0; i < m; i++) {
            double value = 0.0;
            for (int64_t e = c; e < q; e++) value -= column[e * q] * run->u[e * stride + i];
            w->v[i * cap + m + c] = w->v[(m + c) * cap + i] = value;
        }
        for (int64_t e = 0; e < q; e++) w->v[(m + c) * cap + m + e] = inverse[c * p->widest + e];
        collinear = collinear || is_collinear(run, w, p->order[p->start[unit] + c], inverse[c * p->widest + c]);
    }
    const int64_t *j = p->order + p->start[unit];
    for (int64_t c = 0; c < q; c++) {
        const double *h = run->h + c * stride;
        for (int64_t i = 0; i < m; i++) w->inner[i * cap + m + c] = w->inner[(m + c) * cap + i] = h[i];
        for (int64_t e = 0; e <= c; e++)
            w->inner[(m + c) * cap + m + e] = w->inner[(m + e) * cap + m + c] = product(run, w, j[e], j[c]);
    }
    note_in(p, w, unit);
    w->known = w->m;
    return refreshed(run, w, collinear);
}

void take_out(Run *run, Walker *w, int64_t unit) {
    const Problem *p = run->problem;
    const int64_t q = width(p, unit), *j = p->order + p->start[unit];
    int collinear = 0;
    look_out(run, w, unit);
    for (int64_t c = 0; c < q; c++) collinear = collinear || is_collinear(run, w, j[c], run->v_in[c * p->widest + c]);
    Change change = peek_out(run, w, unit);
    const double g = 1.0 / p->k[w->node];
    w->left_over += change.gain;
    w->log_det += change.log_det;
    const int64_t stride = scratch_stride(run), length = w->dual ? dual_size(p) : w->m;
    for (int64_t c = 0; c < q; c++) {
        double *u = run->u + c * stride;
        if (w->dual)
            for (int64_t i = 0; i < length; i++) u[i] = g * run->cross_terms[c * length + i];
        else memcpy(u, w->v + w->place[j[c]] * w->capacity, (size_t)length * sizeof *u);
        for (int64_t e = 0; e < c; e++) {
            const double *before = run->u + e * stride, l = run->v_in[e * p->widest + c];
            for (int64_t i = 0; i < length; i++) u[i] -= l * before[i];
        }
        const double l = run->v_in[c * p->widest + c];
        for (int64_t i = 0; i < length; i++) u[i] /= l;
    }
    for (int64_t c = 0; c < q; c++) {
        const double *u = run->u + c * stride, z = run->b_in[c];
        for (int64_t i = 0; i < length; i++) {
            if (w->dual) {
                double *to = w->p + i * length;
                for (int64_t l = 0; l < length; l++) to[l] += u[i] * u[l];
                w->py[i] += u[i] * z;
            } else {
                double *to = w->v + i * w->capacity;
                for (int64_t l = 0; l < length; l++) to[l] -= u[i] * u[l];
                w->b[i] -= u[i] * z;
            }
        }
    }
    add_to_sum(p, w, unit, -1.0);
    note_out(p, w, unit);
    refreshed(run, w, collinear);
}

/* One unit for another one; after `peek_swap`. */
void exchange(Run *run, Walker *w, int64_t out, int64_t in) {
    const Problem *p = run->problem;
    const int64_t stride = scratch_stride(run), last = w->m - 1;
    const int single = width(p, out) == 1 && !w->dual;
    /* A member takes the place of the one that leaves: so do its products. */
    for (int64_t c = 0; single && c < width(p, in); c++)
        run->h[c * stride + w->place[p->order[p->start[out]]]] = run->h[c * stride + last];
    take_out(run, w, out);
    if (!single || w->dual) {
        let_in(run, w, in, NULL);
        return;
    }
    look_in(run, w, in, 1);
    const Change change = changed(run, width(p, in), p->k[w->node]);
    let_in(run, w, in, &change);
}

/* X_A'X_A of all members. */
static void complete(Run *run, Walker *w) {
    for (int64_t i = w->known; i < w->m; i++) {
        products(run, w, w->column[i], run->h);
        for (int64_t l = 0; l < w->m; l++) w->inner[i * w->capacity + l] = w->inner[l * w->capacity + i] = run->h[l];
    }
    w->known = w->m;
}

/* What the fixed columns add to log |M| and take from R, given the factor L' of I + g W^1/2 X_A X_A' W^1/2 and L^-1 W^1/2 y
   in the scratch. In `flat` are left G' = (L^-1 W^1/2 C)', the factor of G'G, and what solves it for G'L^-1 W^1/2 y. */
static void take_fixed(Run *run, const Walker *w, double *log_det, double *left) {
    const Problem *p = run->problem;
    const int64_t n = p->n, f = p->fixed;
    double *g = run->flat, *a = g + n * f, *b = a + f * f;
    for (int64_t c = 0; c < f; c++) {
        const double *x = p->xt + (p->d + c) * n;
        for (int64_t i = 0; i < n; i++) g[c * n + i] = x[i] * sqrt(w->weights[i]);
        forward(run->factor, g + c * n, n, n);
        b[c] = dot(g + c * n, run->solution, n);
        for (int64_t l = 0; l <= c; l++) a[l * f + c] = dot(g + c * n, g + l * n, n);
    }
    *log_det += cholesky(a, f, f, 0.0, f);
    forward(a, b, f, f);
    *left -= dot(b, b, f);
}

/* P and P (y, 0) of weighted rows, from the inverse of I + g W^1/2 X_A X_A' W^1/2, the same times W^1/2 y, and `flat`. */
static void complete_dual(Run *run, Walker *w) {
    const Problem *p = run->problem;
    const int64_t n = p->n, f = p->fixed, size = dual_size(p);
    double *g = run->flat, *a = g + n * f, *b = a + f * f;
    for (int64_t i = 0; i < n; i++) run->weighted[i] = sqrt(w->weights[i]);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t l = 0; l < n; l++) w->p[i * size + l] *= run->weighted[i] * run->weighted[l];
        w->py[i] *= run->weighted[i];
    }
    for (int64_t c = 0; c < f; c++) {
        double *own = g + c * n;
        backward(run->factor, own, n, n);
        for (int64_t i = 0; i < n; i++) own[i] *= run->weighted[i];
        for (int64_t e = 0; e < c; e++)
            for (int64_t i = 0; i < n; i++) own[i] -= a[e * f + c] * g[e * n + i];
        for (int64_t i = 0; i < n; i++) own[i] /= a[c * f + c];
        for (int64_t i = 0; i < n; i++) {
            for (int64_t l = 0; l < n; l++) w->p[i * size + l] -= own[i] * own[l];
            w->py[i] -= own[i] * b[c];
        }
    }
    invert(a, w->p + n * size + n, f, f, size, run->factor + n * n);
    for (int64_t c = 0; c < f; c++)
        for (int64_t e = 0; e < f; e++) w->p[(n + c) * size + n + e] *= -1.0;
    backward(a, b, f, f);
    memcpy(w->py + n, b, (size_t)f * sizeof *b);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t c = 0; c < f; c++) b[c] = g[c * n + i];
        backward(a, b, f, f);
        for (int64_t c = 0; c < f; c++) w->p[(n + c) * size + i] = w->p[i * size + n + c] = b[c];
    }
}

/* The factor of I + g W^1/2 X_A X_A' W^1/2 of m columns at a node, the fixed ones among them, in place of X_A X_A' in
   run->factor, with log |M| and R. */
static void factor_of_rows(Run *run, const Walker *w, int64_t m, int64_t node, double *log_det, double *left) {
    const Problem *p = run->problem;
    const int64_t n = p->n;
    const double g = 1.0 / p->k[node];
    double *a = run->factor, *c = run->solution;
    for (int64_t r = 0; w->weights && r < n; r++) run->weighted[r] = sqrt(w->weights[r]);
    for (int64_t r = 0; r < n; r++) {
        const double own = w->weights ? g * run->weighted[r] : g;
        for (int64_t l = r; l < n; l++) a[r * n + l] *= w->weights ? own * run->weighted[l] : own;
        a[r * n + r] += 1.0;
        c[r] = w->weights ? w->linear[r] / run->weighted[r] : p->target[r];
    }
    *log_det = cholesky(a, n, n, 1.0, 0) + (double)(m - p->fixed) * p->log_k[node];
    forward(a, c, n, n);
    *left = p->outside + dot(c, c, n);
    if (p->fixed) take_fixed(run, w, log_det, left);
}

/* To the entries from `row` on of two rows of a sum are added those of four columns, times each row's own ones, and 1 or
   -1. */
static inline void add_four(const double *const *x, double times, int64_t row, int64_t other, int64_t end,
                            double *restrict one, double *restrict two) {
    const double a0 = times * x[0][row], a1 = times * x[1][row], a2 = times * x[2][row], a3 = times * x[3][row];
    const double b0 = times * x[0][other], b1 = times * x[1][other], b2 = times * x[2][other], b3 = times * x[3][other];
    const double *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3];
    for (int64_t l = row; l < end; l++) {
        one[l] = (((one[l] + a0 * x0[l]) + a1 * x1[l]) + a2 * x2[l]) + a3 * x3[l];
        two[l] = (((two[l] + b0 * x0[l]) + b1 * x1[l]) + b2 * x2[l]) + b3 * x3[l];
    }
}

/* X_A X_A' of some columns, once or -1 times, added to the upper triangle of a sum (n, n); four columns and two rows at
   once, so that columns and sum are read less often. The lower one of two rows gets an entry beyond the triangle. */
WIDE static void add_squares(const Problem *p, const int32_t *columns, int64_t m, double times, double *sum) {
    const int64_t n = p->n, even = n - n % 2;
    int64_t i = 0;
    for (; i + 4 <= m; i += 4) {
        const double *x[4];
        for (int64_t c = 0; c < 4; c++) x[c] = p->xt + columns[i + c] * n;
        for (int64_t r = 0; r < even; r += 2) add_four(x, times, r, r + 1, n, sum + r * n, sum + (r + 1) * n);
        if (even < n)
            for (int64_t c = 0; c < 4; c++) sum[n * n - 1] += times * x[c][even] * x[c][even];
    }
    for (; i < m; i++) {
        const double *x = p->xt + columns[i] * n;
        for (int64_t r = 0; r < n; r++)
            for (int64_t l = r; l < n; l++) sum[r * n + l] += times * x[r] * x[l];
    }
}

/* Members that are not among `columns`, into `leaving`; how many. */
static int64_t list_leaving(Walker *w, const int32_t *columns, int64_t m, int32_t *leaving) {
    int64_t count = 0;
    /* `place` of those that stay is marked for the while. */
    for (int64_t i = 0; i < m; i++)
        if (w->place[columns[i]] >= 0) w->place[columns[i]] += 1 << 30;
    for (int64_t i = 0; i < w->m; i++) {
        const int32_t j = w->column[i];
        if (w->place[j] >= 1 << 30) w->place[j] -= 1 << 30;
        else leaving[count++] = j;
    }
    return count;
}

/* The factor of M (or of I + g W^1/2 X_A X_A' W^1/2) of a set at a node, in run->factor, with log |M| and R. */
int evaluate(Run *run, Walker *w, const int32_t *columns, int64_t m, int64_t node, double *log_det, double *left) {
    const Problem *p = run->problem;
    const double k = p->k[node];
    const int64_t n = w->dual ? p->n : m;
    if (!ensure_room(run, w, m) || !ensure_factor(run, n)) return 0;
    double *a = run->factor, *c = run->solution;
    int64_t fixed = 0;
    if (w->dual) {
        /* X_A X_A' of the walker's own set, and what `columns` differ in. */
        memcpy(a, w->q, (size_t)(n * n) * sizeof *a);
        int64_t kept = m; /* newcomers come after members, and are never fixed ones */
        while (kept && w->place[columns[kept - 1]] < 0) kept--;
        add_squares(p, columns + kept, m - kept, 1.0, a);
        if (columns != w->column) {
            int32_t *leaving = run->exchanged;
            const int64_t gone = list_leaving(w, columns, m, leaving);
            add_squares(p, leaving, gone, -1.0, a);
            memcpy(run->sum, a, (size_t)(n * n) * sizeof *a);
            run->summed = m - kept + gone;
        }
        factor_of_rows(run, w, m, node, log_det, left);
    } else {
        for (int64_t i = 0; i < m; i++) {
            const int64_t at = w->place[columns[i]];
            if (at >= 0) {
                const double *own = w->inner + at * w->capacity;
                if (columns == w->column) memcpy(a + i * m + i, own + i, (size_t)(m - i) * sizeof *a);
                /* Newcomers, which come after members, are yet to be. */
                else
                    for (int64_t l = i; l < m && w->place[columns[l]] >= 0; l++) a[i * m + l] = own[w->place[columns[l]]];
            } else {
                products(run, w, columns[i], run->h);
                for (int64_t l = 0; l <= i; l++) {
                    const int64_t other = w->place[columns[l]];
                    a[l * m + i] = other >= 0 ? run->h[other] : product(run, w, columns[l], columns[i]);
                }
            }
            if (columns[i] < p->d) a[i * m + i] += k;
            fixed += columns[i] >= p->d;
            c[i] = w->cross[columns[i]];
        }
        *log_det = cholesky(a, m, m, k, fixed);
        forward(a, c, m, m);
        *left = w->yy - dot(c, c, m);
    }
    if (!(*left > FLOOR * w->yy)) *left = FLOOR * w->yy;
    return 1;
}

/* As `evaluate`, of a set that may have nothing in common with the walker's, without weights: by rows if it has more
   columns. */
int evaluate_afresh(Run *run, Walker *w, const int32_t *columns, int64_t m, int64_t node, double *log_det, double *left) {
    const Problem *p = run->problem;
    const int by_rows = p->dual_from && m > p->n;
    const int64_t n = by_rows ? p->n : m;
    if (!ensure_scratch(run, m) || !ensure_factor(run, n)) return 0;
    double *a = run->factor, *c = run->solution;
    if (by_rows) {
        memset(a, 0, (size_t)(n * n) * sizeof *a);
        add_squares(p, columns, m, 1.0, a);
        factor_of_rows(run, w, m, node, log_det, left);
    } else {
        for (int64_t i = 0; i < m; i++) {
            const double *from = row(p, columns[i]);
            for (int64_t l = i + 1; l < m; l++) a[i * m + l] = from ? from[columns[l]] : product(run, w, columns[l], columns[i]);
            a[i * m + i] = p->diag[columns[i]] + p->k[node];
            c[i] = p->cross[columns[i]];
        }
        *log_det = cholesky(a, m, m, p->k[node], 0);
        forward(a, c, m, m);
        *left = p->yy - dot(c, c, m);
    }
    if (!(*left > FLOOR * p->yy)) *left = FLOOR * p->yy;
    return 1;
}

/* The lower triangle of a symmetric matrix from the upper one. */
static void mirror(double *a, int64_t n) {
    for (int64_t r = 1; r < n; r++)
        for (int64_t l = 0; l < r; l++) a[r * n + l] = a[l * n + r];
}

/* X_A X_A' of the members: the fixed ones come first. */
static void sum_of_members(const Problem *p, Walker *w) {
    const int64_t n = p->n;
    memset(w->q, 0, (size_t)(n * n) * sizeof *w->q);
    add_squares(p, w->column + p->fixed, w->m - p->fixed, 1.0, w->q);
    mirror(w->q, n);
    w->since_sum = 0;
}

/* Whether the sum is due: differences have added up. */
static int is_sum_due(const Walker *w) { return w->since_sum >= (w->m > SUM_AFRESH ? w->m : SUM_AFRESH); }

/* Whether sets of m columns are held by their rows: a walker keeps to its form for a while. */
static int held_by_rows(const Problem *p, const Walker *w, int64_t m) {
    return p->dual_from && (w->dual ? m >= p->dual_from - p->dual_from / 4 : m > p->dual_from);
}

/* The form of sets of m columns. */
static int choose_form(Run *run, Walker *w, int64_t m) {
    const Problem *p = run->problem;
    const int dual = held_by_rows(p, w, m);
    if (dual && !w->dual) {
        free(w->v);
        free(w->inner);
        w->v = w->inner = NULL;
        const size_t size = (size_t)dual_size(p);
        w->p = malloc(size * size * sizeof(double));
        w->q = malloc((size_t)(p->n * p->n) * sizeof(double));
        w->py = malloc(size * sizeof(double));
        if (!w->p || !w->q || !w->py) return 0;
        w->since_sum = INT64_MAX;
    } else if (!dual && w->dual) {
        free(w->p);
        free(w->q);
        free(w->py);
        w->p = w->q = w->py = NULL;
        for (w->capacity = 16; w->capacity < w->m + p->widest;) w->capacity *= 2;
        w->v = malloc((size_t)(w->capacity * w->capacity) * sizeof(double));
        w->inner = malloc((size_t)(w->capacity * w->capacity) * sizeof(double));
        w->known = 0;
        if (!w->v || !w->inner) return 0;
    }
    w->dual = dual;
    return 1;
}

/* Room for m members that come in at once, in the form of so many. */
int make_room(Run *run, Walker *w, int64_t m) {
    if (!choose_form(run, w, m)) {
        run->failed = 1;
        return 0;
    }
    w->known = 0;
    w->since_sum = INT64_MAX;
    return ensure_room(run, w, m);
}

/* What is held of the set, from the factor that `evaluate` has left of it at the walker's node, with log |M| and R. */
static void take_factor(Run *run, Walker *w, double log_det, double left) {
    const Problem *p = run->problem;
    const int64_t n = w->dual ? p->n : w->m;
    double *inverse = run->factor + n * n;
    w->left_over = left;
    w->log_det = log_det;
    w->since_refresh = 0;
    backward(run->factor, run->solution, n, n);
    if (w->dual) {
        invert(run->factor, w->p, n, n, dual_size(p), inverse);
        memcpy(w->py, run->solution, (size_t)n * sizeof(double));
        if (w->weights) complete_dual(run, w);
    } else {
        invert(run->factor, w->v, n, n, w->capacity, inverse);
        memcpy(w->b, run->solution, (size_t)n * sizeof(double));
    }
}

/* Everything that is held of the set, computed afresh; the drift is how far it had moved. */
int rebuild(Run *run, Walker *w, int keep_drift) {
    const Problem *p = run->problem;
    double log_det, left, drift = 0.0;
    if (!choose_form(run, w, w->m)) {
        run->failed = 1;
        return 0;
    }
    if (!w->dual) complete(run, w);
    else if (is_sum_due(w)) sum_of_members(p, w);
    if (!evaluate(run, w, w->column, w->m, w->node, &log_det, &left)) return 0;
    if (keep_drift) {
        drift = fabs(left - w->left_over) / left;
        if (fabs(log_det - w->log_det) > drift) drift = fabs(log_det - w->log_det);
        if (drift > w->drift) w->drift = drift;
    }
    take_factor(run, w, log_det, left);
    return 1;
}

/* Everything that is held of the set, which was evaluated last, in the order of `columns`. */
int settle(Run *run, Walker *w, const int32_t *columns, double log_det, double left) {
    if (w->dual) {
        double *before = w->q;
        w->q = run->sum;
        run->sum = before;
        mirror(w->q, run->problem->n);
        w->since_sum += run->summed;
    }
    const int same = w->dual ? !is_sum_due(w) : !memcmp(columns, w->column, (size_t)w->m * sizeof *columns);
    if (!same || held_by_rows(run->problem, w, w->m) != w->dual) return rebuild(run, w, 0);
    if (!w->dual) complete(run, w);
    take_factor(run, w, log_det, left);
    return 1;
}

/* The same set at another node, at which it was evaluated last. */
int go_to_node(Run *run, Walker *w, int64_t node, double log_det, double left) {
    w->node = node;
    /* A sum that is due wants all of it. */
    if (w->dual && is_sum_due(w)) return rebuild(run, w, 0);
    take_factor(run, w, log_det, left);
    return 1;
}
