//! The same weights whatever runs how.

use super::run::{Bench, Recorder};
use crate::checkpoint::Snapshot;
use crate::config::{Config, Length};

fn end(threads: usize, change: impl FnOnce(&mut Config) + Send) -> (Vec<u64>, Snapshot) {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .unwrap();
    pool.install(|| {
        let bench = Bench::new(change);
        let mut recorder = Recorder::default();
        bench.train("a", None, &mut recorder).unwrap();
        (recorder.losses(), bench.newest("a"))
    })
}

#[track_caller]
fn assert_same(a: &(Vec<u64>, Snapshot), b: &(Vec<u64>, Snapshot)) {
    assert_eq!(a.0, b.0);
    assert!(a.1.model == b.1.model, "weights differ");
    assert!(a.1.optimizer == b.1.optimizer, "optimizer state differs");
}

#[test]
fn threads_and_prefetching_change_nothing() {
    let first = end(1, |config| config.train.prefetch = 0);
    assert_same(&first, &end(1, |config| config.train.prefetch = 0));
    assert_same(&first, &end(2, |config| config.train.prefetch = 4));
    assert_same(&first, &end(4, |config| config.train.prefetch = 1));
}

#[test]
fn seed_and_shards_do_change_it() {
    let first = end(1, |_| ());
    assert_ne!(first.0, end(1, |config| config.seed = 8).0);
    // Batch statistics are per shard: another number of shards is another run.
    assert_ne!(first.0, end(1, |config| config.train.shards = 2).0);
}

/// Without batch statistics and dropout, shards are only another order of the same sums.
#[test]
fn shards_give_the_same_mean() {
    let losses = |shards| {
        let (losses, _) = end(1, |config| {
            use crate::config::{LayerConfig as L, Model};
            if let Model::Layers(model) = &mut config.model {
                model
                    .layers
                    .retain(|l| !matches!(l, L::BatchNorm | L::Dropout { .. }));
            }
            config.train.shards = shards;
            config.train.length = Length::Steps(6);
        });
        losses.into_iter().map(f64::from_bits).collect::<Vec<_>>()
    };
    let one = losses(1);
    for shards in [2, 3, 5, 14] {
        for (found, wanted) in losses(shards).iter().zip(&one) {
            assert!(
                (found - wanted).abs() < 1e-4 * wanted,
                "{shards}: {found} {wanted}"
            );
        }
    }
}
