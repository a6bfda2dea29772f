// A block of GPU threads played on one host thread: each is a fiber, and runs until it meets the others at a barrier.
//
// A warp meets at shuffles, a block at __syncthreads. Fibers run in the order of RINGLOOM_ORDER (0: as numbered,
// 1: backwards, 2: odd ones first), so that what needs a barrier it does not have comes out differently in one of them.
// Threads that wait for each other for ever end the process with a line and status 70.

#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <ucontext.h>
#include <utility>
#include <vector>

#define __device__
#define __global__ static
#define __shared__ static
using std::exp;
using std::fabs;
using std::log;
using std::tanh;

struct Three { unsigned x, y, z; };
static Three gridDim, blockDim, blockIdx, threadIdx;

enum State { RUNNING, AT_WARP, AT_BLOCK, DONE };
struct Fiber {
    jmp_buf place;
    std::vector<char> stack;
    State state;
};
static std::vector<Fiber> fibers;
static jmp_buf scheduler;
static ucontext_t starting;
static unsigned current;
static void (*body)();
static char slots[1024][8];

// Between fibers a jump, as swapcontext asks the kernel for the signal mask each time; that only begins them.
static void pause(State why) {
    fibers[current].state = why;
    if (_setjmp(fibers[current].place) == 0) _longjmp(scheduler, 1);
}
static void resume() {
    if (_setjmp(scheduler) == 0) _longjmp(fibers[current].place, 1);
}
static void enter() {
    const unsigned mine = current;
    if (_setjmp(fibers[mine].place) == 0) setcontext(&starting);
    for (;;) {
        body();
        pause(DONE);
    }
}
static void begin(unsigned number) {
    Fiber& f = fibers[number];
    f.stack.resize(32768);
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = f.stack.data();
    context.uc_stack.ss_size = f.stack.size();
    context.uc_link = nullptr;
    makecontext(&context, enter, 0);
    current = number;
    swapcontext(&starting, &context);
}
static inline void __syncthreads() { pause(AT_BLOCK); }
template <typename T> static T __shfl_xor_sync(unsigned, T value, int mask) {
    std::memcpy(slots[threadIdx.x], &value, sizeof value);
    pause(AT_WARP);
    T other;
    std::memcpy(&other, slots[threadIdx.x ^ mask], sizeof other);
    pause(AT_WARP);
    return other;
}

template <typename To, typename From> static To same_bits(From x) {
    To y;
    std::memcpy(&y, &x, sizeof y);
    return y;
}
static inline float __int_as_float(int x) { return same_bits<float>(x); }
static inline float __uint_as_float(unsigned x) { return same_bits<float>(x); }
static inline unsigned __float_as_uint(float x) { return same_bits<unsigned>(x); }
static inline double __longlong_as_double(long long x) { return same_bits<double>(x); }
static inline unsigned short __float2half_bits(float x) { return same_bits<unsigned short>(_Float16(x)); }
static inline unsigned short __double2half_bits(double x) { return same_bits<unsigned short>(_Float16(x)); }
static inline float __half_bits2float(unsigned short x) { return float(same_bits<_Float16>(x)); }

static bool all_of(unsigned from, unsigned to, State state) {
    bool any = false;
    for (unsigned i = from; i < to; ++i) {
        if (fibers[i].state == DONE) continue;
        if (fibers[i].state != state) return false;
        any = true;
    }
    return any;
}
static void release(unsigned from, unsigned to) {
    for (unsigned i = from; i < to; ++i)
        if (fibers[i].state != DONE) fibers[i].state = RUNNING;
}

static void run_block(unsigned threads, int order) {
    while (fibers.size() < threads) {
        if (fibers.empty()) fibers.reserve(1024);  // a fiber's place must stay
        fibers.emplace_back();
        begin(unsigned(fibers.size() - 1));
    }
    for (unsigned i = 0; i < threads; ++i) fibers[i].state = RUNNING;
    for (;;) {
        bool ran = false;
        for (unsigned n = 0; n < threads; ++n) {
            const unsigned half = (threads + 1) / 2, odd = n < threads - half ? 2 * n + 1 : 2 * (n - (threads - half));
            current = order == 0 ? n : order == 1 ? threads - 1 - n : odd;
            while (fibers[current].state == RUNNING) {
                threadIdx = Three{current, 0, 0};
                resume();
                ran = true;
            }
        }
        for (unsigned w = 0; w < threads; w += 32)
            if (all_of(w, w + 32 < threads ? w + 32 : threads, AT_WARP)) release(w, w + 32 < threads ? w + 32 : threads), ran = true;
        if (all_of(0, threads, AT_BLOCK)) release(0, threads), ran = true;
        if (!ran) break;
    }
    for (unsigned i = 0; i < threads; ++i)
        if (fibers[i].state != DONE) {
            std::fprintf(stderr, "thread %u waits for ever at a barrier\n", i);
            std::_Exit(70);
        }
}

template <typename... A> struct Bound {
    static void (*kernel)(A...);
    static std::tuple<A...> arguments;
    static void run() { std::apply(kernel, arguments); }
};
template <typename... A> void (*Bound<A...>::kernel)(A...);
template <typename... A> std::tuple<A...> Bound<A...>::arguments;

template <typename... A, size_t... I>
static void launch(void (*kernel)(A...), std::index_sequence<I...>, unsigned x, unsigned y, unsigned threads, void** given) {
    Bound<A...>::kernel = kernel;
    Bound<A...>::arguments = std::tuple<A...>(*static_cast<A*>(given[I])...);
    body = Bound<A...>::run;
    const char* said = std::getenv("RINGLOOM_ORDER");
    const int order = said ? std::atoi(said) : 0;
    gridDim = Three{x, y, 1};
    blockDim = Three{threads, 1, 1};
    for (unsigned j = 0; j < y; ++j)
        for (unsigned i = 0; i < x; ++i) {
            blockIdx = Three{i, j, 0};
            run_block(threads, order);
        }
}
template <typename... A>
static void launch(void (*kernel)(A...), unsigned x, unsigned y, unsigned threads, void** given) {
    launch(kernel, std::index_sequence_for<A...>(), x, y, threads, given);
}
