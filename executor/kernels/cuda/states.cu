// Glue on partial states (out, lse), a block of threads a row, in float64 whatever the type S in which states are kept.
// Each does what the meaning of the op of its name says: algorithms/ops/merge.py, weigh.py, normalise.py.

typedef long long i64;

__device__ inline double ground(double top) { return top == least<double>() ? 0.0 : top; }

template <typename S> __global__ void merge(
    const S* out_a, const S* lse_a, const S* out_b, const S* lse_b, S* out, S* lse, int dim) {
    const i64 row = blockIdx.x;
    const double a = cast<double>(lse_a[row]), b = cast<double>(lse_b[row]), top = ground(greater(a, b));
    const double in_a = exp(a - top), in_b = exp(b - top), total = in_a + in_b, seen = total == 0 ? 1.0 : total;
    for (int d = threadIdx.x; d < dim; d += blockDim.x) {
        const double x = cast<double>(out_a[row * dim + d]), y = cast<double>(out_b[row * dim + d]);
        out[row * dim + d] = cast<S>(in_a / seen * x + in_b / seen * y);
    }
    if (threadIdx.x == 0) lse[row] = cast<S>(total == 0 ? least<double>() : top + log(seen));
}

template <typename S> __global__ void weigh(const S* out, const S* lse, const S* top, S* numerator, S* denominator, int dim) {
    const i64 row = blockIdx.x;
    const double weight = exp(cast<double>(lse[row]) - ground(cast<double>(top[row])));
    for (int d = threadIdx.x; d < dim; d += blockDim.x)
        numerator[row * dim + d] = cast<S>(cast<double>(out[row * dim + d]) * weight);
    if (threadIdx.x == 0) denominator[row] = cast<S>(weight);
}

template <typename S> __global__ void normalise(
    const S* numerator, const S* denominator, const S* top, S* out, S* lse, int dim) {
    const i64 row = blockIdx.x;
    const double total = cast<double>(denominator[row]), seen = total == 0 ? 1.0 : total;
    for (int d = threadIdx.x; d < dim; d += blockDim.x)
        out[row * dim + d] = cast<S>(cast<double>(numerator[row * dim + d]) / seen);
    if (threadIdx.x == 0) lse[row] = cast<S>(total == 0 ? least<double>() : ground(cast<double>(top[row])) + log(seen));
}
