use super::{Objects, Place, WriteOptions, place};
use crate::fake::{Chance, seed};
use crate::peer::{AnswerLink, HeapLink, ObjectLink, Peer, WriterLink};
use forebay_model::object::{ObjectHead, name_number};
use forebay_model::{Bytes, Error, Kind, Moment, ObjectId, Result, TargetId, Timestamp};
use forebay_wire::command::{Info, QueryRequest, Reply, Request, TargetInfo};
use forebay_wire::object::{Ask, MOST_PENDING, ObjectAnswer, ObjectInfo, ObjectReply, ObjectRequest, Receipt, WINDOW};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

const TARGET: TargetId = TargetId(7);

#[derive(Default, Clone)]
struct Kept {
    bytes: Vec<u8>,
    attributes: BTreeMap<(u32, u32), Vec<u8>>,
}

struct State {
    objects: BTreeMap<ObjectId, Kept>,
    chance: Chance,
    /// One in so many requests breaks its link; none if 0.
    breaks: u64,
    links: u64,
    most_bytes: usize,
    most_requests: usize,
}

/// Objects in memory, behind links that can break before and after what they were asked took effect.
#[derive(Clone)]
struct Store(Arc<Mutex<State>>);

struct Link {
    store: Store,
    under_way: VecDeque<(ObjectRequest, Arc<Vec<u8>>)>,
    broken: bool,
}

fn broken() -> Error {
    Error::disconnected("the other side went away")
}

impl State {
    /// Whether a link breaks now; more seldom by this factor.
    fn breaks(&mut self, seldom: u64) -> bool {
        self.breaks > 0 && self.chance.below(self.breaks * seldom) == 0
    }

    fn answer(&mut self, request: &ObjectRequest, payload: &[u8]) -> Result<ObjectAnswer> {
        let missing = |id: ObjectId| Error::missing(format!("there is no {id}"));
        let objects = &mut self.objects;
        Ok(match &request.ask {
            Ask::CreateVolume { volume, .. } => {
                if objects.insert(ObjectId::volume(*volume), Kept::default()).is_some() {
                    return Err(Error::exists("it exists already"));
                }
                ObjectReply::Done.into()
            }
            Ask::Create { id, attributes } => {
                if !objects.contains_key(&ObjectId::volume(id.volume)) {
                    return Err(missing(ObjectId::volume(id.volume)));
                }
                if objects.contains_key(id) {
                    return Err(Error::exists(format!("{id} exists already")));
                }
                let attributes = attributes.iter().map(|(page, n, value)| ((*page, *n), value.clone())).collect();
                objects.insert(*id, Kept { attributes, ..Kept::default() });
                ObjectReply::Done.into()
            }
            Ask::Remove { id } => {
                objects.remove(id).ok_or_else(|| missing(*id))?;
                ObjectReply::Done.into()
            }
            Ask::Stat { id, .. } => {
                let kept = objects.get(id).ok_or_else(|| missing(*id))?;
                ObjectReply::Info(Box::new(info(*id, kept))).into()
            }
            Ask::List { volume, from, .. } => {
                let first = ObjectId { volume: *volume, object: *from };
                // Two at a time, so that lists go on.
                let mut found: Vec<ObjectInfo> = objects.range(first..).map(|(id, kept)| info(*id, kept)).collect();
                let next = found.get(2).map(|info| info.id.object);
                found.truncate(2);
                ObjectReply::List { objects: found, next }.into()
            }
            Ask::Read { id, offset, length } => {
                let bytes = &objects.get(id).ok_or_else(|| missing(*id))?.bytes;
                let from = (*offset as usize).min(bytes.len());
                let to = (from + *length as usize).min(bytes.len());
                ObjectAnswer {
                    reply: ObjectReply::Bytes,
                    receipt: Receipt::default(),
                    payload: bytes[from..to].to_vec().into(),
                }
            }
            Ask::Write { id, offset, .. } => {
                let bytes = &mut objects.get_mut(id).ok_or_else(|| missing(*id))?.bytes;
                let end = *offset as usize + payload.len();
                bytes.resize(bytes.len().max(end), 0);
                bytes[*offset as usize..end].copy_from_slice(payload);
                ObjectReply::Done.into()
            }
            Ask::Append { id, .. } => {
                let bytes = &mut objects.get_mut(id).ok_or_else(|| missing(*id))?.bytes;
                let at = bytes.len() as u64;
                bytes.extend_from_slice(payload);
                ObjectReply::At(at).into()
            }
            Ask::SetAttributes { id, changes } => {
                let kept = objects.get_mut(id).ok_or_else(|| missing(*id))?;
                for (page, number, value) in changes {
                    kept.attributes.insert((*page, *number), value.clone().unwrap_or_default());
                }
                ObjectReply::Done.into()
            }
            Ask::Snapshot { id, of } => {
                if objects.contains_key(id) {
                    return Err(Error::exists(format!("{id} exists already")));
                }
                let mut kept = objects.get(of).ok_or_else(|| missing(*of))?.clone();
                for (page, number, value) in &request.riders.set {
                    kept.attributes.insert((*page, *number), value.clone().unwrap_or_default());
                }
                objects.insert(*id, kept);
                ObjectReply::Done.into()
            }
            Ask::Attributes { id, page, from } => {
                let kept = objects.get(id).ok_or_else(|| missing(*id))?;
                let mut values = kept.attributes.range((*page, *from)..=(*page, u32::MAX));
                let value = values.next().map(|((_, n), value)| (*n, value.clone()));
                let next = values.next().map(|((_, n), _)| *n);
                ObjectReply::Attributes { values: value.into_iter().collect(), next }.into()
            }
            other => return Err(Error::usage(format!("it does not do {other:?}"))),
        })
    }
}

fn info(id: ObjectId, kept: &Kept) -> ObjectInfo {
    let (size, time) = (kept.bytes.len() as u64, Timestamp(0));
    let head =
        ObjectHead { size, created: time, modified: time, changed: time, version: 1, used: Bytes(size), volume: None };
    let named = kept.attributes.iter().filter(|((page, _), _)| *page == 1);
    ObjectInfo { id, head, attributes: named.map(|((_, number), value)| (*number, value.clone())).collect() }
}

impl ObjectLink for Link {
    fn send(&mut self, request: &ObjectRequest, payload: &Arc<Vec<u8>>) -> Result<()> {
        let mut state = self.store.0.lock().expect("no panic");
        if self.broken || state.breaks(2) {
            self.broken = true;
            return Err(broken());
        }
        self.under_way.push_back((request.clone(), payload.clone()));
        let bytes = self.under_way.iter().map(|(request, payload)| request.weight(payload.len())).sum();
        state.most_bytes = state.most_bytes.max(bytes);
        state.most_requests = state.most_requests.max(self.under_way.len());
        Ok(())
    }

    fn receive(&mut self) -> Result<Result<ObjectAnswer>> {
        let mut state = self.store.0.lock().expect("no panic");
        if !self.broken && state.breaks(1) {
            // Some of what was asked takes effect before nobody hears of it.
            self.broken = true;
            let some = state.chance.below(self.under_way.len() as u64 + 1) as usize;
            for (request, payload) in self.under_way.drain(..some) {
                let _ = state.answer(&request, &payload);
            }
        }
        if self.broken {
            return Err(broken());
        }
        let (request, payload) = self.under_way.pop_front().expect("something was asked");
        Ok(state.answer(&request, &payload))
    }
}

impl Peer for Store {
    fn call(&self, request: Request) -> Result<Reply> {
        match request {
            Request::Info => Ok(Reply::Info(Info { version: String::new(), process: 1, targets: vec![target()] })),
            Request::Heaps => Ok(Reply::Heaps(Vec::new())),
            _ => Ok(Reply::Rings(Vec::new())),
        }
    }

    fn open_writer(&self, _: &str, _: u64, _: bool) -> Result<Box<dyn WriterLink>> {
        Err(Error::usage("it has no rings"))
    }

    fn query(&self, _: QueryRequest) -> Result<Box<dyn AnswerLink>> {
        Err(Error::usage("it has no rings"))
    }

    fn objects(&self) -> Result<Box<dyn ObjectLink>> {
        self.0.lock().expect("no panic").links += 1;
        Ok(Box::new(Link { store: self.clone(), under_way: VecDeque::new(), broken: false }))
    }

    fn heaps(&self) -> Result<Box<dyn HeapLink>> {
        Err(Error::usage("it has no heaps"))
    }

    fn now(&self) -> Moment {
        Moment(0)
    }

    fn wall(&self) -> Timestamp {
        Timestamp(0)
    }

    fn random(&self) -> u64 {
        self.0.lock().expect("no panic").chance.next()
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

fn target() -> TargetInfo {
    let size = Bytes::gib(1);
    TargetInfo {
        openings: 1,
        id: TARGET,
        device: "memory".into(),
        size,
        rotates: false,
        group: Bytes::mib(1),
        free: size,
        largest_free: size,
        complaints: Vec::new(),
        failed: None,
        activity: Default::default(),
        map_memory: Bytes::ZERO,
        map_memory_limit: Bytes::ZERO,
        rings_made_anew: 0,
        recorded: None,
    }
}

fn store(breaks: u64, seed: u64) -> (Store, Objects) {
    let state =
        State { objects: BTreeMap::new(), chance: Chance(seed), breaks, links: 0, most_bytes: 0, most_requests: 0 };
    let store = Store(Arc::new(Mutex::new(state)));
    (store.clone(), Objects::over(Arc::new(store)))
}

fn content(chance: &mut Chance, length: usize) -> Vec<u8> {
    (0..length.div_ceil(8)).flat_map(|_| chance.next().to_le_bytes()).take(length).collect()
}

fn put(objects: &Objects, name: &str, bytes: &[u8], replace: bool) -> Result<Place> {
    let mut put = objects.put(name, replace)?;
    bytes.chunks(1_000_003).try_for_each(|part| put.write(part))?;
    put.finish().map(|named| named.place)
}

fn get(objects: &Objects, name: &str) -> Result<Vec<u8>> {
    let (_, mut reader) = objects.get(name, 0, u64::MAX)?;
    let mut bytes = Vec::new();
    while let Some(more) = reader.next_bytes()? {
        bytes.extend(more);
    }
    Ok(bytes)
}

#[test]
fn what_is_put_and_got_over_links_that_break_is_whole_and_there_once() {
    let seed = seed("OBJECTS_SEED");
    for round in 0..20 {
        let mut chance = Chance(seed + round);
        let (store, objects) = store(6, seed + round);
        let mut kept = BTreeMap::new();
        for n in 0..6 {
            let (name, length) = (format!("/{}", chance.below(3)), chance.below(24 << 20) as usize);
            let bytes = content(&mut chance, length);
            put(&objects, &name, &bytes, true).unwrap_or_else(|e| panic!("round {round}, put {n}: {e}"));
            kept.insert(name, bytes);
        }
        for (name, bytes) in &kept {
            assert!(get(&objects, name).expect("it is there") == *bytes, "round {round}: {name}");
        }
        let listing = objects.names("/", None, 1000).expect("a list");
        assert_eq!(listing.names.len(), kept.len(), "round {round}");
        assert_eq!(listing.unfinished, [], "round {round}: what was replaced is gone");
        for name in kept.keys() {
            objects.remove_name(name).expect("removed");
        }
        assert_eq!(store.0.lock().expect("no panic").objects.len(), 1, "round {round}: the volume is left");
    }
}

#[test]
fn a_snapshot_by_name_over_links_that_break_is_made_once_and_never_of_a_taken_name() {
    let seed = seed("OBJECTS_SEED");
    for round in 0..60 {
        let (store, objects) = store(4, seed + round);
        let bytes = content(&mut Chance(seed + round), 5000);
        put(&objects, "/of", &bytes, false).expect("it is put");
        let made = objects.snapshot_name("/of", "/new").unwrap_or_else(|e| panic!("round {round}: {e}"));
        assert_eq!((made.name.as_str(), made.head.size), ("/new", 5000));
        put(&objects, "/of", b"something else", true).expect("it is replaced");
        let taken = objects.snapshot_name("/of", "/new").expect_err("it is there");
        assert_eq!(taken.kind, Kind::Exists, "round {round}: {taken}");
        assert_eq!(objects.snapshot_name("/none", "/newer").expect_err("it is not there").kind, Kind::Missing);
        assert!(get(&objects, "/new").expect("it is there") == bytes, "round {round}");
        let listing = objects.names("/", None, 1000).expect("a list");
        assert_eq!((listing.names.len(), listing.unfinished), (2, Vec::new()), "round {round}");
        objects.remove_name("/of").expect("removed");
        objects.remove_name("/new").expect("removed");
        assert_eq!(store.0.lock().expect("no panic").objects.len(), 1, "round {round}: the volume is left");
    }
}

#[test]
fn no_more_is_under_way_than_the_window_holds_and_links_are_used_again() {
    let (store, objects) = store(0, 1);
    let bytes = content(&mut Chance(1), 90 << 20);
    put(&objects, "/x", &bytes, false).expect("it is put");
    assert!(get(&objects, "/x").expect("it is there") == bytes);
    let state = store.0.lock().expect("no panic");
    assert_eq!(state.most_bytes, WINDOW.0 as usize, "the window is used");
    assert!(state.most_requests <= MOST_PENDING);
    assert!(state.links <= 3, "{} links", state.links);
}

#[test]
fn an_append_whose_fate_is_not_known_is_told_of_and_never_done_twice() {
    let seed = seed("OBJECTS_SEED");
    let (mut told, mut known) = (0, 0);
    for round in 0..200 {
        let (store, objects) = store(3, seed + round);
        let at = place(TARGET, 3, 9);
        objects.create_volume(TARGET, 3, super::Quota::default()).expect("a volume");
        objects.create(at, vec![(1, 1, vec![5])]).expect("an object");
        match objects.append(at, b"once", WriteOptions::default()) {
            Ok(offset) => {
                assert_eq!(offset, 0, "round {round}");
                known += 1;
            }
            Err(error) => {
                assert_eq!(error.kind, Kind::Disconnected, "round {round}: {error}");
                told += 1;
            }
        }
        assert!(store.0.lock().expect("no panic").objects[&at.id].bytes.len() <= 4, "round {round}: twice");
    }
    assert!(told > 10 && known > 10, "{told} told, {known} known");
}

#[test]
fn a_put_that_is_dropped_or_cannot_have_its_name_leaves_nothing() {
    let (store, objects) = store(0, 1);
    put(&objects, "/x", b"first", false).expect("it is put");
    let count = || store.0.lock().expect("no panic").objects.len();
    let before = count();
    let mut dropped = objects.put("/y", false).expect("it begins");
    dropped.write(&[1; 9 << 20]).expect("taken in");
    assert_eq!(objects.names("/", None, 1000).expect("a list").unfinished.len(), 1);
    drop(dropped);
    assert_eq!(count(), before);
    // Two at once: the second to finish is told, and leaves nothing.
    let (one, other) = (objects.put("/z", false).expect("it begins"), objects.put("/z", false).expect("it begins"));
    one.finish().expect("the first has it");
    assert_eq!(other.finish().expect_err("the second has not").kind, Kind::Exists);
    assert_eq!(count(), before + 2);
    assert_eq!(put(&objects, "/x", b"", false).expect_err("it is there").kind, Kind::Exists);
}

#[test]
fn a_name_whose_number_is_anothers_is_refused_and_the_other_stays() {
    let (store, objects) = store(0, 1);
    put(&objects, "/x", b"first", false).expect("it is put");
    {
        let mut state = store.0.lock().expect("no panic");
        let id = |name| ObjectId { volume: 1, object: name_number(name) };
        let other = state.objects[&id("/x")].clone();
        state.objects.insert(id("/y"), other);
    }
    for error in [objects.find("/y").expect_err("find"), put(&objects, "/y", b"", true).expect_err("put")] {
        assert_eq!(error.kind, Kind::Refused);
        assert!(error.message.contains("the same as that of /x"), "{error}");
    }
    assert_eq!(get(&objects, "/x").expect("it is there"), b"first");
}

#[test]
fn attributes_and_lists_that_come_in_parts_are_whole() {
    let (_, objects) = store(0, 1);
    objects.create_volume(TARGET, 3, super::Quota::default()).expect("a volume");
    let attributes: Vec<(u32, Vec<u8>)> = (0..9).map(|n| (n * 7, vec![n as u8; 30])).collect();
    let set = attributes.iter().map(|(number, value)| (1, *number, value.clone())).collect();
    let at = place(TARGET, 3, 1);
    objects.create(at, set).expect("an object");
    assert_eq!(objects.attributes(at, 1).expect("attributes"), attributes);
    for n in 0..7 {
        put(&objects, &format!("/{n}"), b"", false).expect("it is put");
    }
    let names: Vec<String> =
        objects.names("/", None, 1000).expect("a list").names.into_iter().map(|n| n.name).collect();
    assert_eq!(names, ["/0", "/1", "/2", "/3", "/4", "/5", "/6"]);
}

#[test]
fn many_names_come_in_parts_of_few_and_are_all_there_in_order() {
    let (_, objects) = store(0, 1);
    let name = |n: u64| format!("/{}/{}", n % 7, n * 7919 % 307);
    let mut all: Vec<String> = (0..307).map(name).collect();
    for name in &all {
        put(&objects, name, b"", false).expect("it is put");
    }
    all.sort_unstable();
    // Bytes without a name beside them, several for one.
    let puts: Vec<_> = ["/3/5", "/3/5", "/3/5", "/new"].map(|name| objects.put(name, true).expect("it begins")).into();
    for (prefix, most) in [("/", 40), ("/", 9), ("/3", 5), ("/3", 1), ("/none", 1), ("/", 10_000)] {
        let expected: Vec<&String> = all.iter().filter(|name| super::is_under(name, prefix)).collect();
        let (mut found, mut unfinished, mut from) = (Vec::new(), Vec::new(), None::<String>);
        loop {
            let listing = objects.names(prefix, from.as_deref(), most).expect("a list");
            assert!(listing.names.len() <= 2 * most && listing.unfinished.len() <= 2 * most, "{most}");
            found.extend(listing.names.into_iter().map(|named| named.name));
            unfinished.extend(listing.unfinished.into_iter().map(|found| found.name));
            assert!(listing.next > from || listing.next.is_none(), "it goes on");
            from = listing.next;
            if from.is_none() {
                break;
            }
        }
        assert!(found.iter().eq(expected), "{prefix}, {most} at once: {} found", found.len());
        let of = |name: &str| unfinished.iter().filter(|found| *found == name).count();
        // Of one name no more than were asked for, and as many beside the bytes that have it.
        let all_of = |name: &str, there: usize| if super::is_under(name, prefix) { there.min(most) } else { 0 };
        assert_eq!((of("/3/5"), of("/new")), (all_of("/3/5", 3), all_of("/new", 1)), "{prefix}, {most} at once");
    }
    drop(puts);
    let puts: Vec<_> = (0..5).map(|_| objects.put("/one", false).expect("it begins")).collect();
    let listing = objects.names("/one", None, 2).expect("a list");
    assert_eq!((listing.unfinished.len(), listing.next), (2, None));
    drop(puts);
}
