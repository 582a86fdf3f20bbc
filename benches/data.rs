//! How fast data are opened (first attempt, and a later one with `prepared.json`) and batches made.
//!
//! Sets that `scripts/fetch_data.sh` brings are measured where they are.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run may stop")]

use std::path::Path;
use std::sync::Arc;

use divan::Bencher;
use trainer::config::{Config, Source, parse};
use trainer::data::{AugmentKey, Dataset, Part, Prefetcher};
use trainer::plan::Timetable;
use trainer::run::{Epoch, SampleId, Seat, Step};

/// The example configs.
const CONFIGS: [&str; 4] = ["digits", "adult", "text", "fashion"];

fn main() {
    divan::main();
}

/// The example config of a name, unless its data were not fetched.
fn config(name: &str) -> Option<Config> {
    let path = format!("configs/{name}.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let source = Source { name: path, text };
    let config = parse(&source, &[], &|_| None).ok()?;
    let folder = match name {
        "text" => "data/shakespeare",
        "fashion" => "data/fashion-mnist",
        _ => "assets",
    };
    Path::new(folder).exists().then_some(config)
}

#[divan::bench(args = CONFIGS, max_time = 3)]
fn open_first(bencher: Bencher<'_, '_>, name: &str) {
    if let Some(config) = config(name) {
        bencher.bench_local(|| Dataset::open(&config.data, config.seed, None).unwrap());
    }
}

#[divan::bench(args = CONFIGS, max_time = 3)]
fn open_again(bencher: Bencher<'_, '_>, name: &str) {
    if let Some(config) = config(name) {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("prepared.json");
        Dataset::open(&config.data, config.seed, Some(&place)).unwrap();
        bencher.bench_local(|| Dataset::open(&config.data, config.seed, Some(&place)).unwrap());
    }
}

#[divan::bench(args = CONFIGS, max_time = 2)]
fn batch_of_128(bencher: Bencher<'_, '_>, name: &str) {
    if let Some(config) = config(name) {
        let dataset = Dataset::open(&config.data, config.seed, None).unwrap();
        let ids: Vec<SampleId> = (0..128).map(|n| SampleId::new(n * 7)).collect();
        let key = AugmentKey {
            seed: 1,
            epoch: Epoch::new(0),
        };
        bencher.bench_local(|| dataset.batch(Part::Train, &ids, Some(key)).unwrap());
    }
}

#[divan::bench(args = CONFIGS, max_time = 2)]
fn wait_for_a_prefetched_step(bencher: Bencher<'_, '_>, name: &str) {
    if let Some(config) = config(name) {
        let dataset = Arc::new(Dataset::open(&config.data, config.seed, None).unwrap());
        let timetable = Timetable::new(&config, dataset.samples(Part::Train));
        let mut prefetcher = Prefetcher::start(
            dataset,
            timetable,
            config.seed,
            Step::new(0),
            4,
            Seat::ALONE,
        );
        bencher.bench_local(|| prefetcher.next().unwrap());
    }
}
