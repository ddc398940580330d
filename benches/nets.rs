//! Every network at its usual size, one image, and its share of the device's roofline.

#[path = "seeded/devices.rs"]
mod devices;
#[path = "seeded/peak.rs"]
mod peak;
#[path = "seeded/roofline.rs"]
mod roofline;
mod seeded;
#[path = "seeded/weights.rs"]
mod weights;
#[allow(dead_code)]
#[path = "seeded/work.rs"]
mod work;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use foil::tensor::Backend;

use devices::Measured;
use work::Work;

fn networks<B: Backend + 'static>(c: &mut Criterion, device: &Measured, b: &B) {
    for work in Work::networks() {
        let (group, name) = work.id();
        let mut group = c.benchmark_group(group);
        group.throughput(Throughput::Elements(1));
        let id = BenchmarkId::new(name, device);
        roofline::bench(
            &mut group,
            id,
            (device, b),
            || work.on(b),
            |peak| work.least(peak),
        );
        group.finish();
    }
}

fn each_device(c: &mut Criterion) {
    devices::on_each_device!(c, networks);
}

criterion_group! {
    name = nets;
    config = seeded::settings();
    targets = each_device
}
criterion_main!(nets);
