//! For tests of objects: a device with a volume on it, and what is done with it over and over.

use super::read::MOST_READ;
use super::rows::Quota;
use crate::Target;
use crate::fake::Fake;
use forebay_model::{Bytes, ObjectId};
use std::rc::Rc;

/// An object of the volume.
pub(crate) fn id(object: u64) -> ObjectId {
    ObjectId { volume: 1, object }
}

/// A device with an empty volume, number 1; one of 64 MiB has groups of 1 MiB and logs of 16 blocks.
pub(crate) fn device(size: Bytes) -> (Fake, Rc<Target>) {
    let fake = Fake::new(size, false);
    let target = fake.target();
    fake.run(target.objects().create_volume(1, Quota::default())).unwrap();
    (fake, target)
}

/// The target after `kill -9`, once its objects are served.
pub(crate) fn again(fake: &Fake, target: Rc<Target>) -> Rc<Target> {
    drop(target);
    fake.kill();
    opened(fake)
}

/// The target of a device that nobody uses, once its objects are served.
pub(crate) fn opened(fake: &Fake) -> Rc<Target> {
    let target = fake.run(Target::open(fake.env())).expect("it opens");
    fake.run(target.objects().ready()).expect("the logs are read");
    target
}

/// The bytes of an object of the volume, as many as are read at once.
pub(crate) fn read(fake: &Fake, target: &Target, object: u64) -> Vec<u8> {
    fake.run(target.objects().read(target.stream(), id(object), 0, MOST_READ.0)).expect("it can be read")
}
