#include "searchers/model/gp_model.h"

#include "base/mem.h"

#include <gsl/gsl_blas.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_linalg.h>
#include <nlopt.h>

#include <assert.h>
#include <math.h>
#include <string.h>

/* Bounds of the logarithms while fitting: length scales 0.01 .. 100. */
#define LOG_W_MIN (-9.2)
#define LOG_W_MAX 9.2
#define LOG_S_MIN (-7.0)
#define LOG_S_MAX 7.0
#define LOG_NOISE_MAX 2.0
/* Noise prior: density ~ n^0.1 (1 + n / scale)^-tail. */
#define NOISE_SCALE 0.01
#define NOISE_TAIL 30.0

struct gp_model {
    size_t axes, n;
    bool categorical[GP_AXES_MAX];
    struct gp_params params; /* of the factor */
    double *x;               /* [n][axes] */
    double *y;               /* [n] */
    double *factor;          /* [n][n] Cholesky factor, or scratch */
    double *slope;           /* [n][n] dk / d(r^2), while fitting */
    double *alpha;           /* [n] K^-1 y */
    double *k, *v;           /* [n] scratch of one prediction */
};

/* OpenBLAS', which has no header of its own under GSL. */
void openblas_set_num_threads(int threads);

enum err gp_model_new(size_t axes, const bool categorical[],
                      struct gp_model **out)
{
    struct gp_model *m;

    assert(categorical && out);
    if (axes == 0 || axes > GP_AXES_MAX)
        return ERR_INVAL;
    /* A matrix without a factor is an answer here, not a reason to abort. */
    gsl_set_error_handler_off();
    /* The cores belong to the workers, whichever OpenBLAS is installed. */
    openblas_set_num_threads(1);
    m = mem_calloc(1, sizeof(*m));
    if (!m)
        return ERR_NOMEM;
    m->axes = axes;
    memcpy(m->categorical, categorical, axes * sizeof(categorical[0]));
    *out = m;
    return ERR_OK;
}

static void drop_data(struct gp_model *m)
{
    mem_free(m->x);
    m->x = NULL; /* the one block that holds all arrays */
    m->n = 0;
}

void gp_model_free(struct gp_model *m)
{
    if (!m)
        return;
    drop_data(m);
    mem_free(m);
}

void gp_params_default(struct gp_params *p, size_t axes)
{
    assert(axes <= GP_AXES_MAX);
    memset(p, 0, sizeof(*p));
    for (size_t a = 0; a < axes; a++)
        p->log_w[a] = 0;
    p->log_s = 0;
    p->log_noise = log(1e-4);
}

enum err gp_model_data(struct gp_model *m, size_t n, const double *x,
                       const double *y)
{
    size_t d = m->axes;
    double *block;

    assert(x && y);
    if (n > GP_POINTS_MAX)
        return ERR_LIMIT;
    assert(n > 0);
    block = mem_alloc((n * d + 4 * n + 2 * n * n) * sizeof(double));
    if (!block)
        return ERR_NOMEM;
    drop_data(m);
    m->n = n;
    m->x = block;
    m->y = m->x + n * d;
    m->alpha = m->y + n;
    m->k = m->alpha + n;
    m->v = m->k + n;
    m->factor = m->v + n;
    m->slope = m->factor + n * n;
    memcpy(m->x, x, n * d * sizeof(double));
    memcpy(m->y, y, n * sizeof(double));
    return ERR_OK;
}

static double axis_square(const struct gp_model *m, size_t a, double p,
                          double q)
{
    if (m->categorical[a])
        return p == q ? 0 : 1;
    return (p - q) * (p - q);
}

static double weighted_square(const struct gp_model *m, const double w[],
                              const double *p, const double *q)
{
    double r2 = 0;

    for (size_t a = 0; a < m->axes; a++)
        r2 += w[a] * axis_square(m, a, p[a], q[a]);
    return r2;
}

/* Matern-5/2 of r^2 with variance 1; *@slope = dk / d(r^2). */
static double matern(double r2, double *slope)
{
    double root = sqrt(5 * r2);
    double e = exp(-root);

    *slope = -5.0 / 6 * (1 + root) * e;
    return (1 + root + 5.0 / 3 * r2) * e;
}

/* Fills factor with the kernel matrix and factorises it; 0 on success. */
static int factorise(struct gp_model *m, const struct gp_params *p, bool slopes)
{
    gsl_matrix_view K = gsl_matrix_view_array(m->factor, m->n, m->n);
    double w[GP_AXES_MAX], s = exp(p->log_s);
    size_t n = m->n;

    for (size_t a = 0; a < m->axes; a++)
        w[a] = exp(p->log_w[a]);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) {
            double r2 =
                weighted_square(m, w, m->x + i * m->axes, m->x + j * m->axes);
            double slope, k = s * matern(r2, &slope);

            m->factor[i * n + j] = m->factor[j * n + i] = k;
            if (slopes)
                m->slope[i * n + j] = s * slope;
        }
    for (size_t i = 0; i < n; i++)
        m->factor[i * n + i] += exp(p->log_noise) + GP_NOISE_MIN;
    return gsl_linalg_cholesky_decomp1(&K.matrix);
}

static void solve_alpha(struct gp_model *m)
{
    gsl_matrix_view L = gsl_matrix_view_array(m->factor, m->n, m->n);
    gsl_vector_view a = gsl_vector_view_array(m->alpha, m->n);

    memcpy(m->alpha, m->y, m->n * sizeof(double));
    gsl_linalg_cholesky_svx(&L.matrix, &a.vector);
}

static double log_prior(const struct gp_model *m, const struct gp_params *p,
                        double grad[])
{
    double sum = 0, s = exp(p->log_s), noise = exp(p->log_noise);

    for (size_t a = 0; a < m->axes; a++) {
        double w = exp(p->log_w[a]);

        sum -= 0.1 / w + 0.1 * w;
        if (grad)
            grad[a] = 0.1 / w - 0.1 * w;
    }
    sum += p->log_s - s;
    sum += 0.1 * p->log_noise - NOISE_TAIL * log1p(noise / NOISE_SCALE);
    if (grad) {
        grad[m->axes] = 1 - s;
        grad[m->axes + 1] = 0.1 - NOISE_TAIL * noise / (NOISE_SCALE + noise);
    }
    return sum;
}

/* grad += 1/2 tr((alpha alpha' - K^-1) dK/dtheta) (Rasmussen and Williams
 * 2006, eq. 5.9). The factor is replaced by the inverse. */
static void add_likelihood_gradient(struct gp_model *m,
                                    const struct gp_params *p, double grad[])
{
    gsl_matrix_view K = gsl_matrix_view_array(m->factor, m->n, m->n);
    double w[GP_AXES_MAX], sum[GP_AXES_MAX] = {0};
    double trace = 0, whole = 0, jitter = exp(p->log_noise) + GP_NOISE_MIN;
    size_t n = m->n;

    for (size_t a = 0; a < m->axes; a++)
        w[a] = exp(p->log_w[a]);
    gsl_linalg_cholesky_invert(&K.matrix);
    for (size_t i = 0; i < n; i++) {
        const double *xi = m->x + i * m->axes;

        for (size_t j = 0; j < i; j++) {
            double g = m->alpha[i] * m->alpha[j] - m->factor[i * n + j];
            const double *xj = m->x + j * m->axes;

            for (size_t a = 0; a < m->axes; a++)
                sum[a] += g * m->slope[i * n + j] * w[a] *
                          axis_square(m, a, xi[a], xj[a]);
        }
        trace += m->alpha[i] * m->alpha[i] - m->factor[i * n + i];
        whole += m->alpha[i] * m->y[i] - 1; /* tr((aa' - K^-1) K) */
    }
    for (size_t a = 0; a < m->axes; a++)
        grad[a] += sum[a]; /* twice the half: the matrix is symmetric */
    grad[m->axes] += 0.5 * (whole - jitter * trace);
    grad[m->axes + 1] += 0.5 * exp(p->log_noise) * trace;
}

double gp_model_posterior(struct gp_model *m, const struct gp_params *p,
                          double grad[])
{
    double value, half_log_det = 0, fit = 0;

    assert(m->n > 0);
    if (factorise(m, p, grad != NULL) != GSL_SUCCESS)
        return -INFINITY;
    solve_alpha(m);
    for (size_t i = 0; i < m->n; i++) {
        half_log_det += log(m->factor[i * m->n + i]);
        fit += m->alpha[i] * m->y[i];
    }
    value = -0.5 * fit - half_log_det + log_prior(m, p, grad);
    if (grad)
        add_likelihood_gradient(m, p, grad);
    return value;
}

static void to_vector(const struct gp_params *p, size_t axes, double v[])
{
    memcpy(v, p->log_w, axes * sizeof(double));
    v[axes] = p->log_s;
    v[axes + 1] = p->log_noise;
}

static void from_vector(const double v[], size_t axes, struct gp_params *p)
{
    memset(p, 0, sizeof(*p));
    memcpy(p->log_w, v, axes * sizeof(double));
    p->log_s = v[axes];
    p->log_noise = v[axes + 1];
}

static double negative_posterior(unsigned n, const double *v, double *grad,
                                 void *data)
{
    struct gp_model *m = data;
    struct gp_params p;
    double value;

    assert(n == m->axes + 2);
    from_vector(v, m->axes, &p);
    value = gp_model_posterior(m, &p, grad);
    if (!isfinite(value)) {
        /* A wall without slope ends the line search there. */
        if (grad)
            memset(grad, 0, n * sizeof(double));
        return 1e10;
    }
    if (grad)
        for (unsigned i = 0; i < n; i++)
            grad[i] = -grad[i];
    return -value;
}

static void set_bounds(nlopt_opt opt, size_t axes)
{
    double low[GP_AXES_MAX + 2], high[GP_AXES_MAX + 2];

    for (size_t a = 0; a < axes; a++) {
        low[a] = LOG_W_MIN;
        high[a] = LOG_W_MAX;
    }
    low[axes] = LOG_S_MIN;
    high[axes] = LOG_S_MAX;
    low[axes + 1] = log(GP_NOISE_MIN);
    high[axes + 1] = LOG_NOISE_MAX;
    nlopt_set_lower_bounds(opt, low);
    nlopt_set_upper_bounds(opt, high);
}

double gp_model_fit(struct gp_model *m, struct gp_params *start,
                    int evaluations)
{
    unsigned dims = (unsigned)m->axes + 2;
    double v[GP_AXES_MAX + 2], best = INFINITY;
    double before = gp_model_posterior(m, start, NULL);
    nlopt_opt opt = nlopt_create(NLOPT_LD_LBFGS, dims);

    assert(m->n > 0);
    assert(evaluations > 0);
    if (!opt)
        return before; /* no memory: the start is an answer, too */
    to_vector(start, m->axes, v);
    set_bounds(opt, m->axes);
    nlopt_set_min_objective(opt, negative_posterior, m);
    nlopt_set_maxeval(opt, evaluations);
    nlopt_set_ftol_abs(opt, 1e-3);
    nlopt_optimize(opt, v, &best); /* the best point stands in v, even where
                                    * the line search gave up */
    nlopt_destroy(opt);
    if (!(-best > before))
        return before;
    from_vector(v, m->axes, start);
    return -best;
}

enum err gp_model_condition(struct gp_model *m, const struct gp_params *p)
{
    assert(m->n > 0);
    if (factorise(m, p, false) != GSL_SUCCESS)
        return ERR_INVAL;
    solve_alpha(m);
    m->params = *p;
    return ERR_OK;
}

static void add_gradients(const struct gp_model *m, const double x[],
                          const double w[], double sd, double dmean[],
                          double dsd[])
{
    double s = exp(m->params.log_s);

    memset(dmean, 0, m->axes * sizeof(double));
    memset(dsd, 0, m->axes * sizeof(double));
    for (size_t i = 0; i < m->n; i++) {
        const double *xi = m->x + i * m->axes;
        double slope;

        matern(weighted_square(m, w, x, xi), &slope);
        for (size_t a = 0; a < m->axes; a++) {
            double dk;

            if (m->categorical[a])
                continue;
            dk = s * slope * 2 * w[a] * (x[a] - xi[a]);
            dmean[a] += m->alpha[i] * dk;
            dsd[a] -= m->v[i] * dk / sd; /* v = K^-1 k */
        }
    }
}

void gp_model_predict(struct gp_model *m, const double x[], double *mean,
                      double *sd, double dmean[], double dsd[])
{
    gsl_matrix_view L = gsl_matrix_view_array(m->factor, m->n, m->n);
    gsl_vector_view v = gsl_vector_view_array(m->v, m->n);
    double w[GP_AXES_MAX], s = exp(m->params.log_s), left = s, slope;

    for (size_t a = 0; a < m->axes; a++)
        w[a] = exp(m->params.log_w[a]);
    *mean = 0;
    for (size_t i = 0; i < m->n; i++) {
        double r2 = weighted_square(m, w, x, m->x + i * m->axes);

        m->k[i] = s * matern(r2, &slope);
        *mean += m->alpha[i] * m->k[i];
    }
    memcpy(m->v, m->k, m->n * sizeof(double));
    gsl_blas_dtrsv(CblasLower, CblasNoTrans, CblasNonUnit, &L.matrix,
                   &v.vector);
    for (size_t i = 0; i < m->n; i++)
        left -= m->v[i] * m->v[i];
    *sd = sqrt(fmax(left, 1e-12));
    if (!dmean)
        return;
    gsl_blas_dtrsv(CblasLower, CblasTrans, CblasNonUnit, &L.matrix, &v.vector);
    add_gradients(m, x, w, *sd, dmean, dsd);
}

enum err gp_model_predict_many(struct gp_model *m, size_t count,
                               const double *x, double mean[], double sd[])
{
    gsl_matrix_view L = gsl_matrix_view_array(m->factor, m->n, m->n);
    double w[GP_AXES_MAX], s = exp(m->params.log_s), slope;
    double *k = mem_alloc(m->n * count * sizeof(double)); /* [n][count] */
    gsl_matrix_view V;

    assert(m->n > 0);
    assert(count > 0);
    if (!k)
        return ERR_NOMEM;
    for (size_t a = 0; a < m->axes; a++)
        w[a] = exp(m->params.log_w[a]);
    for (size_t c = 0; c < count; c++) {
        mean[c] = 0;
        sd[c] = s;
    }
    for (size_t i = 0; i < m->n; i++)
        for (size_t c = 0; c < count; c++) {
            double r2 =
                weighted_square(m, w, x + c * m->axes, m->x + i * m->axes);

            k[i * count + c] = s * matern(r2, &slope);
            mean[c] += m->alpha[i] * k[i * count + c];
        }
    V = gsl_matrix_view_array(k, m->n, count);
    gsl_blas_dtrsm(CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, 1,
                   &L.matrix, &V.matrix);
    for (size_t i = 0; i < m->n; i++)
        for (size_t c = 0; c < count; c++)
            sd[c] -= k[i * count + c] * k[i * count + c];
    for (size_t c = 0; c < count; c++)
        sd[c] = sqrt(fmax(sd[c], 1e-12));
    mem_free(k);
    return ERR_OK;
}
