use super::*;

fn found(cache: &MediaCache, range: Range<u64>) -> Vec<(Range<u64>, u64)> {
    cache.find(&range).collect()
}

#[test]
fn writes_lie_one_after_the_other_whatever_their_places_and_the_newest_counts() {
    let mut cache = MediaCache::new(1000, 10);
    assert_eq!(cache.insert(500..600), 0..110);
    assert_eq!(cache.insert(7000..7050), 110..170);
    assert_eq!(cache.insert(520..530), 170..190);
    assert_eq!(found(&cache, 0..10_000), [(500..520, 0), (520..530, 170), (530..600, 30), (7000..7050, 110)]);
    assert_eq!(found(&cache, 525..540), [(525..530, 175), (530..540, 30)]);
    assert_eq!(found(&cache, 600..7000), []);
}

#[test]
fn space_is_free_again_from_the_oldest_on_and_not_before() {
    let mut cache = MediaCache::new(1000, 10);
    for i in 0..4 {
        cache.insert(i * 1000..i * 1000 + 90);
    }
    assert!(cache.fits([290].into_iter()) && !cache.fits([291].into_iter()));
    cache.discard(&(1000..1090));
    assert!(!cache.fits([291].into_iter()), "the oldest still holds the tail");
    cache.discard(&(0..40));
    assert_eq!(cache.oldest(), Some(0));
    cache.discard(&(40..90));
    assert_eq!(cache.oldest(), Some(2000));
    assert!(cache.fits([390].into_iter()) && !cache.fits([391].into_iter()));
}

#[test]
fn a_write_that_does_not_fit_before_the_end_of_the_circle_goes_to_its_start() {
    let mut cache = MediaCache::new(1000, 10);
    cache.insert(0..490);
    cache.discard(&(0..490));
    assert_eq!(cache.insert(5000..5290), 500..800);
    assert_eq!(cache.insert(6000..6240), 0..250);
    assert_eq!((cache.oldest(), cache.head()), (Some(5000), 1250));
}

#[test]
fn what_came_after_a_position_is_not_forgotten_with_what_came_before() {
    let mut cache = MediaCache::new(1000, 10);
    cache.insert(0..100);
    let position = cache.head();
    cache.insert(50..60);
    cache.discard_before(&(0..1000), position);
    assert_eq!(found(&cache, 0..1000), [(50..60, 110)]);
    assert_eq!(cache.oldest(), Some(50));
}
