use super::*;

const IDLE: Duration = Duration::from_secs(600);

fn hello() -> Hello {
    Hello { key: 1, client: 2, nonce: [3; 16] }
}

fn joined(connections: &Arc<Connections<u32>>) -> (Place<u32>, oneshot::Receiver<()>) {
    connections.join(Moment::default()).expect("there is a place")
}

fn shown() -> Shown {
    let greeting = Greeting { hello: hello(), challenge: Challenge { nonce: [1; 16] } };
    Shown { greeting, proven: Proven { proof: [4; 32] } }
}

fn begun(place: &Place<u32>, by: u32, now: Moment) -> Token {
    begun_by(place, 7, by, now)
}

fn begun_by(place: &Place<u32>, user: u32, by: u32, now: Moment) -> Token {
    place.connections.begin(place.connection(), (by, user), shown(), now).expect("there is room")
}

/// Connections with sessions, as somebody who is at the other end of them.
struct Crowd {
    connections: Arc<Connections<u32>>,
    /// With the user of each, and what says when it has to end.
    there: Vec<(u32, Place<u32>, oneshot::Receiver<()>)>,
    now: Moment,
}

impl Crowd {
    /// With so many sessions of each of these users, in this order.
    fn of(connections: usize, users: &[(u32, usize)]) -> Crowd {
        let connections = Arc::new(Connections::new(connections, IDLE));
        let mut crowd = Crowd { connections, there: Vec::new(), now: Moment(1) };
        for (user, count) in users {
            (0..*count).for_each(|_| drop(crowd.comes(*user)));
        }
        crowd
    }

    /// One more session of a user, each a moment after the one before: the places of those that ended for it, with their users.
    fn comes(&mut self, user: u32) -> Vec<(usize, u32)> {
        self.tries(user).expect("there is room")
    }

    /// The same, of a user that may be refused.
    fn tries(&mut self, user: u32) -> Result<Vec<(usize, u32)>, Status> {
        let before = self.ended();
        self.now = self.now + Duration::from_nanos(1);
        let (place, end) = self.connections.join(self.now).expect("there is a place");
        self.connections.begin(place.connection(), (0, user), shown(), self.now)?;
        self.there.push((user, place, end));
        Ok(self.ended().into_iter().filter(|it| !before.contains(it)).collect())
    }

    /// Nobody asks anything for so long that whoever comes may end a session of its own user.
    fn rests(&mut self) {
        self.now = self.now + UNUSED;
    }

    /// Something is asked over this session.
    fn asks(&self, at: usize) {
        let (_, place, _) = &self.there[at];
        let token = place.connection().lock().session.as_ref().expect("it has one").token;
        assert_eq!(who(place, token, self.now), Some(0));
    }

    fn ended(&mut self) -> Vec<(usize, u32)> {
        let is_over = |end: &mut oneshot::Receiver<()>| {
            end.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Closed)
        };
        let there = self.there.iter_mut().enumerate();
        there.filter_map(|(at, (user, _, end))| is_over(end).then_some((at, *user))).collect()
    }
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

#[test]
fn who_has_most_sessions_ends_one_for_whoever_comes_and_the_one_that_asked_longest_ago() {
    // Of sixteen places, two are for those who have no session yet.
    let mut crowd = Crowd::of(16, &[(8, 2), (7, 12)]);
    assert_eq!(crowd.ended(), [], "there is room for all of them");
    // Whatever a user does, it ends no session but its own.
    crowd.rests();
    assert_eq!(crowd.comes(7), [(2, 7)]);
    assert_eq!(crowd.comes(9), [(3, 7)]);
    crowd.asks(4);
    assert_eq!(crowd.comes(8), [(5, 7)], "the one before it asked something since");
    // It comes to have about as many as the other, and no more.
    let users = |crowd: &mut Crowd, of: u32| {
        let ended: Vec<usize> = crowd.ended().into_iter().map(|(at, _)| at).collect();
        let there = crowd.there.iter().enumerate().filter(|(at, (user, ..))| *user == of && !ended.contains(at));
        there.count()
    };
    let refused = (0..20).filter(|_| crowd.tries(8).is_err()).count();
    assert_eq!(refused, 15, "three ended one of the other user, and two ended those of its own that were there first");
    assert_eq!([7, 8, 9].map(|user| users(&mut crowd, user)), [7, 6, 1]);
}

#[test]
fn clients_of_one_user_end_none_of_each_other_that_is_used_and_one_more_is_told_what_helps() {
    let mut crowd = Crowd::of(16, &[(7, 14)]);
    for _ in 0..100 {
        let refused = crowd.tries(7).expect_err("all are used");
        assert_eq!(refused.code(), tonic::Code::Unavailable, "it may ask again");
        let says = refused.message();
        assert!(says.contains("user 7 has 14 of them") && says.contains("end some clients"), "{says}");
    }
    assert_eq!(crowd.ended(), []);
    crowd.rests();
    (0..14).filter(|at| *at != 5).for_each(|at| crowd.asks(at));
    assert_eq!(crowd.comes(7), [(5, 7)], "nobody asks over that one");
    assert!(crowd.tries(7).is_err(), "who had it ends no other");
    crowd.now = crowd.now + (UNUSED - Duration::from_nanos(10));
    assert!(crowd.tries(7).is_err(), "not yet");
    crowd.rests();
    assert_eq!(crowd.comes(7), [(0, 7)]);
}

#[test]
fn strangers_end_no_sessions_and_there_is_a_place_for_them_always() {
    let mut crowd = Crowd::of(16, &[(7, 14)]);
    let strangers: Vec<_> = (0..100).map(|_| joined(&crowd.connections)).collect();
    assert_eq!(crowd.ended(), []);
    assert_eq!(crowd.comes(8).len(), 1);
    drop(strangers);
}

#[test]
fn root_and_nodes_are_spared_as_long_as_somebody_else_has_two_sessions() {
    let mut crowd = Crowd::of(16, &[(ROOT_USER, 5), (5, 6), (7, 3)]);
    let (_, place, _) = &crowd.there[6];
    let by = place.connection().lock().session.as_ref().expect("it has one").by.clone();
    place.connection().reported(&by);
    assert_eq!(crowd.comes(8), [(11, 7)]);
    assert_eq!(crowd.comes(9), [(12, 7)]);
    crowd.rests();
    assert_eq!(crowd.comes(9), [(15, 9)], "it has one already, and who may be taken from has no more");
    assert_eq!(crowd.comes(ROOT_USER), [(0, ROOT_USER)]);
    assert_eq!(crowd.comes(10), [(5, 5)], "it has none, and everybody else has one");
}
