/* The posterior of sets of columns by light moves: what the files of this folder share.

   Symbols are those of selection/light.py, which calls them. All arrays are of the caller unless said otherwise. */

#ifndef SAMPLER_H
#define SAMPLER_H

#include <stdint.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* Functions of which the compiler also makes a version for processors with wider registers: of which the program takes
   one when it starts. Both do the same operations in the same order, with more or fewer of them at once. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

/* Columns of a pass that are treated at once. */
#define BLOCK 64

/* Sums that a processor can form at once. */
#define SIDE_BY_SIDE 8

/* Least share of y'y that a set leaves: below it is rounding. */
#define FLOOR 1e-15

/* Units that the move of size and g lets in or out, at most: a power of 2. */
#define MOST_TOGETHER 512

/* Units of a set that is recalled, at most. */
#define MOST_RECALLED 64

/* Neighbours of a unit: those with the largest correlations, and at least this one. */
#define MOST_NEIGHBOURS 20
#define LEAST_CORRELATION 0.5

/* Moves that are counted. */
enum { BIRTH, DEATH, SWAP, NEAR_SWAP, NODE, TOGETHER, RECALL, RENEW, N_MOVES };

/* The data, the prior and the weights of proposals; in the order of light.Problem. */
typedef struct {
    int64_t n;            /* rows of `xt`, 0 without */
    int64_t d;            /* columns that may be in */
    int64_t fixed;        /* further columns of `xt` that are always in, with a flat prior */
    int64_t n_units;
    int64_t widest;       /* columns of the largest unit */
    int64_t n_nodes;
    int64_t most_columns; /* of a set */
    int64_t table_sizes;  /* rows of `table` */
    int64_t node_every;   /* steps between moves of the node, 0 for none */
    int64_t together_every;
    int64_t n_free;        /* units that move */
    int64_t dual_from;    /* columns in from which a set is held by its rows, 0 for never */
    int64_t n_watched;    /* units that every pass looks at, where `watched` is */
    int64_t n_lists;      /* lists of sets that a walker may go to at once */
    int64_t largest_recalled; /* units of the largest of them, MOST_RECALLED at most */
    int64_t recall_every;
    int64_t n_loose;       /* units of which moves to other sets altogether draw some */
    int64_t renewed_sizes; /* they draw fewer than so many */
    int64_t renew_every;   /* steps between them, 0 for none */
    int64_t t_nodes, t_points; /* nodes of log g (or 1, where they are alike) and of t in the quadrature of the prior */
    double yy, outside, nu; /* y'y, its part outside the rows of `xt`, degrees of freedom */
    double swap_share;
    double often_from; /* units in from which sets are visited more often than they are likely; infinite for none */
    const int64_t *order, *start; /* the columns of unit j: order[start[j]] to order[start[j + 1] - 1] */
    const int64_t *unit_of;
    const double *diag, *cross; /* squared lengths of the columns, X'y */
    const double *gram;         /* X'X or NULL */
    const double *held;         /* without it: rows of X'X of some columns, or NULL */
    const int32_t *held_at;     /* which row is that of a column, -1 for none */
    const double *xt;           /* X', one column after the other, or NULL */
    const double *target;       /* y in the coordinates of the rows */
    const double *log_g, *k, *log_k; /* of the nodes */
    const double *noise;        /* s2 at the nodes, or NULL: integrated out */
    const double *odds;         /* log prior odds of the units, or NULL */
    const double *log_weight;   /* of the nodes */
    double *table;              /* log prior of a set of so many units at each node, without `odds`; NaN: not computed */
    const double *t_in, *t_out, *t_weight; /* (t_nodes, t_points): log p, log(1 - p), log weights of the quadrature */
    const double *keep;         /* alias table of the births: share that stays */
    const int32_t *alias;
    const double *log_birth, *birth; /* probabilities of births; 0 and -inf for units that do not move */
    const double *death;             /* weights of deaths, 0 for units that do not move */
    const double *exchange;          /* weights of units in as those that others take the place of */
    const uint8_t *listed;           /* units whose neighbours are looked for */
    const int32_t *watched;          /* units that every pass looks at; NULL: all of them */
    const uint8_t *is_watched;
    const uint8_t *is_core;          /* (n_lists, n_units): units of which the sets of a list are made */
    const int64_t *list_start;       /* the sets of list i: list_start[i] to list_start[i + 1] - 1 */
    const uint64_t *mark;            /* of the units: a set's key is that of all its units by exclusive or */
    const uint64_t *recalled_key;    /* ascending in each list */
    const int64_t *recalled_start;   /* the units of set i, ascending: recalled_unit[recalled_start[i]] and so on */
    const int32_t *recalled_unit;
    const double *recalled_sum;      /* how likely the sets of a list up to this one are proposed */
    const double *recalled_node_sum; /* and the nodes up to this one, of the sets of the first list */
    const double *log_recalled;      /* log probability of a set and a node in the first list, of a set in others */
    int32_t *loose;                  /* (n_loose,): shuffled for the while of a move */
    const uint8_t *is_loose;
    const double *renewed_sum;       /* how likely so many of them and a node, up to this pair, are proposed */
    const double *log_renewed;       /* log probability of one set of so many and a node: (renewed_sizes, n_nodes) */
} Problem;

typedef struct {
    uint64_t random[4];
    int64_t m, capacity;   /* columns in */
    int64_t n_in;          /* units in */
    int64_t node, dual, since_refresh, since_sum, count, left;
    double left_over, log_det; /* R and log |M| */
    double drift;
    double *v, *b;         /* M^-1 and M^-1 c; dual: nothing */
    double *inner;         /* X_A'X_A, of the first `known` members */
    int64_t known;
    double *p, *py, *q;    /* dual: P, P (y, 0), see state.c; X_A X_A' */
    int32_t *column, *unit, *place, *unit_place; /* members, and where they stand, -1 for what is out */
    const double *weights, *linear; /* weights and linear terms of the rows, or NULL */
    const double *cross;            /* X'y of this walker */
    double yy;
    int64_t proposed[N_MOVES], accepted[N_MOVES];
} Walker;

typedef struct {
    int32_t count; /* -1: not looked for yet */
    int32_t *unit;
    double *share;
} Neighbours;

typedef struct {
    const Problem *problem;
    int64_t n_walkers, room, limited, failed;
    int64_t walking; /* the walker that run_walk is at */
    Walker *walker;
    Neighbours *near;
    double *similar;
    /* Scratch, for `room` members. */
    double *h, *u, *factor, *factor_n, *solution, *s, *reach, *v_in, *b_in, *cross_terms, *weighted, *flat;
    double *block;
    double *sum;    /* X_A X_A' of the set that was evaluated last, in the rows' form, if it is not the walker's */
    int64_t summed; /* columns in which it differs from the walker's */
    int32_t *columns, *exchanged;
    uint8_t *chosen; /* units of a move of several; 0 between moves */
} Run;

/* What passes add to, and write; in the order of light.Record. */
typedef struct {
    double *prob, *absent, *mean, *square, *sums; /* (n_units,) twice, (d + fixed,) twice, (5,): see `look` */
    double *weight;                               /* (2,): sums of the weights of passes, and of full ones */
    const double *center;                         /* (d + fixed,): coefficients are counted less these */
    int32_t *units;                               /* units in at the passes, one after the other */
    int64_t room, used;
    int32_t *size, *node;                         /* of each pass */
    uint64_t *key;
    const uint64_t *marks;
} Record;

/* Of a unit that would come in, or leave. */
typedef struct {
    double log_det, gain;
} Change;

/* random.c */
double uniform(Walker *w);
double uniform_of(uint64_t *random);
uint64_t below(Walker *w, uint64_t n);

/* dense.c */
double long_dot(const double *a, const double *b, int64_t n);

/* a'b; of few numbers in one sum, which is what `long_dot` gives for them. */
static inline double dot(const double *a, const double *b, int64_t n) {
    if (n >= SIDE_BY_SIDE) return long_dot(a, b, n);
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* A tile of a product of matrices: what a processor holds at once. */
#define ROWS 4
#define COLUMNS 8

#if defined(__GNUC__)
#define INSIDE static inline __attribute__((always_inline))
#else
#define INSIDE static inline
#endif

/* Entries (r, c) of A'B of `n` rows each: sum_k A[k, r] B[k, c], k = 0, 1, ... in this order. */
INSIDE void sums_of_products(const double *a, int64_t a_stride, const double *b, int64_t b_stride, int64_t n,
                             double out[ROWS][COLUMNS]) {
    double s0[COLUMNS] = {0}, s1[COLUMNS] = {0}, s2[COLUMNS] = {0}, s3[COLUMNS] = {0};
    for (int64_t k = 0; k < n; k++, a += a_stride, b += b_stride) {
        const double a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3];
        for (int c = 0; c < COLUMNS; c++) {
            s0[c] += a0 * b[c];
            s1[c] += a1 * b[c];
            s2[c] += a2 * b[c];
            s3[c] += a3 * b[c];
        }
    }
    for (int c = 0; c < COLUMNS; c++) {
        out[0][c] = s0[c];
        out[1][c] = s1[c];
        out[2][c] = s2[c];
        out[3][c] = s3[c];
    }
}

double cholesky(double *a, int64_t n, int64_t stride, double least, int64_t free_pivots);
void forward(const double *u, double *x, int64_t n, int64_t stride);
void backward(const double *u, double *x, int64_t n, int64_t stride);
void invert(const double *u, double *out, int64_t n, int64_t stride, int64_t out_stride, double *scratch);

/* products.c */
double product(Run *run, const Walker *w, int64_t a, int64_t j);
void products(Run *run, const Walker *w, int64_t j, double *out);
const double *row(const Problem *p, int64_t j);
const Neighbours *neighbours(Run *run, int64_t unit);
double near_share(Run *run, int64_t from, int64_t to);
void forget_neighbours(Run *run);

/* state.c */
int64_t width(const Problem *p, int64_t unit);
int64_t dual_size(const Problem *p);
int ensure_scratch(Run *run, int64_t m);
int ensure_room(Run *run, Walker *w, int64_t m);
int make_room(Run *run, Walker *w, int64_t m);
int ensure_factor(Run *run, int64_t n);
Change peek_in(Run *run, Walker *w, int64_t unit);
Change peek_out(Run *run, Walker *w, int64_t unit);
Change peek_swap(Run *run, Walker *w, int64_t out, int64_t in);
void note_in(const Problem *p, Walker *w, int64_t unit);
void note_out(const Problem *p, Walker *w, int64_t unit);
void look_out(Run *run, Walker *w, int64_t unit);
int let_in(Run *run, Walker *w, int64_t unit, const Change *peeked);
void exchange(Run *run, Walker *w, int64_t out, int64_t in);
void take_out(Run *run, Walker *w, int64_t unit);
int rebuild(Run *run, Walker *w, int keep_drift);
int settle(Run *run, Walker *w, const int32_t *columns, double log_det, double left);
int go_to_node(Run *run, Walker *w, int64_t node, double log_det, double left);
int evaluate(Run *run, Walker *w, const int32_t *columns, int64_t m, int64_t node, double *log_det, double *left);
int evaluate_afresh(Run *run, Walker *w, const int32_t *columns, int64_t m, int64_t node, double *log_det, double *left);

/* table.c */
double log_prior(const Problem *p, int64_t n_in, int64_t node);
double log_target(const Problem *p, int64_t n_in, int64_t node);
double weight_of(const Problem *p, int64_t n_in);

/* moves.c */
double log_likelihood(const Problem *p, int64_t penalised, double log_det, double left, int64_t node);
double log_gain(const Problem *p, const Walker *w, double change);
int64_t most_more(const Problem *p, int64_t n_in);
int accepted(Walker *w, int move, double log_ratio);
int fits(Run *run, const Walker *w, int64_t more);
void step(Run *run, Walker *w);

/* recall.c */
void recall(Run *run, Walker *w);

/* renew.c */
void renew(Run *run, Walker *w);

/* sweep.c */
void look(Run *run, Walker *w, const Record *record);
void sweep(Run *run, Walker *w, int64_t first, int64_t last, const double *lent, const int32_t *lent_at,
           const Record *record);

#endif
