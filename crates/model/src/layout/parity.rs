//! Parity of a stripe: the exclusive or of its units, byte by byte. What is behind the end of a shorter unit counts as zero.

/// Adds bytes to the parity of their stripe, or takes them away: both are the same. No more bytes than the parity has.
pub fn add(parity: &mut [u8], bytes: &[u8]) {
    assert!(bytes.len() <= parity.len(), "{} bytes and {} of parity", bytes.len(), parity.len());
    let (to, from) = (parity[..bytes.len()].as_chunks_mut::<64>(), bytes.as_chunks::<64>());
    for (to, from) in to.0.iter_mut().zip(from.0) {
        to.iter_mut().zip(from).for_each(|(to, from)| *to ^= from);
    }
    to.1.iter_mut().zip(from.1).for_each(|(to, from)| *to ^= from);
}

/// The parity of units, as long as the longest of them; or the unit that is missing beside these and the parity.
pub fn of<'a>(units: impl IntoIterator<Item = &'a [u8]>, parity: &mut [u8]) {
    parity.fill(0);
    units.into_iter().for_each(|unit| add(parity, unit));
}

/// Replaces what was in a unit in the parity of its stripe: what was there, and what is there now, both of them as long.
pub fn replace(parity: &mut [u8], old: &[u8], new: &[u8]) {
    assert_eq!(old.len(), new.len(), "what is replaced is as long");
    add(parity, old);
    add(parity, new);
}

#[cfg(test)]
mod tests;
