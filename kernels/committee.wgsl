// What a classifier and its oracles say about images, and what they say together: of each judge the class of the
// largest logit (lowest class on ties); the class with most votes of the oracles (lowest class on ties), whether another
// has as many; agreement with the classifier, the target and the original label.
//
// judge   one workgroup of 256 per image, over (x, y). Judge 0 is the classifier, the others are the oracles. Per image: 4
//         bytes read and 3 comparisons for each logit, 8 steps of a tree for each judge; (4 + judges) words written;
//         3 counters per judge and 6 of the committee are added to.
//
// Logits are compared as integers that order like them, so no device's treatment of tiny numbers changes a class.
// Arguments: params, logits (those of judge j are [images, classes of j] from table[2j]), table (2 words per judge: first
// logit, classes), wanted [images, 2]: label and target; said [images, 4 + judges]: 1 if a logit is not finite plus 2
// if the votes are tied, class with most votes, its votes, votes for the target, class of each judge; totals: for each
// judge agreement with classifier, target, label; then of the committee plurality is target, is label, is the
// classifier's class; strict majority is target; all vote for the target; any does.

struct Params {
    logits_at: u32,
    judges: u32,
    images: u32,
    unused: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> logits: array<u32>;
@group(0) @binding(2) var<storage, read> table: array<u32>;
@group(0) @binding(3) var<storage, read> wanted: array<u32>;
@group(0) @binding(4) var<storage, read_write> said: array<u32>;
@group(0) @binding(5) var<storage, read_write> totals: array<atomic<u32>>;

const MOST_JUDGES: u32 = 64u;

var<workgroup> keys: array<u32, 256>;
var<workgroup> places: array<u32, 256>;
var<workgroup> classes: array<u32, MOST_JUDGES>;
var<workgroup> votes: array<u32, MOST_JUDGES>;
var<workgroup> wrong: atomic<u32>;

// Bits whose order as integers is that of the numbers; both zeros are one.
fn ordered(bits: u32) -> u32 {
    if (bits == 0x80000000u) {
        return 0x80000000u;
    }
    if ((bits & 0x80000000u) != 0u) {
        return ~bits;
    }
    return bits | 0x80000000u;
}

fn count(index: u32, holds: bool) {
    if (holds) {
        atomicAdd(&totals[index], 1u);
    }
}

@compute @workgroup_size(256)
fn judge(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let image = group.y * groups.x + group.x;
    if (image >= p.images) {
        return;
    }
    if (lane == 0u) {
        atomicStore(&wrong, 0u);
    }
    workgroupBarrier();
    for (var j = 0u; j < p.judges; j++) {
        let width = table[2u * j + 1u];
        let row = p.logits_at + table[2u * j] + image * width;
        var key = 0u;
        var place = 0u;
        for (var i = lane; i < width; i += 256u) {
            let bits = logits[row + i];
            if ((bits & 0x7f800000u) == 0x7f800000u) {
                atomicStore(&wrong, 1u);
            }
            // Numbers are above 0; a later one must be larger.
            let own = ordered(bits);
            if (own > key) {
                key = own;
                place = i;
            }
        }
        keys[lane] = key;
        places[lane] = place;
        workgroupBarrier();
        for (var half = 128u; half > 0u; half /= 2u) {
            if (lane < half) {
                let other = keys[lane + half];
                let at = places[lane + half];
                if (other > keys[lane] || (other == keys[lane] && at < places[lane])) {
                    keys[lane] = other;
                    places[lane] = at;
                }
            }
            workgroupBarrier();
        }
        if (lane == 0u) {
            classes[j] = places[0];
        }
        workgroupBarrier();
    }
    let label = wanted[2u * image];
    let target_class = wanted[2u * image + 1u];
    let out = image * (4u + p.judges);
    if (lane < p.judges) {
        let own = classes[lane];
        said[out + 4u + lane] = own;
        count(3u * lane, own == classes[0]);
        count(3u * lane + 1u, own == target_class);
        count(3u * lane + 2u, own == label);
        var same = 0u;
        for (var j = 1u; j < p.judges; j++) {
            if (classes[j] == own) {
                same++;
            }
        }
        votes[lane] = same;
    }
    workgroupBarrier();
    if (lane != 0u) {
        return;
    }
    var plurality = 0u;
    var most = 0u;
    var tied = false;
    var for_target = 0u;
    for (var j = 1u; j < p.judges; j++) {
        if (classes[j] == target_class) {
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
    said[out] = atomicLoad(&wrong) + select(0u, 2u, tied);
    said[out + 1u] = plurality;
    said[out + 2u] = most;
    said[out + 3u] = for_target;
    let oracles = p.judges - 1u;
    if (oracles > 0u) {
        let joint = 3u * p.judges;
        count(joint, plurality == target_class);
        count(joint + 1u, plurality == label);
        count(joint + 2u, plurality == classes[0]);
        count(joint + 3u, plurality == target_class && 2u * most > oracles);
        count(joint + 4u, for_target == oracles);
        count(joint + 5u, for_target > 0u);
    }
}
