//! Ranks as processes, which are killed or stopped in the middle of sums.

use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use rustix::process::{Pid, Signal, kill_process};

use super::*;

/// Tells a child what it is: transport, rank, place.
const ROLE: &str = "COLLECTIVE_TEST_ROLE";

const WORLD: u32 = 3;
const LEN: usize = 20_000;
const SHARDS: u32 = 7;
/// How long a sum waits once all have joined, which may take longer.
const TIMEOUT: Duration = Duration::from_millis(700);

static TOKEN: LazyLock<Token> = LazyLock::new(|| Token::of("the group's"));

/// The rank that comes to harm.
const VICTIM: Rank = Rank::new(2);

fn membership(rank: u32, peers: &[SocketAddr]) -> Membership<'_> {
    Membership {
        rank: Rank::new(rank),
        world: WorldSize::new(WORLD),
        peers,
        token: &TOKEN,
        vector_len: LEN,
        nodes_max: 3,
        timeout: LONG,
        join_timeout: LONG,
    }
}

/// Sums until something goes wrong; every result is looked at.
fn sum_until_failure(rank: &mut dyn Collective, mut after: impl FnMut(u64)) -> CollectiveError {
    let known: Vec<Vec<u32>> = (0..4).map(|seed| expected(seed, SHARDS, LEN)).collect();
    for round in 0.. {
        let seed = round % 4;
        match sum_bits(rank, seed, SHARDS, LEN) {
            Ok(bits) => assert!(
                bits == known[usize::try_from(seed).unwrap()],
                "round {round}"
            ),
            Err(error) => return error,
        }
        after(round);
    }
    unreachable!("rounds do not end");
}

/// Not a test: the other ranks of those below.
#[test]
#[ignore = "started by other tests"]
fn child() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let [transport, rank, place] =
        <[&str; 3]>::try_from(role.split(' ').collect::<Vec<_>>()).unwrap();
    let rank: u32 = rank.parse().unwrap();
    let mut group: Box<dyn Collective> = if transport == "shm" {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(place)
            .unwrap();
        let mut group = Shm::join(&file, Rank::new(rank), LONG).unwrap();
        group.barrier().unwrap();
        group.set_timeout(TIMEOUT);
        Box::new(group)
    } else {
        let peers: Vec<SocketAddr> = place.split(',').map(|peer| peer.parse().unwrap()).collect();
        let listener = Listener::bind(peers[rank as usize]).unwrap();
        let mut group = Tcp::join(&membership(rank, &peers), listener).unwrap();
        group.set_timeout(TIMEOUT);
        Box::new(group)
    };
    let error = sum_until_failure(group.as_mut(), |_| ());
    assert!(names_victim(&error), "{error}");
    // Until our parent has seen the same.
    thread::sleep(TIMEOUT);
}

fn names_victim(error: &CollectiveError) -> bool {
    match error {
        CollectiveError::TimedOut { missing, .. } => missing == &[VICTIM],
        CollectiveError::Closed { rank, .. } => *rank == VICTIM,
        _ => false,
    }
}

fn start(transport: &str, rank: u32, place: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture"])
        .arg(
            concat!(module_path!(), "::child")
                .split_once("::")
                .unwrap()
                .1,
        )
        .env(ROLE, format!("{transport} {rank} {place}"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// A group of which this process is rank 0.
fn group(transport: &str) -> (Box<dyn Collective>, Vec<Child>) {
    if transport == "shm" {
        let fd = Segment::create(WorldSize::new(WORLD), LEN, 3).unwrap();
        let place = format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd());
        let mut group = Shm::join(&fd, Rank::new(0), LONG).unwrap();
        let children = (1..WORLD)
            .map(|rank| start(transport, rank, &place))
            .collect();
        group.barrier().unwrap();
        group.set_timeout(TIMEOUT);
        return (Box::new(group), children);
    }
    let any: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
    let listeners: Vec<_> = (0..WORLD).map(|_| Listener::bind(any).unwrap()).collect();
    let peers: Vec<_> = listeners.iter().map(|l| l.local_addr().unwrap()).collect();
    let place: Vec<String> = peers.iter().map(ToString::to_string).collect();
    let mut listeners = listeners.into_iter();
    let ours = listeners.next().unwrap();
    drop(listeners);
    let children = (1..WORLD)
        .map(|rank| start(transport, rank, &place.join(",")))
        .collect();
    let mut group = Tcp::join(&membership(0, &peers), ours).unwrap();
    group.set_timeout(TIMEOUT);
    (Box::new(group), children)
}

fn harm(transport: &str, signal: Signal, at: u64) {
    let (mut group, mut children) = group(transport);
    let victim = Pid::from_child(&children[1]);
    let error = sum_until_failure(group.as_mut(), |round| {
        if round == at {
            kill_process(victim, signal).unwrap();
        }
    });
    assert!(names_victim(&error), "{transport}, {signal:?}: {error}");
    if transport == "shm" || signal == Signal::STOP {
        assert!(matches!(error, CollectiveError::TimedOut { .. }), "{error}");
    }
    assert!(
        children[0].wait().unwrap().success(),
        "{transport}, {signal:?}"
    );
    kill_process(victim, Signal::KILL).unwrap();
    children[1].wait().unwrap();
}

#[test]
fn a_killed_rank_spoils_nothing_in_shared_memory() {
    for at in [0, 3, 17, 40] {
        harm("shm", Signal::KILL, at);
    }
}

#[test]
fn a_stopped_rank_is_named_in_shared_memory() {
    harm("shm", Signal::STOP, 9);
}

#[test]
fn a_killed_rank_is_noticed_over_tcp() {
    for at in [0, 13] {
        harm("tcp", Signal::KILL, at);
    }
}

#[test]
fn a_stopped_rank_is_named_over_tcp() {
    harm("tcp", Signal::STOP, 9);
}
