//! The secret that the processes of one run prove to each other that they know.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};

use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Bytes of a proof.
pub const PROOF_BYTES: usize = 32;

/// Fresh random bytes of the system.
///
/// # Errors
///
/// When it gives none.
pub fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A run's secret. It never travels between hosts and is written nowhere: who knows it proves so with
/// an HMAC-SHA256 (RFC 2104) over fresh random numbers.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token([u8; 32]);

impl Token {
    /// From a text of any length that nobody else knows.
    #[must_use]
    pub fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    /// A new one.
    ///
    /// # Errors
    ///
    /// When the system gives no random numbers.
    pub fn random() -> io::Result<Self> {
        random_bytes().map(Self)
    }

    /// A proof for `label` over `parts`, whose lengths both sides know.
    #[must_use]
    pub fn prove(&self, label: &[u8], parts: &[&[u8]]) -> [u8; PROOF_BYTES] {
        self.mac(label, parts).finalize().into_bytes().into()
    }

    /// Whether a proof holds; takes as long for a wrong one.
    #[must_use]
    pub fn holds(&self, label: &[u8], parts: &[&[u8]], proof: &[u8]) -> bool {
        self.mac(label, parts).verify_slice(proof).is_ok()
    }

    fn mac(&self, label: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
        // Any length of key will do: this never fails, and were it to, no proof would hold.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0)
            .unwrap_or_else(|_| Hmac::new(&hmac::digest::Key::<Hmac<Sha256>>::default()));
        mac.update(label);
        for part in parts {
            mac.update(part);
        }
        mac
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(withheld)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_token_label_and_parts_prove() {
        let token = Token::of("a secret");
        let proof = token.prove(b"label", &[b"one", b"two"]);
        assert!(token.holds(b"label", &[b"one", b"two"], &proof));
        assert!(!token.holds(b"other", &[b"one", b"two"], &proof));
        assert!(!token.holds(b"label", &[b"two", b"one"], &proof));
        assert!(!token.holds(b"label", &[b"one", b"two"], &proof[1..]));
        assert!(!Token::of("another").holds(b"label", &[b"one", b"two"], &proof));
        assert!(!format!("{token:?}").contains(&token.0[0].to_string()));
    }
}
