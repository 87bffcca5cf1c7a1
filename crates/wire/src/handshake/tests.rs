use super::*;
use forebay_model::Kind;

fn server() -> ServerHello {
    ServerHello { version: PROTOCOL_VERSION, target: TargetId(42), process: 1234, nonce: [7; 16] }
}

/// What a client that sends `hello` makes the server do, and what the server sends back.
fn served(hello: &impl Serialize, cluster: Option<&str>) -> (Result<Option<ClientHello>>, Vec<u8>) {
    let mut request = FrameWriter::new(Vec::new());
    request.send(FIRST, Command::HELLO, Flags::NONE, hello, &[]).expect("a hello fits");
    let bytes = request.into_inner();
    let mut answer = FrameWriter::new(Vec::new());
    let result = accept(&mut FrameReader::new(bytes.as_slice()), &mut answer, &server(), cluster);
    (result, answer.into_inner())
}

fn connected(answer: &[u8]) -> Result<ServerHello> {
    connect(&mut FrameReader::new(answer), &mut FrameWriter::new(Vec::new()), None)
}

fn hello(cluster: Option<&str>) -> ClientHello {
    ClientHello::new(cluster, [5; 16])
}

#[test]
fn both_sides_learn_who_is_there() {
    let (client, answer) = served(&hello(Some("attic")), Some("attic"));
    assert_eq!(client, Ok(Some(hello(Some("attic")))));
    assert_eq!(connected(&answer), Ok(server()));
    assert!(served(&hello(None), Some("attic")).0.is_ok());
    assert!(served(&hello(Some("attic")), None).0.is_ok());
}

#[test]
fn a_client_of_another_cluster_is_told_both_names() {
    let (refused, answer) = served(&hello(Some("cellar")), Some("attic"));
    let error = refused.expect_err("it is another cluster");
    assert_eq!(error.kind, Kind::Missing);
    assert!(error.message.contains("'attic'") && error.message.contains("'cellar'"), "{error}");
    assert_eq!(connected(&answer), Err(error));
}

#[test]
fn a_later_client_is_told_why_it_is_refused_even_if_its_hello_says_more() {
    let (refused, answer) =
        served(&(PROTOCOL_VERSION + 1, None::<String>, [0u8; 16], None::<[u8; 16]>, "something new"), None);
    let error = refused.expect_err("it is another version");
    assert_eq!(error.kind, Kind::Version);
    assert_eq!(connected(&answer), Err(error));
}

#[test]
fn a_later_server_is_refused_by_the_client() {
    let mut writer = FrameWriter::new(Vec::new());
    let later = ServerHello { version: PROTOCOL_VERSION + 1, ..server() };
    writer.send(FIRST, Command::HELLO, Flags::RESPONSE, &(later, "new"), &[]).expect("it fits");
    assert_eq!(connected(&writer.into_inner()).expect_err("it is another version").kind, Kind::Version);
}

#[test]
fn whoever_does_not_begin_with_hello_is_sent_away() {
    let mut writer = FrameWriter::new(Vec::new());
    writer.send(RequestId(5), Command(20), Flags::NONE, &(), &[]).expect("it fits");
    let bytes = writer.into_inner();
    let mut answer = FrameWriter::new(Vec::new());
    let error = accept(&mut FrameReader::new(bytes.as_slice()), &mut answer, &server(), None).expect_err("no hello");
    assert_eq!(error.kind, Kind::Damaged);
    assert!(!answer.into_inner().is_empty(), "the reason is sent");
}

#[test]
fn a_stranger_cannot_send_bulk_before_hello() {
    let mut writer = FrameWriter::new(Vec::new());
    writer.send(FIRST, Command::HELLO, Flags::NONE, &hello(None), &[&[0; 100_000]]).expect("it fits");
    let bytes = writer.into_inner();
    let mut reader = FrameReader::new(bytes.as_slice());
    let refused = accept(&mut reader, &mut FrameWriter::new(Vec::new()), &server(), None);
    assert_eq!(refused.expect_err("a payload before hello").kind, Kind::Damaged);
}

#[test]
fn a_peer_that_goes_away_is_noticed() {
    let gone = accept(&mut FrameReader::new(&b""[..]), &mut FrameWriter::new(Vec::new()), &server(), None);
    assert_eq!(gone, Ok(None));
    assert_eq!(connected(b"").expect_err("no hello").kind, Kind::Disconnected);
}
