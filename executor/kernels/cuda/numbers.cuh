// What the kernels need of numbers. No header of the toolkit: NVRTC's wheel alone compiles these files.

template <typename T> __device__ T least();  // -infinity
template <> __device__ inline float least<float>() { return __int_as_float(0xff800000); }
template <> __device__ inline double least<double>() { return __longlong_as_double(0xfff0000000000000LL); }

// The greater of two, and NaN if either is.
template <typename T> __device__ inline T greater(T a, T b) { return a != a ? a : (b != b || b > a) ? b : a; }

struct Half { unsigned short bits; };   // IEEE binary16
struct Brain { unsigned short bits; };  // bfloat16

template <typename To, typename From> struct Cast {
    static __device__ To of(From x) { return To(x); }
};
template <> struct Cast<Half, float> {
    static __device__ Half of(float x) { return Half{__float2half_bits(x)}; }
};
template <> struct Cast<float, Half> {
    static __device__ float of(Half x) { return __half_bits2float(x.bits); }
};
template <> struct Cast<Half, double> {
    static __device__ Half of(double x) { return Half{__double2half_bits(x)}; }
};
template <> struct Cast<double, Half> {
    static __device__ double of(Half x) { return double(__half_bits2float(x.bits)); }
};
template <> struct Cast<Brain, float> {
    static __device__ Brain of(float x) {
        const unsigned u = __float_as_uint(x);
        if (x != x) return Brain{(unsigned short)((u >> 16) | 0x40)};
        return Brain{(unsigned short)((u + 0x7fff + ((u >> 16) & 1)) >> 16)};  // to nearest, ties to even
    }
};
template <> struct Cast<float, Brain> {
    static __device__ float of(Brain x) { return __uint_as_float((unsigned)x.bits << 16); }
};
template <typename To, typename From> __device__ inline To cast(From x) { return Cast<To, From>::of(x); }
