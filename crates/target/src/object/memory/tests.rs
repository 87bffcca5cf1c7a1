use super::super::testing::{device, id, read};
use super::super::{How, Scope};
use super::*;
use crate::object::logs::Settings;
use forebay_model::object::Durability;

#[test]
fn a_target_holds_no_more_than_it_may_whatever_is_written_and_chosen() {
    let (fake, target) = device(Bytes::mib(256));
    let objects = target.objects();
    let memory = Memory { rows: Bytes::mib(8), ahead: Bytes::mib(5), reads: Bytes::mib(16), buffered: Bytes::mib(16) };
    objects.stay_within(memory);
    assert_eq!((objects.cache(), objects.map_memory().limit), (Bytes::mib(5), limit(&target.layout(), Bytes::mib(8))));
    fake.run(objects.set_settings(Settings { cache: Bytes::mib(90).0, ..Settings::default() })).unwrap();
    assert_eq!(objects.cache(), Bytes::mib(5), "it is chosen, and not there");
    assert_eq!(objects.settings().cache, Bytes::mib(90).0);
    let how = How { durability: Durability::Buffered, ..How::default() };
    let mut most = Bytes::ZERO;
    for object in 1..=40 {
        fake.run(objects.create(id(object), Vec::new())).unwrap();
        let bytes = vec![object as u8; 1 << 20];
        fake.run(objects.write_as(target.stream(), id(object), Some(0), &bytes, &how)).unwrap();
        most = most.max(objects.buffered());
    }
    assert!(most <= Bytes::mib(16) && most > Bytes::mib(2), "{most} were buffered");
    fake.run(objects.flush_buffered(Scope::Target, None)).unwrap();
    for object in 1..=40 {
        assert!(read(&fake, &target, object) == vec![object as u8; 1 << 20], "{object}");
    }
}
