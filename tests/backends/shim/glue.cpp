// One file of kernels, and a launch of each of them: `-DSOURCE="file.cu" -DENTRIES="EXPORT(a) EXPORT(b)"`.

#include "cuda_on_cpu.h"

#include SOURCE

ENTRIES
