//! Connections to all other ranks, and the one loop that moves bytes on them.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::collective::status::Status;
use crate::collective::{CollectiveError, Position};
use crate::run::Rank;

/// Longest sleep: how late an abort is noticed.
const SLICE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 2_000_000,
};

/// Most bytes of one system call: what Linux keeps in one piece of memory. Longer writes took twice the
/// time on the loopback network.
const WRITE_BYTES_MAX: usize = 32 << 10;

/// How often a rank that cannot move anything lets others run before it sleeps: waking up costs more,
/// above all in a virtual machine.
const YIELDS: u32 = 3;

/// Reads of 4 KiB before a connection is closed.
const READS_AT_END_MAX: u32 = 1024;

/// What goes over the connections in one call. Peers are ranks.
pub(super) trait Exchange {
    /// Bytes to send next; empty when there are none now.
    fn outgoing(&self, peer: Rank) -> &[u8];

    /// So many of them are sent.
    fn sent(&mut self, peer: Rank, count: usize);

    /// Where to put what comes next; empty when nothing is to be read now. No byte of the next call may
    /// be asked for.
    fn incoming(&mut self, peer: Rank) -> &mut [u8];

    /// So many bytes have been put there.
    fn received(&mut self, peer: Rank, count: usize) -> Result<(), CollectiveError>;

    /// How far a peer is, in any unit; 0 before its call is known, `None` when nothing is left to do
    /// with it.
    fn progress(&self, peer: Rank) -> Option<usize>;
}

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) peer: Rank,
    pub(super) stream: TcpStream,
}

/// All connections of a rank.
#[derive(Debug)]
pub(super) struct Mesh {
    links: Vec<Link>,
    /// When each last moved a byte.
    moved: Vec<Instant>,
    status: Arc<Status>,
    timeout: Duration,
}

impl Mesh {
    /// `links` do not block.
    pub(super) fn new(links: Vec<Link>, status: Arc<Status>, timeout: Duration) -> Self {
        Self {
            moved: vec![Instant::now(); links.len()],
            links,
            status,
            timeout,
        }
    }

    #[cfg(test)]
    pub(super) fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Moves bytes until nothing is left to do.
    pub(super) fn drive(&mut self, exchange: &mut dyn Exchange) -> Result<(), CollectiveError> {
        let result = self.move_all(exchange);
        if result.is_err() {
            self.status.fail();
        }
        result
    }

    fn move_all(&mut self, exchange: &mut dyn Exchange) -> Result<(), CollectiveError> {
        self.moved.fill(Instant::now());
        let mut idle = 0;
        loop {
            self.status.check()?;
            let mut moved = false;
            // All are told of the call before anything of theirs is looked at: should it not fit, they
            // learn of it too.
            for place in 0..self.links.len() {
                moved |= self.write(place, exchange)?;
            }
            for place in 0..self.links.len() {
                moved |= self.read(place, exchange)?;
            }
            let mut left = self.links.iter().map(|link| exchange.progress(link.peer));
            if left.all(|progress| progress.is_none()) {
                break;
            }
            if moved {
                idle = 0;
            } else if idle < YIELDS {
                idle += 1;
                thread::yield_now();
            } else {
                self.sleep(exchange)?;
            }
        }
        if self.status.position().waiting {
            self.status.set_waiting(false);
            self.status.set_missing(|_| false);
        }
        Ok(())
    }

    fn write(
        &mut self,
        place: usize,
        exchange: &mut dyn Exchange,
    ) -> Result<bool, CollectiveError> {
        let link = &mut self.links[place];
        let bytes = exchange.outgoing(link.peer);
        if bytes.is_empty() {
            return Ok(false);
        }
        match link
            .stream
            .write(&bytes[..bytes.len().min(WRITE_BYTES_MAX)])
        {
            Ok(count) => {
                exchange.sent(link.peer, count);
                self.moved[place] = Instant::now();
                Ok(count > 0)
            }
            Err(error) => self.not_now(place, error),
        }
    }

    fn read(&mut self, place: usize, exchange: &mut dyn Exchange) -> Result<bool, CollectiveError> {
        let link = &mut self.links[place];
        let bytes = exchange.incoming(link.peer);
        if bytes.is_empty() {
            return Ok(false);
        }
        match link.stream.read(bytes) {
            Ok(0) => Err(self.closed(place)),
            Ok(count) => {
                exchange.received(link.peer, count)?;
                self.moved[place] = Instant::now();
                Ok(true)
            }
            Err(error) => self.not_now(place, error),
        }
    }

    fn not_now(&self, place: usize, error: io::Error) -> Result<bool, CollectiveError> {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(false),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => {
                Err(self.closed(place))
            }
            ErrorKind::TimedOut => Err(self.timed_out(vec![self.links[place].peer])),
            _ => Err(CollectiveError::io("talk to another worker")(error)),
        }
    }

    fn closed(&self, place: usize) -> CollectiveError {
        let rank = self.links[place].peer;
        let Position { number, kind, .. } = self.status.position();
        CollectiveError::Closed { rank, number, kind }
    }

    fn timed_out(&self, missing: Vec<Rank>) -> CollectiveError {
        let Position { number, kind, .. } = self.status.position();
        CollectiveError::TimedOut {
            number,
            kind,
            missing,
        }
    }

    /// Sleeps until something can be moved, for a slice at most.
    fn sleep(&mut self, exchange: &mut dyn Exchange) -> Result<(), CollectiveError> {
        let mut waits = Vec::with_capacity(self.links.len());
        for link in &self.links {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, !exchange.incoming(link.peer).is_empty());
            flags.set(PollFlags::OUT, !exchange.outgoing(link.peer).is_empty());
            if !flags.is_empty() {
                waits.push(PollFd::new(&link.stream, flags));
            }
        }
        match poll(&mut waits, Some(&SLICE)) {
            Ok(0) => self.look_around(exchange),
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(CollectiveError::io("wait for other workers")(error)),
        }
    }

    /// Nothing moved for a slice: whether to go on waiting.
    fn look_around(&mut self, exchange: &dyn Exchange) -> Result<(), CollectiveError> {
        let progress = |link: &Link| exchange.progress(link.peer);
        // Those who are ahead wait for the same ranks as we do.
        let least = self.links.iter().filter_map(progress).min();
        let is_missing = |link: &Link| least.is_some() && progress(link) == least;
        self.status.set_missing(|rank| {
            let mut links = self.links.iter();
            links.any(|link| link.peer == rank && is_missing(link))
        });
        self.status.set_waiting(true);
        let links = self.links.iter().zip(&self.moved);
        let mut missing = links.filter(|(link, _)| is_missing(link));
        if missing.all(|(_, moved)| moved.elapsed() >= self.timeout) {
            return Err(self.timed_out(self.status.missing()));
        }
        Ok(())
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        for link in &mut self.links {
            // Closing with bytes unread would reset the connection, and a peer might lose what it has
            // not read yet: the call that explains why we leave.
            let _ = link.stream.shutdown(Shutdown::Write);
            let mut rest = [0; 4096];
            let mut reads = 0..READS_AT_END_MAX;
            while reads.next().is_some()
                && matches!(link.stream.read(&mut rest), Ok(count) if count > 0)
            {}
        }
    }
}
