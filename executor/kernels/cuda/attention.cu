// Attention between two GEMMs: what happens to one tile of scores, a block of threads a row.
//
// A tile is scores (heads, rows, width), contiguous; a row is one query head of one token, `group` of them a token.
// gridDim is (rows, heads). What belongs to rows (top, total, lse, ...) has `between` entries from one head to the next.
// Sums go in a fixed tree, so that two runs give the same bits.

typedef long long i64;

// Reduce over the block by `join`; every thread gets the result. `shared` holds 33 numbers, and may be used again at once.
template <typename T, typename Join> __device__ T over_block(T mine, T neutral, Join join, T* shared) {
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5, warps = blockDim.x >> 5;
    for (int step = 16; step; step >>= 1) mine = join(mine, __shfl_xor_sync(0xffffffffu, mine, step));
    if (lane == 0) shared[warp] = mine;
    __syncthreads();
    if (warp == 0) {
        mine = lane < warps ? shared[lane] : neutral;
        for (int step = 16; step; step >>= 1) mine = join(mine, __shfl_xor_sync(0xffffffffu, mine, step));
        if (lane == 0) shared[32] = mine;
    }
    __syncthreads();
    const T result = shared[32];
    __syncthreads();
    return result;
}

template <typename T> struct Greater {
    __device__ T operator()(T a, T b) const { return greater(a, b); }
};
template <typename T> struct Plus {
    __device__ T operator()(T a, T b) const { return a + b; }
};

// A scaled product as a logit: capped, then biased by distance. slope is 0 where heads bias nothing.
template <typename T> __device__ inline T logit(T x, T softcap, T slope, i64 at, i64 col) {
    if (softcap > 0) x = softcap * tanh(x / softcap);
    return slope == 0 ? x : x - slope * T(at < col ? col - at : at - col);
}

// Scores s become weights exp(s - top), hidden ones 0, and the running softmax of each row goes on:
//     top' = max(top, max s), total' = total exp(top - top') + sum of weights, out' = out exp(top - top')
// Weights of a half type W are the sum of `pieces` numbers, one tile after the other: three carry a float's digits.
template <typename T, typename W> __global__ void softmax_tile(
    T* scores, W* weights, int pieces, int width, const i64* first, const i64* last, const i64* at, const i64* cols,
    int mixed, const T* slopes, T softcap, int group, T* top, T* total, T* out, i64 between, int dim) {
    __shared__ T shared[33];
    const int row = blockIdx.x, head = blockIdx.y, token = row / group, t = threadIdx.x;
    const i64 start = ((i64)head * gridDim.x + row) * width, tile = (i64)gridDim.y * gridDim.x * width;
    const i64 state = head * between + row, low = first[token], high = last[token], here = at[token];
    const T slope = slopes ? slopes[head * group + row % group] : T(0);
    T* s = scores + start;
    const bool changed = mixed || softcap > 0 || slope != 0;
    T mine = least<T>();
    for (int j = t; j < width; j += blockDim.x) {
        T x = logit(s[j], softcap, slope, here, cols[j]);
        if (mixed && (cols[j] < low || cols[j] > high)) x = least<T>();
        if (changed) s[j] = x;  // read again by this thread alone
        mine = greater(mine, x);
    }
    const T old = top[state], now = greater(old, over_block(mine, least<T>(), Greater<T>(), shared));
    const T shift = now == least<T>() ? T(0) : now;  // a row that saw nothing yet: exp(-inf - 0) = 0
    T sum = 0;
    for (int j = t; j < width; j += blockDim.x) {
        T rest = exp(s[j] - shift);
        sum += rest;
        for (int piece = 0; piece < pieces; ++piece) {
            const W w = cast<W>(rest);
            weights[piece * tile + start + j] = w;
            rest -= cast<T>(w);
        }
    }
    sum = over_block(sum, T(0), Plus<T>(), shared);
    const T factor = exp(old - shift);
    if (t == 0) {
        total[state] = total[state] * factor + sum;
        top[state] = now;
    }
    if (factor != 1)
        for (int d = t; d < dim; d += blockDim.x) out[state * dim + d] *= factor;
}

// Scores s become P = exp(s - lse), hidden ones 0, and weights w = dO V^T become dS = P (w - delta) ds / d(scaled product).
template <typename T> __global__ void gradient_tile(
    T* scores, T* weights, int width, const i64* first, const i64* last, const i64* at, const i64* cols, int mixed,
    const T* slopes, T softcap, int group, const T* lse, const T* delta, i64 between) {
    const int row = blockIdx.x, head = blockIdx.y, token = row / group;
    const i64 start = ((i64)head * gridDim.x + row) * width, state = head * between + row;
    const i64 low = first[token], high = last[token], here = at[token];
    const T slope = slopes ? slopes[head * group + row % group] : T(0), whole = lse[state], own = delta[state];
    for (int j = threadIdx.x; j < width; j += blockDim.x) {
        const T raw = scores[start + j];
        const bool hidden = whole == least<T>() || (mixed && (cols[j] < low || cols[j] > high));
        const T p = hidden ? T(0) : exp(logit(raw, softcap, slope, here, cols[j]) - whole);
        T ds = hidden ? T(0) : p * (weights[start + j] - own);
        if (softcap > 0) {
            const T far = exp(-2 * fabs(raw / softcap));
            ds *= 4 * far / ((1 + far) * (1 + far));  // 1 - tanh^2, which would cancel where the cap is near
        }
        scores[start + j] = p;
        weights[start + j] = ds;
    }
}

// Running sums become out (tokens, heads * group, dim) and lse (tokens, heads * group); nothing seen gives (0, -inf).
template <typename T> __global__ void finish_rows(
    const T* sums, const T* top, const T* total, T* out, T* lse, int group, int dim) {
    const i64 row = blockIdx.x, head = blockIdx.y, state = head * gridDim.x + row;
    const i64 place = (row / group * gridDim.y + head) * group + row % group;
    const T whole = total[state], seen = whole == 0 ? T(1) : whole;
    for (int d = threadIdx.x; d < dim; d += blockDim.x) out[place * dim + d] = sums[state * dim + d] / seen;
    if (threadIdx.x == 0) lse[place] = whole == 0 ? least<T>() : top[state] + log(seen);
}
