use super::Seconds;
use forebay_model::Rate;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn at_a_rate_a_second_has_what_came_in_it_and_was_kept() {
    let mut seconds = Seconds::new(Rate(100));
    seconds.came(250, 250, 1);
    // Half of it was dropped; the last second is not over.
    seconds.came(50, 25, 2);
    seconds.came(90, 90, 3);
    assert_eq!(seconds.worst(SECOND * 3), Rate(75));
    // When it became durable is for the count of missed deadlines to say.
    seconds.durable(3, SECOND * 9);
    assert_eq!(seconds.worst(SECOND * 9), Rate(75));
    seconds.came(10, 0, 3);
    assert_eq!(seconds.worst(SECOND * 4), Rate(75));
    seconds.came(100, 0, 3);
    assert_eq!(seconds.worst(SECOND * 5), Rate(0));
}

#[test]
fn without_a_rate_a_second_has_what_became_durable_in_it() {
    let mut seconds = Seconds::new(Rate(0));
    seconds.came(100, 100, 10);
    seconds.came(100, 100, 20);
    seconds.came(100, 100, 30);
    seconds.durable(19, SECOND / 2);
    seconds.durable(30, SECOND * 3 / 2);
    assert_eq!(seconds.worst(SECOND), Rate(100));
    assert_eq!(seconds.worst(SECOND * 2), Rate(100));
    assert_eq!(seconds.worst(SECOND * 3), Rate(0), "nothing became durable in the third");
}
