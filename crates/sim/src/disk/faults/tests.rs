use super::*;

#[test]
fn the_nth_io_of_a_kind_is_hit_once_or_from_then_on() {
    let mut faults = Faults::default();
    faults.inject(&Fault::Fail { op: Op::Write, nth: 2, sticky: false });
    faults.inject(&Fault::Fail { op: Op::Flush, nth: 1, sticky: true });
    faults.inject(&Fault::LoseWrite { nth: 3 });
    let writes: Vec<Fate> = (0..5).map(|_| faults.fate(Op::Write)).collect();
    assert_eq!(writes, [Fate::Healthy, Fate::Healthy, Fate::Fails, Fate::Lost, Fate::Healthy]);
    let flushes: Vec<Fate> = (0..3).map(|_| faults.fate(Op::Flush)).collect();
    assert_eq!(flushes, [Fate::Healthy, Fate::Fails, Fate::Fails]);
    assert_eq!(faults.fate(Op::Read), Fate::Healthy);
    assert_eq!(faults.injected(), 3);
    faults.heal();
    assert_eq!(faults.fate(Op::Flush), Fate::Healthy);
}

#[test]
fn unreadable_sectors_heal_by_rewriting_unless_permanent() {
    let mut faults = Faults::default();
    faults.inject(&Fault::Unreadable { offset: Bytes(1024), length: Bytes(512), permanent: false });
    faults.inject(&Fault::Unreadable { offset: Bytes(4096), length: Bytes(1024), permanent: true });
    assert_eq!(faults.unreadable(&(0..1024)), None);
    assert_eq!(faults.unreadable(&(0..4096)), Some(1024));
    assert_eq!(faults.unreadable(&(4608..8192)), Some(4608));
    faults.rewritten(&(0..8192));
    assert_eq!(faults.unreadable(&(0..8192)), Some(4096));
}

#[test]
fn slow_and_dead_begin_at_their_moment() {
    let mut faults = Faults::default();
    faults.inject(&Fault::Slow { factor: 100.0, from: Moment(10) });
    faults.inject(&Fault::Dead { from: Moment(20) });
    assert_eq!([9, 10].map(|now| faults.slowness(now)), [1.0, 100.0]);
    assert_eq!([19, 20].map(|now| faults.is_dead(now)), [false, true]);
}
