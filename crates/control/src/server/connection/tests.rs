use super::*;

const IDLE: Duration = Duration::from_secs(600);

fn hello() -> Hello {
    Hello { key: 1, client: 2, nonce: [3; 16] }
}

fn joined(connections: &Arc<Connections<u32>>) -> (Place<u32>, oneshot::Receiver<()>) {
    connections.join(Moment::default()).expect("there is a place")
}

fn begun(place: &Place<u32>, by: u32, now: Moment) -> Token {
    place.connection().begin(by, 7, now)
}

fn who(place: &Place<u32>, token: Token, now: Moment) -> Option<u32> {
    place.connection().session(&token, now, IDLE).ok().map(|(by, _)| *by)
}

#[test]
fn a_session_is_that_of_its_connection_alone() {
    let connections = Arc::new(Connections::new(10, IDLE));
    let (one, _one) = joined(&connections);
    let (other, _other) = joined(&connections);
    let now = Moment(1);
    let token = begun(&one, 7, now);
    begun(&other, 8, now);
    assert_eq!(who(&one, token, now), Some(7));
    assert_eq!(who(&other, token, now), None);
}

#[test]
fn a_session_ends_when_nothing_was_asked_for_long() {
    let connections = Arc::new(Connections::new(10, IDLE));
    let (place, _end) = joined(&connections);
    let start = Moment(1);
    let token = begun(&place, 7, start);
    let late = start + (IDLE - Duration::from_nanos(1));
    assert_eq!(who(&place, token, late), Some(7));
    assert_eq!(who(&place, token, late + (IDLE - Duration::from_nanos(1))), Some(7), "what was asked counts");
    let over = late + (IDLE - Duration::from_nanos(1)) + IDLE;
    assert_eq!(who(&place, token, over), None);
    assert_eq!(who(&place, token, start), None, "it is gone for good");
}

#[test]
fn whoever_proves_again_has_the_new_session_alone() {
    let connections = Arc::new(Connections::new(10, IDLE));
    let (place, _end) = joined(&connections);
    let old = begun(&place, 7, Moment(1));
    let new = begun(&place, 8, Moment(1));
    assert_ne!(old, new);
    assert_eq!((who(&place, old, Moment(1)), who(&place, new, Moment(1))), (None, Some(8)));
}

#[test]
fn a_challenge_is_answered_once() {
    let connections: Arc<Connections<u32>> = Arc::new(Connections::new(10, IDLE));
    let (place, _end) = joined(&connections);
    assert!(place.connection().take_greeting().is_err(), "there was none");
    place.connection().greet(hello(), Challenge { nonce: [1; 16] });
    place.connection().greet(hello(), Challenge { nonce: [2; 16] });
    let greeting = place.connection().take_greeting().expect("there is one");
    assert_eq!(greeting.challenge.nonce, [2; 16], "the one before is void");
    assert!(place.connection().take_greeting().is_err());
}

#[test]
fn a_stranger_makes_room_and_whoever_has_a_session_does_not() {
    let connections = Arc::new(Connections::new(2, IDLE));
    let (known, mut known_end) = joined(&connections);
    let (_stranger, mut stranger_end) = joined(&connections);
    begun(&known, 7, Moment(1));
    let (next, mut next_end) = joined(&connections);
    assert!(stranger_end.try_recv().is_err_and(|e| e == oneshot::error::TryRecvError::Closed));
    assert!(known_end.try_recv().is_err_and(|e| e == oneshot::error::TryRecvError::Empty));
    begun(&next, 8, Moment(1));
    assert!(connections.join(Moment::default()).is_none(), "both have sessions");
    assert!(next_end.try_recv().is_err_and(|e| e == oneshot::error::TryRecvError::Empty));
    drop(known);
    assert!(connections.join(Moment::default()).is_some());
}

#[test]
fn a_session_that_is_over_keeps_nobody_out() {
    let connections = Arc::new(Connections::new(1, IDLE));
    let (place, mut end) = joined(&connections);
    begun(&place, 7, Moment(1));
    assert!(connections.join(Moment(1) + (IDLE - Duration::from_nanos(1))).is_none());
    assert!(connections.join(Moment(1) + IDLE).is_some(), "nothing was asked for so long");
    assert!(end.try_recv().is_err_and(|e| e == oneshot::error::TryRecvError::Closed));
}
