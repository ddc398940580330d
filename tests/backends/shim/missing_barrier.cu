// Each thread writes a value and reads that of its neighbour: `races` without the barrier that `waits` has. `leaves`
// has threads that end while others wait.

typedef unsigned int u32;

struct Params {
    u32 count;
};

extern "C" __global__ void waits(Params p, float *y) {
    __shared__ float values[256];
    values[threadIdx.x] = (float)(threadIdx.x + blockIdx.x);
    __syncthreads();
    y[blockIdx.x * 256u + threadIdx.x] = values[(threadIdx.x + 1u) % 256u] + (float)p.count;
    __syncthreads();
}

extern "C" __global__ void races(Params p, float *y) {
    __shared__ float values[256];
    values[threadIdx.x] = (float)(threadIdx.x + blockIdx.x);
    y[blockIdx.x * 256u + threadIdx.x] = values[(threadIdx.x + 1u) % 256u] + (float)p.count;
}

extern "C" __global__ void leaves(Params p, float *y) {
    if (threadIdx.x >= p.count) {
        return;
    }
    __syncthreads();
    y[threadIdx.x] = 1.0f;
}

// The sum over the 32 threads of a warp, in each of them; then of the first thread of the next one.
extern "C" __global__ void warps(Params p, float *y) {
    float sum = (float)(threadIdx.x + p.count);
    for (u32 bits = 16u; bits > 0u; bits /= 2u) {
        sum += __shfl_xor_sync(0xffffffffu, sum, bits);
    }
    __shared__ float all;
    if (threadIdx.x == 0u) {
        all = 0.0f;
    }
    __syncthreads();
    if (threadIdx.x % 32u == 0u) {
        atomicAdd(&all, sum);
    }
    __syncthreads();
    y[blockIdx.x * 256u + threadIdx.x] = threadIdx.x % 2u == 0u ? sum : all;
}

// Half of a warp waits for the other half.
extern "C" __global__ void splits(Params p, float *y) {
    if (threadIdx.x % 32u < 16u) {
        y[threadIdx.x] = __shfl_down_sync(0xffffffffu, (float)p.count, 1u);
    } else {
        __syncthreads();
    }
}
