// What a classifier and its oracles say about images, and what they say together: of each judge the class of the
// largest logit (lowest class on ties); the class with most votes of the oracles (lowest class on ties), whether another
// has as many; agreement with the classifier, the target and the original label.
//
// judge   one block of 256 per image, over (x, y). Judge 0 is the classifier, the others are the oracles. Per image: 4
//         bytes read and 3 comparisons for each logit, 8 steps of a tree for each judge; (4 + judges) words written;
//         3 counters per judge and 6 of the committee are added to.
//
// Logits are compared as integers that order like them, as on other devices.
// Arguments: params, logits (those of judge j are [images, classes of j] from table[2j]), table (2 words per judge: first
// logit, classes), wanted [images, 2]: label and target; said [images, 4 + judges]: 1 if a logit is not finite plus 2
// if the votes are tied, class with most votes, its votes, votes for the target, class of each judge; totals: for each
// judge agreement with classifier, target, label; then of the committee plurality is target, is label, is the
// classifier's class; strict majority is target; all vote for the target; any does.

typedef unsigned int u32;

struct Params {
    u32 logits_at;
    u32 judges;
    u32 images;
    u32 unused;
};

#define MOST_JUDGES 64u

// Bits whose order as integers is that of the numbers; both zeros are one.
__device__ inline u32 ordered(u32 bits) {
    if (bits == 0x80000000u) {
        return 0x80000000u;
    }
    return (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
}

__device__ inline void count(u32 *totals, u32 index, bool holds) {
    if (holds) {
        atomicAdd(&totals[index], 1u);
    }
}

extern "C" __global__ __launch_bounds__(256) void judge(Params p, const u32 *logits, const u32 *table, const u32 *wanted, u32 *said, u32 *totals) {
    __shared__ u32 keys[256];
    __shared__ u32 places[256];
    __shared__ u32 classes[MOST_JUDGES];
    __shared__ u32 votes[MOST_JUDGES];
    __shared__ u32 wrong;
    const u32 lane = threadIdx.x;
    const u32 image = blockIdx.y * gridDim.x + blockIdx.x;
    if (image >= p.images) {
        return;
    }
    if (lane == 0u) {
        wrong = 0u;
    }
    __syncthreads();
    for (u32 j = 0u; j < p.judges; j++) {
        const u32 width = table[2u * j + 1u];
        const u32 row = p.logits_at + table[2u * j] + image * width;
        u32 key = 0u;
        u32 place = 0u;
        for (u32 i = lane; i < width; i += 256u) {
            const u32 bits = logits[row + i];
            if ((bits & 0x7f800000u) == 0x7f800000u) {
                atomicExch(&wrong, 1u);
            }
            // Numbers are above 0; a later one must be larger.
            const u32 own = ordered(bits);
            if (own > key) {
                key = own;
                place = i;
            }
        }
        keys[lane] = key;
        places[lane] = place;
        __syncthreads();
        for (u32 half = 128u; half > 0u; half /= 2u) {
            if (lane < half) {
                const u32 other = keys[lane + half];
                const u32 at = places[lane + half];
                if (other > keys[lane] || (other == keys[lane] && at < places[lane])) {
                    keys[lane] = other;
                    places[lane] = at;
                }
            }
            __syncthreads();
        }
        if (lane == 0u) {
            classes[j] = places[0];
        }
        __syncthreads();
    }
    const u32 label = wanted[2u * image];
    const u32 target = wanted[2u * image + 1u];
    const u32 out = image * (4u + p.judges);
    if (lane < p.judges) {
        const u32 own = classes[lane];
        said[out + 4u + lane] = own;
        count(totals, 3u * lane, own == classes[0]);
        count(totals, 3u * lane + 1u, own == target);
        count(totals, 3u * lane + 2u, own == label);
        u32 same = 0u;
        for (u32 j = 1u; j < p.judges; j++) {
            if (classes[j] == own) {
                same++;
            }
        }
        votes[lane] = same;
    }
    __syncthreads();
    if (lane != 0u) {
        return;
    }
    u32 plurality = 0u;
    u32 most = 0u;
    bool tied = false;
    u32 for_target = 0u;
    for (u32 j = 1u; j < p.judges; j++) {
        if (classes[j] == target) {
            for_target++;
        }
        if (votes[j] > most) {
            most = votes[j];
            plurality = classes[j];
            tied = false;
        } else if (votes[j] == most && classes[j] != plurality) {
            tied = true;
            plurality = min(plurality, classes[j]);
        }
    }
    said[out] = wrong + (tied ? 2u : 0u);
    said[out + 1u] = plurality;
    said[out + 2u] = most;
    said[out + 3u] = for_target;
    const u32 oracles = p.judges - 1u;
    if (oracles > 0u) {
        const u32 joint = 3u * p.judges;
        count(totals, joint, plurality == target);
        count(totals, joint + 1u, plurality == label);
        count(totals, joint + 2u, plurality == classes[0]);
        count(totals, joint + 3u, plurality == target && 2u * most > oracles);
        count(totals, joint + 4u, for_target == oracles);
        count(totals, joint + 5u, for_target > 0u);
    }
}
