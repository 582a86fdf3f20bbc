//! What a holder or a waiter writes into its file: a little JSON, bounded and cleaned when read.

use std::fs::File;
use std::io::{Read, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Device, Holder, SlotError, Waiter, Want};

/// Most bytes that are read of a file. The largest we write, a ticket with
/// [`DEVICES_MAX`] long names twice, has about half of it.
const RECORD_BYTES_MAX: u64 = 256 << 10;

/// Most characters of a run's name.
const NAME_CHARS_MAX: usize = 128;

/// Most devices of a machine.
const DEVICES_MAX: usize = 256;

/// Most bytes of a device's name: three times as many still make a file name.
const DEVICE_BYTES_MAX: usize = 80;

/// Content of a ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ticket {
    /// Who waits.
    pub(super) waiter: Waiter,
    /// Devices it may be given.
    pub(super) devices: Vec<Device>,
}

/// Reads a ticket; `None` when it makes no sense.
pub(super) fn read_ticket(file: &File) -> Option<Ticket> {
    let mut ticket: Ticket = read(file)?;
    check_devices(&ticket.devices).ok()?;
    ticket.waiter.name = clean(&ticket.waiter.name);
    if let Want::These(ids) = &mut ticket.waiter.want {
        ids.truncate(DEVICES_MAX);
        for id in ids {
            *id = clean(id);
        }
    }
    Some(ticket)
}

/// Reads who holds a device; `None` when its file makes no sense.
pub(super) fn read_holder(file: &File) -> Option<Holder> {
    let mut holder: Holder = read(file)?;
    holder.name = clean(&holder.name);
    Some(holder)
}

fn read<T: DeserializeOwned>(file: &File) -> Option<T> {
    let mut bytes = Vec::new();
    file.take(RECORD_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Replaces what a file holds.
pub(super) fn write<T: Serialize>(mut file: &File, content: &T) -> std::io::Result<()> {
    file.set_len(0)?;
    let mut bytes = serde_json::to_vec(content)?;
    bytes.push(b'\n');
    file.write_all(&bytes)
}

/// A name that is fit for a terminal.
pub(super) fn clean(name: &str) -> String {
    name.chars()
        .take(NAME_CHARS_MAX)
        .map(|c| if is_plain(c) { c } else { '\u{fffd}' })
        .collect()
}

/// Neither a control character nor one that turns the direction of text around.
fn is_plain(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether all devices have usable names.
pub(super) fn check_devices(devices: &[Device]) -> Result<(), SlotError> {
    let bad = devices.iter().enumerate().find(|(index, device)| {
        let length = device.id.len();
        *index >= DEVICES_MAX || length == 0 || length > DEVICE_BYTES_MAX || {
            !device.id.chars().all(is_plain)
        }
    });
    match bad {
        Some((_, device)) => Err(SlotError::Name {
            id: clean(&device.id),
        }),
        None => Ok(()),
    }
}

/// Now, for display.
pub(super) fn now_unix_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cleaned_and_shortened() {
        assert_eq!(
            clean("a\x1b[31m\n\u{202e}b"),
            "a\u{fffd}[31m\u{fffd}\u{fffd}b"
        );
        assert_eq!(clean(&"x".repeat(1000)).len(), NAME_CHARS_MAX);
    }

    #[test]
    fn the_largest_ticket_can_be_read() {
        let devices: Vec<Device> = (0..DEVICES_MAX)
            .map(|index| Device {
                id: format!("{index:03}{}", "\"".repeat(DEVICE_BYTES_MAX - 3)),
                group: u32::MAX,
            })
            .collect();
        check_devices(&devices).unwrap();
        let ticket = Ticket {
            waiter: Waiter {
                name: "\"".repeat(NAME_CHARS_MAX),
                pid: 1,
                since_unix_ms: 1,
                priority: i32::MIN,
                want: Want::These(devices.iter().map(|device| device.id.clone()).collect()),
            },
            devices,
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        write(file.as_file(), &ticket).unwrap();
        assert_eq!(read_ticket(&file.reopen().unwrap()), Some(ticket));
    }

    #[test]
    fn unusable_device_names_are_refused() {
        for id in ["", "a\nb", &"x".repeat(DEVICE_BYTES_MAX + 1)] {
            let device = Device {
                id: id.to_string(),
                group: 0,
            };
            assert!(matches!(
                check_devices(&[device]),
                Err(SlotError::Name { .. })
            ));
        }
    }
}
