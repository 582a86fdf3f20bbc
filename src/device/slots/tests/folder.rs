//! Folders that are not as they should be, and hostile files in them.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use super::{Bench, Pool, SlotError, Want, request};

#[track_caller]
fn refusal(path: &Path) -> String {
    let error = Pool::open(path).unwrap_err();
    assert!(!error.advice().is_empty());
    assert!(error.to_string().contains(&path.display().to_string()));
    error.to_string()
}

#[test]
fn the_folder_is_made_for_us_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("slots");
    Pool::open(&path).unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    Pool::open(&path).unwrap();
}

#[test]
fn whoever_cleans_up_spares_the_folder_of_a_run() {
    let bench = Bench::new();
    // What systemd-tmpfiles tries before it removes old files from a folder.
    let folder = File::open(bench.slots()).unwrap();
    let held = bench.take(Want::Count(1));
    let path = bench.slots();
    let Bench {
        pool,
        folder: _folder,
        ..
    } = bench;
    drop(pool);
    assert!(folder.try_lock().is_err());
    drop(held);
    folder.try_lock().unwrap();
    drop(folder);
    Pool::open(path).unwrap();
}

#[test]
fn a_bad_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::create_dir(path.join("real")).unwrap();
    symlink(path.join("real"), path.join("link")).unwrap();
    assert!(refusal(&path.join("link")).contains("is a symbolic link"));
    // A slash at the end makes the kernel follow links.
    let error = Pool::open(format!("{}/link/", path.display())).unwrap_err();
    assert!(error.to_string().contains("is a symbolic link"));

    File::create(path.join("file")).unwrap();
    assert!(refusal(&path.join("file")).contains("or a file"));

    fs::set_permissions(path.join("real"), Permissions::from_mode(0o750)).unwrap();
    assert!(refusal(&path.join("real")).contains("open to other users (mode 750)"));

    assert!(refusal(&path.join("none/slots")).starts_with("cannot make"));
    assert!(refusal(Path::new("slots")).contains("not an absolute path"));
    if rustix::process::geteuid().is_root() {
        fs::create_dir(path.join("other")).unwrap();
        fs::set_permissions(path.join("other"), Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::chown(path.join("other"), Some(4321), None).unwrap();
        assert!(refusal(&path.join("other")).contains("belongs to user 4321"));
    }
}

/// Puts a file into the folder and locks it, as a living process would.
fn plant(bench: &Bench, name: &str, content: &str) -> File {
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .open(bench.slots().join(name))
        .unwrap();
    file.write_all(content.as_bytes()).unwrap();
    file.lock().unwrap();
    file
}

fn ticket(name: &str, want: &str, ids: &[&str]) -> String {
    let devices: Vec<String> = ids
        .iter()
        .map(|id| format!(r#"{{"id":"{id}","group":0}}"#))
        .collect();
    format!(
        r#"{{"waiter":{{"name":"{name}","pid":1,"since_unix_ms":0,"priority":9,"want":{want}}},
        "devices":[{}]}}"#,
        devices.join(",")
    )
}

#[test]
fn what_makes_no_sense_holds_up_nobody() {
    let bench = Bench::new();
    let turn = plant(&bench, "turn", "no number at all, and far too long for one");
    turn.unlock().unwrap();
    let huge = plant(&bench, "ticket-3", "");
    huge.set_len(1 << 40).unwrap();
    let _planted = [
        plant(&bench, "ticket-1", "\0\u{1}garbage"),
        plant(&bench, "ticket-2", &"[".repeat(200_000)),
        plant(
            &bench,
            "ticket-4",
            &ticket("never", r#"{"count":9}"#, &["g0", "g1"]),
        ),
        plant(&bench, "ticket-5", &ticket("none", "\"all\"", &["g0", ""])),
        plant(&bench, "ticket-99999999999999999999", "beyond all numbers"),
        plant(&bench, "ticket-x", "no ticket"),
    ];
    fs::create_dir(bench.slots().join("ticket-70")).unwrap();
    symlink("/etc/passwd", bench.slots().join("ticket-71")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        bench.slots().join("ticket-72"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let held = bench.take(Want::All);
    assert_eq!(held.numbers(), [73, 74]);
    assert_eq!(bench.queue(), Vec::<String>::new());
}

#[test]
fn a_forged_ticket_is_shown_clean_and_counts_while_its_maker_lives() {
    let bench = Bench::new();
    let name = r"\u001b[2Jx\u202e";
    let forged = plant(&bench, "ticket-8", &ticket(name, "\"all\"", &["g0", "g1"]));
    assert_eq!(bench.queue(), ["\u{fffd}[2Jx\u{fffd}"]);
    assert_eq!(bench.take(Want::Count(2)).devices(), ["g2", "g3"]);
    assert!(bench.try_take(Want::Count(3)).is_none());
    drop(forged);
    bench.take(Want::Count(3));
    assert_eq!(bench.tickets(), 0);
}

#[test]
fn a_device_is_held_by_whoever_has_its_lock_whatever_its_file_says() {
    let bench = Bench::new();
    drop(plant(
        &bench,
        "device-g0",
        r#"{"name":"old","pid":1,"since_unix_ms":0,"serial":1}"#,
    ));
    let _g1 = plant(&bench, "device-g1", "{}");
    let _g2 = plant(
        &bench,
        "device-g2",
        r#"{"name":"b\nc","pid":1,"since_unix_ms":0,"serial":1,"later":true}"#,
    );
    assert_eq!(bench.held(), ["g1:?", "g2:b\u{fffd}c"]);
    assert_eq!(bench.take(Want::Count(2)).devices(), ["g0", "g3"]);
    fs::remove_file(bench.slots().join("device-g0")).unwrap();
    symlink("/etc/passwd", bench.slots().join("device-g0")).unwrap();
    let error = bench
        .acquire(&request("me", 0, Want::Count(1)), &mut |_| false)
        .unwrap_err();
    assert!(matches!(error, SlotError::Foreign { .. }), "{error}");
}

#[test]
fn whoever_keeps_the_turn_is_not_waited_for_without_end() {
    let bench = Bench::new();
    let _turn = plant(&bench, "turn", "");
    let folder = bench.pool.folder();
    assert!(folder.turn(Duration::from_millis(20)).unwrap().is_none());
    let error = folder.turn_or_fail(Duration::ZERO).unwrap_err();
    assert!(matches!(error, SlotError::Busy { .. }), "{error}");
}
