//! The process that tests start: this test binary again, told by a variable what to do.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{Bench, Held, Pool, Request, Want, devices};

const JOB: &str = "SLOTS_TEST_JOB";

/// What a child does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) folder: PathBuf,
    pub(super) name: String,
    pub(super) priority: i32,
    pub(super) want: Want,
    /// How long it keeps its slots, in milliseconds.
    pub(super) hold_ms: u64,
    /// Start a `sleep` while holding.
    pub(super) with_sleep: bool,
    /// Instead of all that: take random slots until so many milliseconds are over.
    pub(super) hammer_ms: Option<u64>,
    pub(super) seed: u64,
}

/// One line of the log that all children write.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Taken {
    pub(super) name: String,
    pub(super) priority: i32,
    pub(super) want: Want,
    pub(super) devices: Vec<String>,
    /// Number of the ticket, and of the taking.
    pub(super) numbers: [u64; 2],
    pub(super) waited_ms: u128,
    pub(super) sleep_pid: Option<u32>,
}

impl Bench {
    pub(super) fn job(&self, name: &str, priority: i32, want: Want, hold_ms: u64) -> Job {
        Job {
            folder: self.folder.path().to_path_buf(),
            name: name.to_string(),
            priority,
            want,
            hold_ms,
            with_sleep: false,
            hammer_ms: None,
            seed: 1,
        }
    }

    /// What was taken so far. A line whose writer was killed in the middle does not count.
    pub(super) fn log(&self) -> Vec<Taken> {
        std::fs::read_to_string(self.folder.path().join("log"))
            .unwrap_or_default()
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }
}

/// A child that does not outlive its test.
pub(super) struct Started(Child);

impl Started {
    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(super) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    pub(super) fn is_done(&mut self) -> bool {
        match self.0.try_wait().unwrap() {
            Some(status) => {
                assert!(status.success(), "a child failed: {status}");
                true
            }
            None => false,
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Job {
    pub(super) fn start(&self) -> Started {
        let (_, module) = module_path!().split_once("::").unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                &format!("{module}::works_as_told"),
                "--nocapture",
            ])
            .env(JOB, serde_json::to_string(self).unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Started(child)
    }
}

/// Not a test of its own: what children run.
#[test]
fn works_as_told() {
    let Ok(job) = std::env::var(JOB) else {
        return;
    };
    let job: Job = serde_json::from_str(&job).unwrap();
    let pool = Pool::open(job.folder.join("slots")).unwrap();
    if let Some(ms) = job.hammer_ms {
        hammer(&job, &pool, Duration::from_millis(ms));
        return;
    }
    let request = request_of(&job);
    let start = Instant::now();
    let held = pool.acquire(&devices(4), &request, &mut |_| true);
    let held = held.unwrap().unwrap();
    let sleep = job
        .with_sleep
        .then(|| Command::new("sleep").arg("60").spawn().unwrap());
    let sleep_pid = sleep.as_ref().map(Child::id);
    write_log(&job, &request, &held, start, sleep_pid);
    thread::sleep(Duration::from_millis(job.hold_ms));
    if let Some(mut sleep) = sleep {
        sleep.wait().unwrap();
    }
}

fn request_of(job: &Job) -> Request {
    Request {
        name: job.name.clone(),
        priority: job.priority,
        want: job.want.clone(),
    }
}

fn write_log(job: &Job, request: &Request, held: &Held, start: Instant, sleep_pid: Option<u32>) {
    let taken = Taken {
        name: request.name.clone(),
        priority: request.priority,
        want: request.want.clone(),
        devices: held.devices().to_vec(),
        numbers: held.numbers(),
        waited_ms: start.elapsed().as_millis(),
        sleep_pid,
    };
    let mut line = serde_json::to_string(&taken).unwrap();
    line.push('\n');
    let mut log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(job.folder.join("log"))
        .unwrap();
    log.write_all(line.as_bytes()).unwrap();
}

/// Random numbers: xorshift.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

fn hammer(job: &Job, pool: &Pool, duration: Duration) {
    let mut dice = Dice(job.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let until = Instant::now() + duration;
    while Instant::now() < until {
        let mut request = request_of(job);
        request.priority = i32::try_from(dice.roll(3)).unwrap();
        request.want = match dice.roll(8) {
            0 => Want::All,
            1 | 2 => Want::These(vec![format!("g{}", dice.roll(4))]),
            3 => Want::These(vec!["g1".to_string(), "g2".to_string()]),
            _ => Want::Count(u32::try_from(dice.roll(4) + 1).unwrap()),
        };
        let patience = match dice.roll(4) {
            0 => Duration::from_millis(dice.roll(200)),
            _ => Duration::MAX,
        };
        let start = Instant::now();
        let held = pool.acquire(&devices(4), &request, &mut |_| start.elapsed() < patience);
        if let Some(held) = held.unwrap() {
            let witnesses: Vec<File> = held
                .devices()
                .iter()
                .map(|id| witness(&job.folder, id))
                .collect();
            write_log(job, &request, &held, start, None);
            thread::sleep(Duration::from_millis(dice.roll(15)));
            drop(witnesses);
            drop(held);
        }
    }
}

/// Locks a second file for a device, which nobody may have locked when we hold the device. Only one
/// that was just killed may need a moment: the order in which the kernel closes its files is unknown.
fn witness(folder: &Path, id: &str) -> File {
    let file = File::create(folder.join(format!("witness-{id}"))).unwrap();
    let start = Instant::now();
    let patience = if folder.join("killing").exists() {
        Duration::from_secs(2)
    } else {
        Duration::ZERO
    };
    loop {
        match file.try_lock() {
            Ok(()) => return file,
            Err(TryLockError::WouldBlock) if start.elapsed() < patience => thread::yield_now(),
            Err(error) => {
                File::create(folder.join("violation")).unwrap();
                panic!("{id} is held by two: {error}");
            }
        }
    }
}
