use super::*;
use crate::real::thread;
use forebay_model::Kind;
use std::io::{IoSlice, IoSliceMut};

fn place() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let address = folder.path().join("socket").display().to_string();
    (folder, address)
}

#[test]
fn bytes_go_both_ways_in_order_and_the_end_is_seen() {
    let (_folder, address) = place();
    let listener = UnixNetwork.listen(&address).unwrap();
    let serving = thread::spawn("serving", move || {
        let mut stream = listener.accept().unwrap();
        let mut request = Vec::new();
        stream.read_to_end(&mut request).unwrap_or_default();
        request
    })
    .unwrap();
    let mut stream = UnixNetwork.connect(&address).unwrap();
    for part in 0..100u8 {
        stream.write_all(&[part; 1000]).unwrap();
    }
    drop(stream);
    let request = serving.join().unwrap();
    assert!(request.len() == 100_000 && request.is_sorted());
}

#[test]
fn more_buffers_than_the_kernel_takes_at_once_go_out_and_come_in_by_and_by() {
    let (_folder, address) = place();
    let listener = UnixNetwork.listen(&address).unwrap();
    let mut near = UnixNetwork.connect(&address).unwrap();
    let mut far = listener.accept().unwrap();
    let sent: Vec<u8> = (0..2000).map(|n| (n % 251) as u8).collect();
    let mut buffers: Vec<IoSlice<'_>> = sent.chunks(1).map(IoSlice::new).collect();
    let mut left = &mut buffers[..];
    while !left.is_empty() {
        let count = near.write_vectored(left).unwrap();
        assert!(count > 0, "{} buffers are left", left.len());
        IoSlice::advance_slices(&mut left, count);
    }
    let mut got = vec![0; sent.len()];
    {
        let mut buffers: Vec<IoSliceMut<'_>> = got.chunks_mut(1).map(IoSliceMut::new).collect();
        let mut left = &mut buffers[..];
        while !left.is_empty() {
            let count = far.read_vectored(left).unwrap();
            assert!(count > 0, "{} buffers are left", left.len());
            IoSliceMut::advance_slices(&mut left, count);
        }
    }
    assert_eq!(got, sent);
}

#[test]
fn a_shutdown_ends_a_read_on_another_handle() {
    let (_folder, address) = place();
    let listener = UnixNetwork.listen(&address).unwrap();
    let near = UnixNetwork.connect(&address).unwrap();
    let _far = listener.accept().unwrap();
    let mut reading = near.try_clone().unwrap();
    let reader = thread::spawn("reading", move || reading.read(&mut [0; 8]).unwrap()).unwrap();
    near.shutdown();
    assert_eq!(reader.join().unwrap(), 0);
}

#[test]
fn a_closed_listener_accepts_nothing_more() {
    let (_folder, address) = place();
    let listener = UnixNetwork.listen(&address).unwrap();
    let close = listener.closer();
    let waiting = thread::spawn("waiting", move || {
        let first = listener.accept().is_some();
        (first, listener.accept().is_none())
    })
    .unwrap();
    let _stream = UnixNetwork.connect(&address).unwrap();
    close();
    let (_, none) = waiting.join().unwrap();
    assert!(none);
}

#[test]
fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let (_folder, address) = place();
    let first = UnixNetwork.listen(&address).unwrap();
    assert_eq!(UnixNetwork.listen(&address).err().unwrap().kind, Kind::Busy);
    drop(first);
    assert_eq!(UnixNetwork.connect(&address).err().unwrap().kind, Kind::Missing);
    let second = UnixNetwork.listen(&address).unwrap();
    let _stream = UnixNetwork.connect(&address).unwrap();
    assert!(second.accept().is_some());
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let (_folder, address) = place();
    std::fs::write(&address, "precious").unwrap();
    assert_eq!(UnixNetwork.listen(&address).err().unwrap().kind, Kind::Exists);
    assert_eq!(std::fs::read(&address).unwrap(), b"precious");
}

#[test]
fn nobody_there_is_said_so() {
    let (_folder, address) = place();
    let error = UnixNetwork.connect(&address).err().unwrap();
    assert_eq!(error.kind, Kind::Missing);
    assert!(error.message.contains(&address), "{error}");
}

#[test]
fn paths_longer_than_a_socket_address_work() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("d".repeat(120)).join("e".repeat(120));
    std::fs::create_dir_all(&deep).unwrap();
    let address = deep.join("socket").display().to_string();
    let listener = UnixNetwork.listen(&address).unwrap();
    let mut stream = UnixNetwork.connect(&address).unwrap();
    stream.write_all(b"x").unwrap();
    let mut byte = [0];
    listener.accept().unwrap().read_exact(&mut byte).unwrap();
    assert_eq!(&byte, b"x");
    let error = UnixNetwork.listen(&deep.join("n".repeat(120)).display().to_string()).err().unwrap();
    assert_eq!(error.kind, Kind::Usage);
}

#[test]
fn only_the_same_user_and_root_are_let_in() {
    assert!(admits(1000, 1000) && admits(0, 1000) && admits(0, 0));
    assert!(!admits(1001, 1000) && !admits(1000, 0));
    let (near, _far) = UnixStream::pair().unwrap();
    assert_eq!(peer(&near).unwrap().uid.as_raw(), own_user());
}

#[test]
fn the_socket_is_closed_to_other_users() {
    let (_folder, address) = place();
    let _listener = UnixNetwork.listen(&address).unwrap();
    assert_eq!(std::fs::metadata(&address).unwrap().permissions().mode() & 0o777, 0o600);
}
