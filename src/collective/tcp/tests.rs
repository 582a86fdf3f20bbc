//! TCP: who may join, and what is noticed of those who may not.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::LazyLock;
use std::thread;
use std::time::Instant;

use super::handshake::{GREETING_BYTES, Side, greeting, prove};
use super::message::head;
use super::*;
use crate::config::SumOrder;

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(300);
static ANOTHER: LazyLock<Token> = LazyLock::new(|| Token::of("another"));
static TOKEN: LazyLock<Token> = LazyLock::new(|| Token::of("the group's"));

/// Listeners of a group of two and where they are.
fn pair() -> ([Listener; 2], [SocketAddr; 2]) {
    let any = (Ipv4Addr::LOCALHOST, 0).into();
    let listeners = [Listener::bind(any).unwrap(), Listener::bind(any).unwrap()];
    let peers = [0, 1].map(|rank: usize| listeners[rank].local_addr().unwrap());
    (listeners, peers)
}

fn member(rank: u32, peers: &[SocketAddr]) -> Membership<'_> {
    Membership {
        rank: Rank::new(rank),
        world: WorldSize::new(2),
        peers,
        token: &TOKEN,
        vector_len: 100,
        nodes_max: 2,
        timeout: LONG,
        join_timeout: LONG,
    }
}

/// Both ranks join, each with its own idea of the group.
fn join_both(
    timeout: Duration,
    change: impl Fn(&mut Membership<'_>) + Sync,
) -> [Result<Tcp, CollectiveError>; 2] {
    let ([first, second], peers) = pair();
    thread::scope(|scope| {
        let first = scope.spawn(|| {
            let membership = Membership {
                timeout,
                join_timeout: timeout,
                ..member(0, &peers)
            };
            Tcp::join(&membership, first)
        });
        let mut other = Membership {
            timeout,
            join_timeout: timeout,
            ..member(1, &peers)
        };
        change(&mut other);
        let second = Tcp::join(&other, second);
        [first.join().unwrap(), second]
    })
}

/// Rank 0 as it should be, and the connection of a rank 1 that can send anything.
fn with_puppet(timeout: Duration) -> (Tcp, TcpStream) {
    let ([first, second], peers) = pair();
    thread::scope(|scope| {
        let rank = scope.spawn(|| Tcp::join(&member(0, &peers), first).unwrap());
        let links = join::all(&member(1, &peers), second.0).unwrap();
        let stream = links.into_iter().next().unwrap().stream;
        stream.set_nonblocking(false).unwrap();
        let mut rank = rank.join().unwrap();
        rank.set_timeout(timeout);
        (rank, stream)
    })
}

#[test]
fn another_token_is_a_stranger() {
    let start = Instant::now();
    let results = join_both(SHORT, |other| other.token = &ANOTHER);
    assert!(start.elapsed() >= SHORT);
    for (result, missing) in results.into_iter().zip([1, 0]) {
        match result {
            Err(CollectiveError::TimedOut {
                kind: Kind::Join,
                missing: found,
                ..
            }) => {
                assert_eq!(found, [Rank::new(missing)]);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn members_with_other_sizes_are_told_so() {
    let results = join_both(LONG, |other| other.vector_len = 101);
    for (result, text) in results.into_iter().zip([
        "rank 1 is refused: its longest vector is 101, ours 100",
        "rank 0 is refused: its longest vector is 100, ours 101",
    ]) {
        assert_eq!(result.unwrap_err().to_string(), text);
    }
    for result in join_both(LONG, |other| other.nodes_max = 3) {
        assert!(matches!(result, Err(CollectiveError::Handshake { .. })));
    }
}

#[test]
fn impossible_memberships_are_refused() {
    let ([first, second], peers) = pair();
    let outside = Membership {
        rank: Rank::new(2),
        ..member(0, &peers)
    };
    assert!(Tcp::join(&outside, first).is_err());
    let alone = member(0, &peers[..1]);
    assert!(Tcp::join(&alone, second).is_err());
}

#[test]
fn strangers_do_not_disturb_joining() {
    let ([first, second], peers) = pair();
    let door = peers[0];
    let rank = thread::spawn(move || Tcp::join(&member(0, &peers), first).unwrap());
    let connect = || TcpStream::connect(door).unwrap();
    // Some say nothing, one speaks of something else, one stops in the middle, one repeats a greeting.
    let silent: Vec<_> = (0..80).map(|_| connect()).collect();
    let mut lost = connect();
    lost.write_all(
        b"GET / HTTP/1.1\r\nHost: elsewhere\r\n\r\n and so on, longer than a greeting is",
    )
    .unwrap();
    let mine = greeting(&member(1, &peers), Rank::new(0)).unwrap();
    connect().write_all(&mine[..40]).unwrap();
    let mut thief = connect();
    thief.write_all(&mine).unwrap();
    let mut answer = [0; GREETING_BYTES + 32];
    thief.read_exact(&mut answer).unwrap();
    // Without the token, the best it can do is to send the other side's proof back.
    thief.write_all(&answer[GREETING_BYTES..]).unwrap();
    assert_eq!(thief.read(&mut answer).unwrap_or(0), 0);
    let mut forger = connect();
    forger.write_all(&mine).unwrap();
    forger.read_exact(&mut answer).unwrap();
    let theirs = answer[..GREETING_BYTES].try_into().unwrap();
    forger
        .write_all(&prove(&ANOTHER, Side::Connected, &mine, &theirs))
        .unwrap();
    assert_eq!(forger.read(&mut answer).unwrap_or(0), 0);
    let mut other = Tcp::join(&member(1, &peers), second).unwrap();
    let mut rank = rank.join().unwrap();
    drop(silent);
    thread::scope(|scope| {
        scope.spawn(|| rank.barrier().unwrap());
        other.barrier().unwrap();
    });
}

#[test]
fn a_stranger_at_the_address_of_a_rank_is_passed_over() {
    let ([first, second], peers) = pair();
    let (other, taken) = (second, first);
    // At first something else answers there.
    let stranger = thread::spawn(move || {
        for stream in taken.0.incoming().take(2) {
            stream.unwrap().write_all(&[0x55; 200]).unwrap();
        }
        taken
    });
    let joined = thread::spawn(move || Tcp::join(&member(1, &peers), other).unwrap());
    let door = stranger.join().unwrap();
    Tcp::join(&member(0, &peers), door).unwrap();
    joined.join().unwrap();
}

#[test]
fn garbage_in_place_of_a_call_is_a_mismatch() {
    let (mut rank, mut puppet) = with_puppet(LONG);
    puppet.write_all(&[0xee; 4096]).unwrap();
    assert!(matches!(
        rank.gather(b"x"),
        Err(CollectiveError::Mismatch { .. })
    ));
    let (mut rank, mut puppet) = with_puppet(LONG);
    puppet.write_all(&[0xee; 4096]).unwrap();
    let reduction = Reduction::new(2, WorldSize::new(2), SumOrder::Canonical);
    assert!(matches!(
        rank.sum(&reduction, 50),
        Err(CollectiveError::Mismatch { .. })
    ));
}

#[test]
fn lengths_over_the_limit_are_refused() {
    let gather = Call::new(1, Kind::Gather);
    let (mut rank, mut puppet) = with_puppet(LONG);
    puppet
        .write_all(&head(&gather, GATHER_BYTES_MAX + 1))
        .unwrap();
    assert!(matches!(
        rank.gather(b"x"),
        Err(CollectiveError::TooLong { .. })
    ));
    let barrier = Call::new(1, Kind::Barrier);
    let (mut rank, mut puppet) = with_puppet(LONG);
    puppet.write_all(&head(&barrier, 1)).unwrap();
    assert!(matches!(
        rank.barrier(),
        Err(CollectiveError::TooLong { .. })
    ));
}

#[test]
fn a_message_that_stops_halfway_times_out() {
    let (mut rank, mut puppet) = with_puppet(SHORT);
    puppet
        .write_all(&head(&Call::new(1, Kind::Gather), 1000))
        .unwrap();
    puppet.write_all(&[1; 999]).unwrap();
    match rank.gather(b"x") {
        Err(CollectiveError::TimedOut {
            number: 1,
            kind: Kind::Gather,
            missing,
        }) => {
            assert_eq!(missing, [Rank::new(1)]);
        }
        other => panic!("{other:?}"),
    }
    let (mut rank, mut puppet) = with_puppet(LONG);
    puppet
        .write_all(&head(&Call::new(1, Kind::Gather), 1000))
        .unwrap();
    drop(puppet);
    assert!(matches!(
        rank.gather(b"x"),
        Err(CollectiveError::Closed { .. })
    ));
}

#[test]
fn a_sum_that_stops_halfway_times_out() {
    let (mut rank, mut puppet) = with_puppet(SHORT);
    let call = Call {
        size: 100,
        shards: 2,
        ..Call::new(1, Kind::Sum)
    };
    puppet.write_all(&head(&call, 0)).unwrap();
    puppet.write_all(&[0; 10]).unwrap();
    let reduction = Reduction::new(2, WorldSize::new(2), SumOrder::Canonical);
    match rank.sum(&reduction, 100) {
        Err(CollectiveError::TimedOut { missing, .. }) => assert_eq!(missing, [Rank::new(1)]),
        other => panic!("{other:?}"),
    }
}
