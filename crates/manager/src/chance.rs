//! Bytes by chance.

use forebay_env::Random;

/// So many bytes by chance; a multiple of eight.
pub(crate) fn bytes<const N: usize>(random: &dyn Random) -> [u8; N] {
    let mut bytes = [0; N];
    for chunk in bytes.chunks_exact_mut(8) {
        chunk.copy_from_slice(&random.next_u64().to_le_bytes());
    }
    bytes
}
