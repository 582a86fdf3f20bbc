//! Unix sockets below paths of any length, for the owner's eyes only.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, fchmod};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};

/// Longest path that is given to the kernel as it is; it takes 107 bytes at most.
const PATH_BYTES_MAX: usize = 100;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 16;

/// A path to `path` that is short enough: a long one is reached through an open folder.
struct Reachable {
    path: PathBuf,
    _folder: Option<File>,
}

impl Reachable {
    fn new(path: &Path) -> io::Result<Self> {
        if path.as_os_str().len() <= PATH_BYTES_MAX {
            return Ok(Self {
                path: path.to_path_buf(),
                _folder: None,
            });
        }
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let folder = File::open(folder)?;
        let short = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
        Ok(Self {
            path: short,
            _folder: Some(folder),
        })
    }
}

/// Listens at `path`. A socket that is there already is stale (the caller holds the run's lock) and
/// is replaced. The mode is set before the name exists, so that there is no moment without it.
///
/// # Errors
///
/// When the file system has no sockets, or refuses this one.
pub(super) fn listen_at(path: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let reachable = Reachable::new(path)?;
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(&reachable.path)?)?;
    listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

/// Connects to a socket at `path`.
///
/// # Errors
///
/// When nobody listens there.
pub(super) fn connect_to(path: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(Reachable::new(path)?.path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt;

    fn check(path: &Path) {
        let listener = listen_at(path).unwrap();
        let mode = fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut client = connect_to(path).unwrap();
        let (mut served, _) = listener.accept().unwrap();
        client.write_all(b"x").unwrap();
        let mut byte = [0];
        served.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"x");
    }

    #[test]
    fn a_short_path_and_a_stale_socket_work() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        check(&path);
        assert!(connect_to(&path).is_err(), "nobody listens any more");
        check(&path);
    }

    #[test]
    fn a_path_beyond_the_limit_of_the_kernel_works() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("d".repeat(120)).join("e".repeat(120));
        fs::create_dir_all(&deep).unwrap();
        check(&deep.join("control.sock"));
    }
}
