//! Who may take which devices: pure functions, without files or clocks.

use std::collections::{HashMap, HashSet};

use super::{Device, SlotError, Want};

/// A want made definite: so many out of these devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    count: usize,
    devices: Vec<Device>,
}

/// What a waiter may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Take these devices.
    Take(Vec<String>),
    /// There is enough for it and for those before it, who have not taken theirs yet. With what is
    /// theirs set aside, these would be left.
    AfterOthers(Vec<String>),
    /// There is not enough.
    Wait,
}

impl Claim {
    /// What `want` means among `devices`, whose order is the order of preference.
    pub(super) fn new(want: &Want, devices: &[Device]) -> Result<Self, SlotError> {
        let mut names = HashSet::new();
        let mut devices: Vec<Device> = devices
            .iter()
            .filter(|device| names.insert(device.id.as_str()))
            .cloned()
            .collect();
        let count = match want {
            Want::All => devices.len(),
            Want::Count(count) => usize::try_from(*count).unwrap_or(usize::MAX),
            Want::These(ids) => {
                if let Some(id) = ids.iter().find(|id| !names.contains(id.as_str())) {
                    let known: Vec<_> = devices.iter().map(|device| device.id.as_str()).collect();
                    return Err(SlotError::Unknown {
                        id: id.clone(),
                        known: known.join(", "),
                    });
                }
                devices.retain(|device| ids.contains(&device.id));
                devices.len()
            }
        };
        if count > devices.len() {
            return Err(SlotError::TooMany {
                wanted: count,
                there: devices.len(),
            });
        }
        Ok(Self { count, devices })
    }

    /// How many devices it takes.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Devices it may be given.
    pub(super) fn devices(&self) -> &[Device] {
        &self.devices
    }

    fn ids(&self) -> impl Iterator<Item = &str> {
        self.devices.iter().map(|device| device.id.as_str())
    }

    /// Whether some device could be given to either.
    pub(super) fn touches(&self, other: &Claim) -> bool {
        self.ids().any(|id| other.ids().any(|theirs| theirs == id))
    }

    /// Whether this claim has to wait as long as `ahead` waits, whatever becomes free.
    pub(super) fn must_follow(&self, ahead: &Claim) -> bool {
        let apart = self
            .ids()
            .filter(|id| ahead.ids().all(|theirs| theirs != *id));
        apart.count() < self.count
    }

    /// The best devices among the free ones: from the fewest groups, then the first in order.
    pub(super) fn choose(&self, free: &HashSet<&str>) -> Option<Vec<String>> {
        let free: Vec<&Device> = self
            .devices
            .iter()
            .filter(|device| free.contains(device.id.as_str()))
            .collect();
        if free.len() < self.count {
            return None;
        }
        let groups = (0..=self.count).find(|groups| self.completes(&[], &free, *groups))?;
        let mut chosen = Vec::new();
        for (index, device) in free.iter().enumerate() {
            if chosen.len() == self.count {
                break;
            }
            chosen.push(*device);
            if !self.completes(&chosen, &free[index + 1..], groups) {
                chosen.pop();
            }
        }
        Some(chosen.iter().map(|device| device.id.clone()).collect())
    }

    /// Whether `chosen` and enough of `rest` can come from so many groups.
    fn completes(&self, chosen: &[&Device], rest: &[&Device], groups: usize) -> bool {
        let inside: HashSet<u32> = chosen.iter().map(|device| device.group).collect();
        let Some(more) = groups.checked_sub(inside.len()) else {
            return false;
        };
        let mut reachable = chosen.len();
        let mut others: HashMap<u32, usize> = HashMap::new();
        for device in rest {
            if inside.contains(&device.group) {
                reachable += 1;
            } else {
                *others.entry(device.group).or_default() += 1;
            }
        }
        let mut others: Vec<usize> = others.into_values().collect();
        others.sort_unstable_by(|a, b| b.cmp(a));
        reachable + others.iter().take(more).sum::<usize>() >= self.count
    }
}

/// What the owner of `mine` may do while those of `ahead` wait before it, first one first, and the
/// devices of `free` are held by nobody.
pub(super) fn decide(mine: &Claim, ahead: &[&Claim], free: &HashSet<&str>) -> Verdict {
    let mut untouched = free.clone();
    for id in ahead.iter().flat_map(|claim| claim.ids()) {
        untouched.remove(id);
    }
    if let Some(chosen) = mine.choose(&untouched) {
        return Verdict::Take(chosen);
    }
    let mut left = free.clone();
    for claim in ahead {
        match claim.choose(&left) {
            Some(theirs) => left.retain(|id| !theirs.iter().any(|taken| taken == id)),
            // It waits for more to become free, and whatever does may be the one it lacks.
            None => left.retain(|id| claim.ids().all(|theirs| theirs != *id)),
        }
    }
    match mine.choose(&left) {
        Some(chosen) => Verdict::AfterOthers(chosen),
        None => Verdict::Wait,
    }
}
