use super::*;
use crate::disk::{Mechanism, presets};

fn surfaces() -> Vec<(u64, Surface)> {
    let mut all = Vec::new();
    for spec in [presets::wd15ears(), presets::cheetah15k(), presets::sata7200()] {
        for spec in [spec.clone(), spec.clone().scaled(1000), spec.scaled(100_000)] {
            let Mechanism::Rotating(rotating) = &spec.mechanism else { unreachable!() };
            all.push((spec.size.0, Surface::new(rotating, spec.size.0)));
        }
    }
    all
}

#[test]
fn spin_and_offset_are_inverse_and_rise_together() {
    for (size, surface) in surfaces() {
        let mut last = None;
        for i in 0..5000 {
            let offset = size / 5000 * i / 512 * 512;
            let spin = surface.spin(offset);
            assert!(last.is_none_or(|last| spin >= last));
            last = Some(spin);
            let back = surface.offset(spin);
            assert!(back <= offset && offset - back < 512, "{offset} came back as {back}");
        }
        assert!(surface.spin(size) > surface.spin(size - 4096));
    }
}

#[test]
fn tracks_get_shorter_inwards_and_zones_are_whole_tracks() {
    for (size, surface) in surfaces() {
        assert!(surface.zones.windows(2).all(|pair| pair[0].track >= pair[1].track));
        assert!(surface.zones.windows(2).all(|pair| (pair[1].start - pair[0].start).is_multiple_of(pair[0].track)));
        assert!(surface.zones.iter().all(|zone| zone.first_spin.is_multiple_of(surface.turn)));
        assert!(surface.track(size - 1) < surface.track(0));
    }
}

#[test]
fn distances_are_shares_of_the_stroke_on_a_scaled_disk_too() {
    for (size, surface) in surfaces().into_iter().take(2) {
        let at = |share: u64| surface.spin(size / 10 * share);
        match (surface.distance(at(0), at(9)), surface.distance(at(0), at(1))) {
            (Distance::Stroke(far), Distance::Stroke(near)) => {
                assert!((0.80..0.95).contains(&far) && (0.06..0.10).contains(&near), "{far} {near}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(surface.distance(5, surface.turn - 1), Distance::SameTrack);
        assert_eq!(surface.distance(5, surface.turn), Distance::SameCylinder);
    }
}
