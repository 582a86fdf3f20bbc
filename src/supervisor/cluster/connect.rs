//! A connection between supervisor and agent whose two ends have proved that they know the token.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;

use crate::run::wire::{self, WireError};
use crate::run::{PROOF_BYTES, Token, random_bytes};

/// First bytes of both sides.
const MAGIC: [u8; 8] = *b"trainerN";

/// Bytes of a random number.
const NONCE_BYTES: usize = 32;

/// Longest time for one step of the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest time that a message may wait for room in the connection.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// Time between two signs of life.
pub(super) const PING: Duration = Duration::from_secs(1);

/// Longest silence before the other side counts as lost.
pub(super) const SILENCE: Duration = Duration::from_secs(10);

const AGENT: &[u8] = b"trainer node: agent";
const SUPERVISOR: &[u8] = b"trainer node: supervisor";

/// Who proves something.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Agent,
    Supervisor,
}

/// Proves to the other side that this one knows the token, and lets it prove the same. The agent, who
/// connected, proves first: a stranger learns nothing from a supervisor.
///
/// # Errors
///
/// When the other side does not know the token, is something else, or takes too long.
pub(super) fn authenticate(mut stream: &TcpStream, side: Side, token: &Token) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(HANDSHAKE_TIMEOUT))?;
    stream.set_write_timeout(Some(SEND_TIMEOUT))?;
    let mine: [u8; NONCE_BYTES] = random_bytes()?;
    stream.write_all(&[MAGIC.as_slice(), &mine].concat())?;
    let mut greeting = [0; MAGIC.len() + NONCE_BYTES];
    stream.read_exact(&mut greeting)?;
    let (magic, theirs) = greeting.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(io::Error::other("the other side is no trainer"));
    }
    let parts: [&[u8]; 2] = match side {
        Side::Agent => [&mine, theirs],
        Side::Supervisor => [theirs, &mine],
    };
    let wrong = || io::Error::other("the other side has another TRAINER_TOKEN");
    let mut proof = [0; PROOF_BYTES];
    match side {
        Side::Agent => {
            stream.write_all(&token.prove(AGENT, &parts))?;
            // A supervisor that is not convinced closes the connection.
            stream.read_exact(&mut proof).map_err(|_| wrong())?;
            if !token.holds(SUPERVISOR, &parts, &proof) {
                return Err(wrong());
            }
        }
        Side::Supervisor => {
            stream.read_exact(&mut proof)?;
            if !token.holds(AGENT, &parts, &proof) {
                return Err(wrong());
            }
            stream.write_all(&token.prove(SUPERVISOR, &parts))?;
        }
    }
    stream.set_read_timeout(Some(SILENCE))
}

/// The sending side of a connection, shared by threads.
#[derive(Clone, Debug)]
pub(super) struct Sender(Arc<Mutex<TcpStream>>);

impl Sender {
    /// Of a connection.
    ///
    /// # Errors
    ///
    /// When the system has no more descriptors.
    pub(super) fn of(stream: &TcpStream) -> io::Result<Self> {
        Ok(Self(Arc::new(Mutex::new(stream.try_clone()?))))
    }

    /// Sends a message. When that fails the connection is closed, which its reader notices.
    pub(super) fn send<T: Serialize>(&self, message: &T) -> Result<(), WireError> {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = wire::send(&mut *stream, message);
        if sent.is_err() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        sent
    }

    /// Ends the connection.
    pub(super) fn close(&self) {
        let stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
}

/// Why a connection ended, in words.
pub(super) fn words(error: &WireError) -> String {
    match error {
        WireError::Io(error)
            if matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
            ) =>
        {
            format!("silent for {} s", SILENCE.as_secs())
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    fn meet(agent: &str, supervisor: &str) -> (bool, bool) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (agent, supervisor) = (Token::of(agent), Token::of(supervisor));
        let other = thread::spawn(move || {
            let stream = TcpStream::connect(address).unwrap();
            authenticate(&stream, Side::Agent, &agent).is_ok()
        });
        let (stream, _) = listener.accept().unwrap();
        let accepted = authenticate(&stream, Side::Supervisor, &supervisor).is_ok();
        drop(stream);
        (other.join().unwrap(), accepted)
    }

    #[test]
    fn both_sides_must_know_the_token() {
        assert_eq!(meet("secret", "secret"), (true, true));
        assert_eq!(meet("secret", "another"), (false, false));
    }

    #[test]
    fn a_stranger_is_turned_away() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stranger = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stranger
            .write_all(b"GET / HTTP/1.1\r\nHost: example\r\nUser-Agent: a stranger\r\n\r\n")
            .unwrap();
        let (stream, _) = listener.accept().unwrap();
        assert!(authenticate(&stream, Side::Supervisor, &Token::of("secret")).is_err());
    }
}
