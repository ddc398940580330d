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
