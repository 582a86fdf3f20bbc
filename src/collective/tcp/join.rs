//! How ranks find each other: each connects to all lower ones, then waits for all higher ones.
//!
//! That order cannot lock: rank 0 only waits, and each rank waits only for lower ones before it is ready
//! for higher ones; until then the system keeps their connections.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Membership;
use super::handshake::{
    GREETING_BYTES, Greeting, Side, WELCOME, check, greeting, holds, prove, sender,
};
use super::link::Link;
use crate::collective::{CollectiveError, Kind, WORLD_SIZE_MAX};
use crate::run::{PROOF_BYTES, Rank};

/// How long one connection may take to prove itself.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// Pause before a rank that does not answer is tried again.
const PAUSE: Duration = Duration::from_millis(20);

/// Connections that have yet to prove themselves; of more, the oldest are dropped.
const CANDIDATES_MAX: usize = 64;

/// Longest sleep between two looks at the clock.
const SLICE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

/// Connections to all other ranks, by rank.
pub(super) fn all(
    membership: &Membership<'_>,
    listener: TcpListener,
) -> Result<Vec<Link>, CollectiveError> {
    let (rank, world) = (membership.rank, membership.world);
    let possible = rank.get() < world.get()
        && world.get() <= WORLD_SIZE_MAX
        && membership.peers.len() == world.get() as usize;
    if !possible {
        return Err(CollectiveError::NoSuchRank { rank, world });
    }
    let deadline = Instant::now() + membership.join_timeout;
    let mut links = Vec::new();
    for peer in (0..rank.get()).map(Rank::new) {
        let stream = find(membership, peer, deadline)?;
        links.push(Link { peer, stream });
    }
    let accepted = Door::open(membership, listener)?.wait(deadline)?;
    links.extend(accepted);
    for link in &links {
        link.stream
            .set_nodelay(true)
            .and_then(|()| link.stream.set_nonblocking(true))
            .map_err(CollectiveError::io("set up a connection"))?;
    }
    Ok(links)
}

fn nobody(missing: Vec<Rank>) -> CollectiveError {
    CollectiveError::TimedOut {
        number: 0,
        kind: Kind::Join,
        missing,
    }
}

/// Connects to a lower rank, however late it comes.
fn find(
    membership: &Membership<'_>,
    peer: Rank,
    deadline: Instant,
) -> Result<TcpStream, CollectiveError> {
    let address = &membership.peers[peer.get() as usize];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(nobody(vec![peer]));
        }
        if let Ok(stream) = TcpStream::connect_timeout(address, left.min(HANDSHAKE))
            && let Some(stream) = introduce(membership, peer, stream, deadline)?
        {
            return Ok(stream);
        }
        thread::sleep(PAUSE.min(left));
    }
}

/// The handshake of the side that connected. `None` when the other side is not, or not yet, the rank that
/// is looked for.
fn introduce(
    membership: &Membership<'_>,
    peer: Rank,
    mut stream: TcpStream,
    deadline: Instant,
) -> Result<Option<TcpStream>, CollectiveError> {
    // The other side may be busy with lower ranks for as long as joining may take.
    let left = deadline.saturating_duration_since(Instant::now());
    let limit = Some(left.max(Duration::from_millis(1)));
    stream
        .set_read_timeout(limit)
        .and_then(|()| stream.set_write_timeout(limit))
        .map_err(CollectiveError::io("set up a connection"))?;
    let mine = greeting(membership, peer)?;
    let mut theirs = [0; GREETING_BYTES];
    let mut proof = [0; PROOF_BYTES];
    let answer = stream
        .write_all(&mine)
        .and_then(|()| stream.read_exact(&mut theirs))
        .and_then(|()| stream.read_exact(&mut proof));
    let is_member = answer.is_ok()
        && sender(membership, &theirs) == Some(peer)
        && holds(membership.token, Side::Accepted, &mine, &theirs, &proof);
    if !is_member {
        return Ok(None);
    }
    let proof = prove(membership.token, Side::Connected, &mine, &theirs);
    let mut welcome = [0];
    let answer = stream
        .write_all(&proof)
        .and_then(|()| stream.read_exact(&mut welcome));
    check(membership, peer, &theirs)?;
    Ok((answer.is_ok() && welcome == [WELCOME]).then_some(stream))
}

/// A connection that has yet to prove itself.
struct Candidate {
    stream: TcpStream,
    since: Instant,
    /// Greeting, then proof, as far as they have come.
    heard: Vec<u8>,
    /// Once the greeting is there: who sent it, and ours.
    greeted: Option<(Rank, Greeting, Greeting)>,
}

/// What became of a candidate.
enum Verdict {
    Waiting,
    Stranger,
    Member(Rank),
}

impl Candidate {
    fn wanted(&self) -> usize {
        if self.greeted.is_some() {
            PROOF_BYTES
        } else {
            GREETING_BYTES
        }
    }

    /// Reads what there is, never more than the handshake. Whatever goes wrong makes a stranger.
    fn listen(&mut self, membership: &Membership<'_>) -> Result<Verdict, CollectiveError> {
        loop {
            let mut bytes = [0; GREETING_BYTES];
            let wanted = self.wanted() - self.heard.len();
            match self.stream.read(&mut bytes[..wanted]) {
                Ok(0) => return Ok(Verdict::Stranger),
                Ok(count) => self.heard.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Verdict::Waiting),
                Err(_) => return Ok(Verdict::Stranger),
            }
            if self.heard.len() < self.wanted() {
                continue;
            }
            let Some((rank, theirs, mine)) = self.greeted else {
                if self.answer(membership)? {
                    continue;
                }
                return Ok(Verdict::Stranger);
            };
            let proof = &self.heard;
            if !holds(membership.token, Side::Connected, &theirs, &mine, proof) {
                return Ok(Verdict::Stranger);
            }
            // Also to one that does not fit: it then finds out why by itself.
            let welcomed = self.stream.write_all(&[WELCOME]).is_ok();
            check(membership, rank, &theirs)?;
            return Ok(if welcomed {
                Verdict::Member(rank)
            } else {
                Verdict::Stranger
            });
        }
    }

    /// Answers a greeting, if it is one of a higher rank to this one.
    fn answer(&mut self, membership: &Membership<'_>) -> Result<bool, CollectiveError> {
        let mut theirs = [0; GREETING_BYTES];
        theirs.copy_from_slice(&self.heard);
        self.heard.clear();
        let Some(rank) = sender(membership, &theirs).filter(|&rank| rank > membership.rank) else {
            return Ok(false);
        };
        let mine = greeting(membership, rank)?;
        let proof = prove(membership.token, Side::Accepted, &theirs, &mine);
        self.greeted = Some((rank, theirs, mine));
        // The first bytes on a connection always fit into the system's buffer.
        let answered = self.stream.write_all(&[&mine[..], &proof].concat());
        Ok(answered.is_ok())
    }
}

/// Where higher ranks come in.
struct Door<'a> {
    membership: &'a Membership<'a>,
    listener: TcpListener,
    candidates: Vec<Candidate>,
    /// By rank.
    members: Vec<Option<TcpStream>>,
}

impl<'a> Door<'a> {
    fn open(
        membership: &'a Membership<'a>,
        listener: TcpListener,
    ) -> Result<Self, CollectiveError> {
        listener
            .set_nonblocking(true)
            .map_err(CollectiveError::io("listen for other workers"))?;
        Ok(Self {
            membership,
            listener,
            candidates: Vec::new(),
            members: (0..membership.world.get()).map(|_| None).collect(),
        })
    }

    fn missing(&self) -> Vec<Rank> {
        let first = self.membership.rank.get() + 1;
        let ranks = (first..self.membership.world.get()).map(Rank::new);
        ranks
            .filter(|rank| self.members[rank.get() as usize].is_none())
            .collect()
    }

    /// Waits for all higher ranks.
    fn wait(mut self, deadline: Instant) -> Result<Vec<Link>, CollectiveError> {
        while !self.missing().is_empty() {
            if Instant::now() >= deadline {
                return Err(nobody(self.missing()));
            }
            self.sleep()?;
            self.accept();
            for mut candidate in std::mem::take(&mut self.candidates) {
                match candidate.listen(self.membership)? {
                    // Who comes again has given up its first connection.
                    Verdict::Member(rank) => {
                        self.members[rank.get() as usize] = Some(candidate.stream);
                    }
                    Verdict::Waiting if candidate.since.elapsed() < HANDSHAKE => {
                        self.candidates.push(candidate);
                    }
                    Verdict::Waiting | Verdict::Stranger => {}
                }
            }
        }
        let members = (0..).map(Rank::new).zip(self.members);
        Ok(members
            .filter_map(|(peer, stream)| stream.map(|stream| Link { peer, stream }))
            .collect())
    }

    fn accept(&mut self) {
        // Errors are those of single connections, or pass with the next look.
        while let Ok((stream, _)) = self.listener.accept() {
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            if self.candidates.len() == CANDIDATES_MAX {
                self.candidates.remove(0);
            }
            self.candidates.push(Candidate {
                stream,
                since: Instant::now(),
                heard: Vec::new(),
                greeted: None,
            });
        }
    }

    fn sleep(&self) -> Result<(), CollectiveError> {
        let streams = self.candidates.iter().map(|candidate| &candidate.stream);
        let mut waits: Vec<_> = streams
            .map(|stream| PollFd::new(stream, PollFlags::IN))
            .collect();
        waits.push(PollFd::new(&self.listener, PollFlags::IN));
        match poll(&mut waits, Some(&SLICE)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(CollectiveError::io("wait for other workers")(error)),
        }
    }
}
