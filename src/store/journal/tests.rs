//! Tests of the journal.

use super::*;
use crate::store::sample;
use proptest::prelude::*;
use std::fs;

const ONE: Attempt = Attempt::new(1);

fn entries(dir: &RunDir) -> Vec<Entry> {
    read(dir).unwrap().map(Result::unwrap).collect()
}

#[test]
fn what_is_flushed_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let dir = RunDir::new(folder.path());
    let mut journal = Journal::create(&dir).unwrap();
    let first = journal.append(sample::created("a-00000000"), ONE).unwrap();
    assert!(
        entries(&dir).is_empty(),
        "nothing is written before a flush"
    );
    assert!(journal.flush().is_empty());
    assert_eq!(entries(&dir), [first]);
    journal.append(sample::step(1, 0.0), ONE).unwrap();
    journal.sync().unwrap();
    assert_eq!(entries(&dir).len(), 2);
    assert_eq!(journal.bytes(), fs::metadata(dir.journal()).unwrap().len());
    assert!(
        Journal::create(&dir).is_err(),
        "a journal is never overwritten"
    );
}

#[test]
fn urgent_entries_reach_the_disk_at_once_and_steps_within_a_second() {
    let mut core = Core::new(Disk::default(), PathBuf::new(), 0, 0);
    let start = Instant::now();
    core.append(sample::step(1, 0.0), ONE);
    core.flush(start);
    core.sync_if_due(start);
    assert_eq!(core.sink.syncs, 0);
    core.sync_if_due(start + SYNC_INTERVAL + Duration::from_millis(50));
    assert_eq!(core.sink.syncs, 1);
    core.append(sample::evaluated(1, 0.5), ONE);
    let now = Instant::now();
    core.flush(now);
    core.sync_if_due(now);
    core.sync_if_due(now);
    assert_eq!(core.sink.syncs, 2);
}

/// A disk that takes only `room` bytes and counts.
#[derive(Debug, Default)]
struct Disk {
    content: Vec<u8>,
    full_at: Option<usize>,
    broken: bool,
    syncs: usize,
    writes: usize,
}

impl Sink for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writes += 1;
        if self.broken {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        let room = self
            .full_at
            .map_or(bytes.len(), |at| at.saturating_sub(self.content.len()));
        let count = room.min(bytes.len());
        if count == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.content.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.syncs += 1;
        if self.broken {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        Ok(())
    }
}

#[test]
fn a_full_disk_raises_one_alarm_and_loses_nothing() {
    let disk = Disk {
        full_at: Some(500),
        ..Disk::default()
    };
    let mut core = Core::new(disk, PathBuf::from("events.jsonl"), 0, 0);
    let mut now = Instant::now();
    let (mut alarms, mut expected) = (Vec::new(), Vec::new());
    for at in 1..=50 {
        expected.push(core.append(sample::step(at, 0.0), ONE).unwrap());
        alarms.extend(core.flush(now));
        now += Duration::from_millis(100);
    }
    assert_eq!(alarms.len(), 1, "{alarms:?}");
    assert!(alarms[0].contains("cannot be written"), "{alarms:?}");
    assert!(core.sink.writes < 15, "a full disk is asked once a second");
    core.sink.full_at = None;
    let note = core.flush(now + RETRY_INTERVAL);
    assert_eq!(note, ["the journal can be written again"]);
    let read: Vec<Entry> = core
        .sink
        .content
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(read, expected, "no gap, no half line, no doubled line");
}

#[test]
fn a_disk_that_stays_full_costs_bounded_memory_and_no_state_change() {
    let disk = Disk {
        full_at: Some(0),
        ..Disk::default()
    };
    let mut core = Core::new(disk, PathBuf::new(), 0, 0);
    let now = Instant::now();
    // Longer than what may wait, without writing it 32 MiB over.
    core.waiting = vec![b'\n'; WAITING_BYTES_MAX + 1];
    core.flush(now);
    assert!(core.append(sample::step(1, 0.0), ONE).is_none());
    let kept = core.append(sample::evaluated(1, 0.5), ONE).unwrap();
    assert_eq!(kept.seq, 0, "what is left out takes no number");
    core.sink.full_at = None;
    let notes = core.flush(now + RETRY_INTERVAL);
    assert!(notes[0].contains("1 steps were left out"), "{notes:?}");
}

#[test]
fn a_disk_that_does_not_sync_raises_one_alarm() {
    let mut core = Core::new(Disk::default(), PathBuf::new(), 0, 0);
    let now = Instant::now();
    core.append(sample::evaluated(1, 0.5), ONE);
    core.flush(now);
    core.sink.broken = true;
    assert_eq!(core.sync_if_due(now).len(), 1);
    assert!(core.sync_if_due(now).is_empty());
    assert!(core.sync_if_due(now + SYNC_INTERVAL * 2).is_empty());
    assert_eq!(core.sink.syncs, 2, "asked again after a second, not before");
    core.sink.broken = false;
    core.sync_if_due(now + SYNC_INTERVAL * 4);
    assert!(!core.unsynced);
}

#[test]
fn damage_in_the_middle_is_passed_over_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let dir = sample::finished_in(folder.path(), "a-00000001", 5);
    let text = fs::read_to_string(dir.journal()).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines[5] = "{\"seq\":5,\"ti";
    let damaged = lines.join("\n") + "\n";
    fs::write(dir.journal(), &damaged).unwrap();
    let mut reader = read(&dir).unwrap();
    assert_eq!(reader.by_ref().count(), lines.len() - 1);
    assert_eq!(reader.damaged_lines(), 1);
    let mut reopened = Journal::open(&dir).unwrap();
    assert!(
        reopened.notes[0].contains("1 lines in the middle"),
        "{:?}",
        reopened.notes
    );
    let next = reopened.journal.append(sample::step(6, 0.0), ONE).unwrap();
    assert_eq!(next.seq, lines.len() as u64);
    reopened.journal.flush();
    assert!(
        fs::read_to_string(dir.journal())
            .unwrap()
            .starts_with(&damaged)
    );
}

#[test]
fn a_newer_or_nameless_journal_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let dir = sample::finished_in(folder.path(), "a-00000001", 1);
    let text = fs::read_to_string(dir.journal()).unwrap();
    fs::write(
        dir.journal(),
        text.replacen("\"format\":1", "\"format\":2", 1),
    )
    .unwrap();
    assert!(matches!(
        Journal::open(&dir),
        Err(StoreError::Newer { found: 2, .. })
    ));
    let headless: Vec<&str> = text.lines().skip(1).collect();
    fs::write(dir.journal(), headless.join("\n")).unwrap();
    assert!(matches!(
        Journal::open(&dir),
        Err(StoreError::Damaged { .. })
    ));
}

#[test]
fn an_endless_line_is_skipped_in_bounded_memory() {
    let folder = tempfile::tempdir().unwrap();
    let dir = sample::finished_in(folder.path(), "a-00000001", 2);
    let good = entries(&dir);
    let mut file = OpenOptions::new().append(true).open(dir.journal()).unwrap();
    file.write_all(&vec![0; 20 << 20]).unwrap();
    let mut reader = read(&dir).unwrap();
    assert_eq!(
        reader.by_ref().map(Result::unwrap).collect::<Vec<_>>(),
        good
    );
    let mut reopened = Journal::open(&dir).unwrap();
    assert_eq!(reopened.notes.len(), 1);
    let next = reopened.journal.append(sample::step(3, 0.0), ONE).unwrap();
    reopened.journal.flush();
    assert_eq!(entries(&dir).last(), Some(&next));
}

/// Cuts a journal at `cut`, adds `garbage`, opens it, appends, and checks all there is to check.
fn check_cut(text: &[u8], cut: usize, garbage: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let dir = RunDir::new(folder.path());
    let kept = &text[..cut];
    fs::write(dir.journal(), [kept, garbage].concat()).unwrap();
    // An entry is whole as soon as its closing brace is there, and garbled when garbage follows.
    let mut expected: Vec<Entry> = Vec::new();
    let mut clean = garbage.is_empty();
    for line in kept.split_inclusive(|&byte| byte == b'\n') {
        match serde_json::from_slice(line) {
            Ok(entry) if line.last() == Some(&b'\n') || garbage.is_empty() => expected.push(entry),
            _ => clean = false,
        }
    }
    if expected.is_empty() {
        assert!(Journal::open(&dir).is_err());
        return;
    }
    let mut reopened = Journal::open(&dir).unwrap();
    assert_eq!(
        reopened.notes.is_empty(),
        clean,
        "cut at {cut}: {:?}",
        reopened.notes
    );
    let next = reopened.journal.append(sample::step(99, 0.0), ONE).unwrap();
    reopened.journal.flush();
    assert_eq!(next.seq, expected.len() as u64);
    expected.push(next);
    assert_eq!(entries(&dir), expected, "cut at {cut}");
    assert_eq!(
        reopened.journal.bytes(),
        fs::metadata(dir.journal()).unwrap().len()
    );
    assert!(
        Journal::open(&dir).unwrap().notes.is_empty(),
        "repaired once"
    );
}

#[test]
fn a_journal_cut_anywhere_is_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let dir = sample::finished_in(folder.path(), "a-00000001", 3);
    let text = fs::read(dir.journal()).unwrap();
    for cut in 0..=text.len() {
        check_cut(&text, cut, b"");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_garbage_tail_is_removed(
        at in 0.0..1.0f64,
        garbage in proptest::collection::vec(prop_oneof![Just(0u8), Just(b'\n'), Just(b'{'), 128u8..], 1..200),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let dir = sample::finished_in(folder.path(), "a-00000001", 3);
        let text = fs::read(dir.journal()).unwrap();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a place in a small file")]
        let cut = (at * text.len() as f64) as usize;
        // A line end right behind an entry would make it whole again.
        prop_assume!(garbage[0] != b'\n');
        check_cut(&text, cut, &garbage);
    }
}
