//! The decision who may take what, against a model and by properties.

use std::collections::{BTreeMap, HashSet};

use proptest::prelude::*;

use super::super::decide::{Claim, Verdict, decide};
use super::super::{Device, SlotError, Want};
use super::{devices, these};

fn claim(want: &Want, count: u32) -> Claim {
    Claim::new(want, &devices(count)).unwrap()
}

fn take(ids: &[&str]) -> Verdict {
    Verdict::Take(ids.iter().map(ToString::to_string).collect())
}

fn after_others(ids: &[&str]) -> Verdict {
    Verdict::AfterOthers(ids.iter().map(ToString::to_string).collect())
}

#[test]
fn devices_of_one_group_are_preferred() {
    let free = HashSet::from(["g1", "g2", "g3", "g4", "g5"]);
    let chosen = |count| decide(&claim(&Want::Count(count), 6), &[], &free);
    assert_eq!(chosen(1), take(&["g1"]));
    assert_eq!(chosen(2), take(&["g2", "g3"]));
    assert_eq!(chosen(3), take(&["g1", "g2", "g3"]));
    assert_eq!(chosen(4), take(&["g2", "g3", "g4", "g5"]));
    assert_eq!(chosen(5), take(&["g1", "g2", "g3", "g4", "g5"]));
    assert_eq!(chosen(6), Verdict::Wait);
}

#[test]
fn a_smaller_run_does_not_overtake() {
    let (four, one) = (claim(&Want::Count(4), 4), claim(&Want::Count(1), 4));
    let free = HashSet::from(["g0", "g1", "g2"]);
    assert_eq!(decide(&four, &[], &free), Verdict::Wait);
    assert_eq!(decide(&one, &[&four], &free), Verdict::Wait);
    assert_eq!(decide(&one, &[&claim(&Want::All, 4)], &free), Verdict::Wait);
}

#[test]
fn whoever_waits_for_a_named_device_holds_up_nobody_else() {
    let named = claim(&these(&["g0", "g1"]), 4);
    let free = HashSet::from(["g1", "g2", "g3"]);
    let verdict = |count| decide(&claim(&Want::Count(count), 4), &[&named], &free);
    assert_eq!(verdict(2), take(&["g2", "g3"]));
    assert_eq!(verdict(3), Verdict::Wait);
    let touching = claim(&these(&["g1"]), 4);
    assert_eq!(decide(&touching, &[&named], &free), Verdict::Wait);
}

#[test]
fn whoever_is_served_goes_first_even_if_there_is_enough_for_both() {
    let two = claim(&Want::Count(2), 4);
    let free = HashSet::from(["g0", "g1", "g2", "g3"]);
    assert_eq!(decide(&two, &[&two], &free), after_others(&["g2", "g3"]));
    assert_eq!(decide(&two, &[&two, &two], &free), Verdict::Wait);
    assert!(two.must_follow(&two));
    let named = claim(&these(&["g3"]), 4);
    assert!(!two.must_follow(&named) && two.touches(&named));
}

#[test]
fn wants_that_can_never_be_met_are_refused() {
    let new = |want: &Want| Claim::new(want, &devices(2));
    assert!(matches!(
        new(&Want::Count(3)),
        Err(SlotError::TooMany {
            wanted: 3,
            there: 2
        })
    ));
    let unknown = new(&these(&["g1", "g2"])).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "there is no device `g2`; there are: g0, g1"
    );
    assert_eq!(new(&these(&["g1", "g1"])).unwrap().count(), 1);
    assert_eq!(new(&Want::All).unwrap().count(), 2);
}

/// All ways to pick `count` of so many.
fn subsets(size: usize, count: usize) -> impl Iterator<Item = Vec<usize>> {
    (0_u32..1 << size)
        .filter(move |bits| bits.count_ones() as usize == count)
        .map(move |bits| (0..size).filter(|index| bits >> index & 1 == 1).collect())
}

/// What happens to the queue of the model.
#[derive(Clone, Debug)]
enum Happening {
    Arrives(i32, Want),
    /// The holder or waiter at this place (modulo their number) goes.
    Finishes(usize),
    GivesUp(usize),
    /// The waiter at this place looks.
    Looks(usize),
}

fn wants() -> impl Strategy<Value = Want> {
    prop_oneof![
        4 => (1_u32..=4).prop_map(Want::Count),
        2 => proptest::sample::subsequence(vec!["g0", "g1", "g2", "g3"], 1..=3)
            .prop_map(|ids| these(&ids)),
        1 => Just(Want::All),
    ]
}

fn happenings() -> impl Strategy<Value = Happening> {
    prop_oneof![
        3 => (-1..=1, wants()).prop_map(|(priority, want)| Happening::Arrives(priority, want)),
        2 => any::<usize>().prop_map(Happening::Finishes),
        1 => any::<usize>().prop_map(Happening::GivesUp),
        6 => any::<usize>().prop_map(Happening::Looks),
    ]
}

/// The pool without processes: who waits, in order, and what is held.
#[derive(Default)]
struct Model {
    arrivals: u64,
    queue: BTreeMap<(i32, u64), Claim>,
    held: Vec<Vec<String>>,
}

impl Model {
    fn free<'a>(&self, all: &'a [Device]) -> HashSet<&'a str> {
        all.iter()
            .map(|device| device.id.as_str())
            .filter(|id| !self.held.iter().flatten().any(|held| held == id))
            .collect()
    }

    /// The waiter at a place looks; true when it took something.
    fn look(&mut self, place: usize, all: &[Device]) -> bool {
        let free = self.free(all);
        let ahead: Vec<&Claim> = self.queue.values().take(place).collect();
        let (key, mine) = self.queue.iter().nth(place).unwrap();
        let verdict = decide(mine, &ahead, &free);
        let blocked = ahead.iter().any(|claim| mine.must_follow(claim));
        match verdict {
            Verdict::Take(taken) => {
                assert_eq!(taken.len(), mine.count());
                assert!(taken.iter().all(|id| free.contains(id.as_str())));
                assert!(!blocked, "one that must follow went first");
                for claim in ahead {
                    let could_use = |id: &String| claim.devices().iter().any(|one| one.id == *id);
                    assert!(
                        !taken.iter().any(could_use),
                        "{taken:?} taken from {claim:?}"
                    );
                }
                let key = *key;
                self.queue.remove(&key);
                self.held.push(taken);
                true
            }
            Verdict::AfterOthers(taken) => {
                // If it went now, nobody before it who can be served would lose that.
                let left: HashSet<&str> = free
                    .iter()
                    .copied()
                    .filter(|id| !taken.iter().any(|one| one == id))
                    .collect();
                for (index, claim) in ahead.iter().enumerate() {
                    if matches!(decide(claim, &ahead[..index], &free), Verdict::Take(_)) {
                        let then = decide(claim, &ahead[..index], &left);
                        assert!(matches!(then, Verdict::Take(_)));
                    }
                }
                false
            }
            Verdict::Wait => {
                let alone = ahead.iter().all(|claim| !claim.touches(mine));
                assert!(!alone || mine.choose(&free).is_none(), "idle for nothing");
                false
            }
        }
    }

    fn apply(&mut self, happening: Happening, all: &[Device]) {
        match happening {
            Happening::Arrives(priority, want) => {
                self.arrivals += 1;
                let claim = Claim::new(&want, all).unwrap();
                self.queue.insert((-priority, self.arrivals), claim);
            }
            Happening::Finishes(which) if !self.held.is_empty() => {
                self.held.remove(which % self.held.len());
            }
            Happening::GivesUp(which) if !self.queue.is_empty() => {
                let key = *self.queue.keys().nth(which % self.queue.len()).unwrap();
                self.queue.remove(&key);
            }
            Happening::Looks(which) if !self.queue.is_empty() => {
                self.look(which % self.queue.len(), all);
            }
            _ => {}
        }
    }
}

proptest! {
    #[test]
    fn the_choice_is_the_best_there_is(
        groups in proptest::collection::vec(0_u32..4, 1..8),
        taken in any::<u8>(),
        count in 1_u32..8,
    ) {
        let all: Vec<Device> = (0..).zip(&groups)
            .map(|(index, group)| Device { id: format!("g{index}"), group: *group })
            .collect();
        let is_free = |index: usize| taken >> index & 1 == 0;
        let free: HashSet<&str> = all.iter().enumerate()
            .filter(|(index, _)| is_free(*index))
            .map(|(_, device)| device.id.as_str())
            .collect();
        prop_assume!(count as usize <= all.len());
        let best = subsets(all.len(), count as usize)
            .filter(|picked| picked.iter().all(|index| is_free(*index)))
            .min_by_key(|picked| {
                let used: HashSet<u32> = picked.iter().map(|index| all[*index].group).collect();
                (used.len(), picked.clone())
            })
            .map(|picked| picked.iter().map(|index| all[*index].id.clone()).collect::<Vec<_>>());
        prop_assert_eq!(Claim::new(&Want::Count(count), &all).unwrap().choose(&free), best);
    }

    #[test]
    fn nobody_is_overtaken_and_everybody_is_served(
        story in proptest::collection::vec(happenings(), 0..60),
    ) {
        let all = devices(4);
        let mut model = Model::default();
        for happening in story {
            model.apply(happening, &all);
        }
        // From here on nobody new comes: everybody is served in the end.
        while !model.queue.is_empty() {
            model.held.clear();
            prop_assert!(model.look(0, &all), "the first of the queue gets nothing from a free pool");
            while (0..model.queue.len()).any(|place| model.look(place, &all)) {}
        }
    }
}
