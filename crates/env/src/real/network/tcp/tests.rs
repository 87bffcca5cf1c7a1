use super::*;
use crate::real::thread;
use forebay_model::Kind;

#[test]
fn any_free_port_is_told_and_bytes_go_both_ways() {
    let listener = TcpNetwork.listen("127.0.0.1:0").unwrap();
    let mut near = TcpNetwork.connect(listener.address()).unwrap();
    let mut far = listener.accept().unwrap();
    near.write_all(b"there").unwrap();
    let mut got = [0; 5];
    far.read_exact(&mut got).unwrap();
    far.write_all(&got).unwrap();
    near.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"there");
    let error = TcpNetwork.listen(listener.address()).err().unwrap();
    assert_eq!(error.kind, Kind::Busy, "{error}");
}

#[test]
fn who_ends_reading_reads_what_had_come_and_can_still_answer() {
    let listener = TcpNetwork.listen("127.0.0.1:0").unwrap();
    let mut near = TcpNetwork.connect(listener.address()).unwrap();
    let mut far = listener.accept().unwrap();
    let other = far.try_clone().unwrap();
    let reading = thread::spawn("reading", move || {
        let mut all = Vec::new();
        far.read_to_end(&mut all).map(|_| far)
    })
    .unwrap();
    other.end_reading();
    let mut far = reading.join().unwrap().unwrap();
    far.write_all(b"last").unwrap();
    let mut got = [0; 4];
    near.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"last");
}

#[test]
fn what_others_could_reach_and_what_is_no_address_is_refused() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:10809", "localhost", "127.0.0.1", "", "127.0.0.1:99999"] {
        assert_eq!(TcpNetwork.listen(address).err().unwrap().kind, Kind::Usage, "{address}");
    }
}

#[test]
fn a_closed_listener_accepts_nothing_more() {
    let listener = TcpNetwork.listen("127.0.0.1:0").unwrap();
    let close = listener.closer();
    let waiting = thread::spawn("waiting", move || listener.accept().is_none()).unwrap();
    close();
    assert!(waiting.join().unwrap());
}
