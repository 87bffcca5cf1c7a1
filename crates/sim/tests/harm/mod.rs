//! Tables of what damage costs: structures, each harmed in every way, one at a time, beside what the page says.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use forebay_model::Bytes;
use forebay_sim::disk::Fault;
use forebay_sim::stage::Stage;
use std::fmt::Write;

/// What is done to a structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    Zeroed,
    Flipped,
    Old,
    Unreadable,
    Misplaced,
    Torn,
}

const HARMS: [(Harm, &str); 6] = [
    (Harm::Zeroed, "zeroed"),
    (Harm::Flipped, "one bit flipped"),
    (Harm::Old, "as it was before"),
    (Harm::Unreadable, "unreadable"),
    (Harm::Misplaced, "another of its kind"),
    (Harm::Torn, "half of it old"),
];

impl Harm {
    /// Harms `length` bytes of the disk at `at`, of which `before` is what it was a while before; `misplace` puts
    /// another structure's bytes there. Whether anything is different now.
    pub fn harm(
        self,
        stage: &Stage,
        (at, length): (Bytes, u64),
        before: &[u8],
        misplace: impl FnOnce(&mut [u8]),
    ) -> bool {
        let half = length as usize / 2;
        let mut now = vec![0; length as usize];
        stage.disk.peek(at, &mut now);
        let old = &before[at.0 as usize..(at.0 + length) as usize];
        let mut then = now.clone();
        match self {
            Harm::Zeroed => then.fill(0),
            Harm::Flipped => then[half] ^= 16,
            Harm::Old => then.copy_from_slice(old),
            Harm::Torn => then[half..].copy_from_slice(&old[half..]),
            Harm::Misplaced => misplace(&mut then),
            Harm::Unreadable => {
                let offset = Bytes(at.0 / 512 * 512);
                let end = Bytes((at.0 + length).next_multiple_of(512));
                stage.disk.inject(Fault::Unreadable { offset, length: end - offset, permanent: false });
                return true;
            }
        }
        stage.disk.poke(at, &then);
        then != now
    }
}

/// Harms every structure in every way, and compares what that costs with the table on the page in `docs/format`, which
/// is written anew where `UPDATE` is set.
pub fn costs_what_the_page_says<S>(
    page: &str,
    structures: &[S],
    name: impl Fn(&S) -> &'static str,
    cost: impl Fn(&S, Harm) -> Result<&'static str, String>,
) {
    let mut table = String::from("| structure |");
    HARMS.iter().for_each(|(_, name)| write!(table, " {name} |").unwrap());
    table += "\n|---|";
    table += &"---|".repeat(HARMS.len());
    table.push('\n');
    let mut wrong = Vec::new();
    for structure in structures {
        write!(table, "| {} |", name(structure)).unwrap();
        for (harm, how) in HARMS {
            match cost(structure, harm) {
                Ok(cost) => write!(table, " {cost} |").unwrap(),
                Err(error) => wrong.push(format!("{}, {how}: {error}", name(structure))),
            }
        }
        table.push('\n');
    }
    assert!(wrong.is_empty(), "{}\n{table}", wrong.join("\n"));
    let path = format!("{}/../../docs/format/{page}", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    let (head, rest) = page.split_once("<!-- table -->\n").unwrap_or(("", ""));
    let tail = rest.split_once("<!-- end -->").map_or("", |(_, tail)| tail);
    let expected = format!("{head}<!-- table -->\n{table}<!-- end -->{tail}");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &expected).unwrap();
    }
    assert!(
        page == expected || std::env::var_os("UPDATE").is_some(),
        "the page differs; write it anew with UPDATE=1:\n{table}"
    );
}
