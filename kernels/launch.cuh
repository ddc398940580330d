// Which value a thread has, in kernels with one thread per value: 256 per block, blocks over (x, y).

#pragma once

typedef unsigned int u32;

__device__ inline u32 value_index() {
    return (blockIdx.y * gridDim.x + blockIdx.x) * 256u + threadIdx.x;
}
