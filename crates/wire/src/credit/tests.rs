use super::*;
use crate::sink::FrameSink;

/// What is let come of a request, as its connection would say it.
struct Asked {
    link: usize,
    request: RequestId,
    length: usize,
    /// What the node has said that it has, and may send.
    is_there: bool,
    may_send: usize,
    came: usize,
}

/// splitmix64
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

fn in_flight(credit: &Credit) -> usize {
    let state = credit.state().expect("it has a bound");
    let under_way: usize = state.wanted.iter().map(|wanted| wanted.under_way).sum();
    assert_eq!(state.free + under_way, state.all, "what is free and what is under way are all there is");
    under_way
}

/// Takes what was granted off a connection's sink.
fn take_grants(links: &[(Rc<Shared>, FrameSink)], asked: &mut [Asked]) {
    for (index, (_, sink)) in links.iter().enumerate() {
        for head in sink.take_heads() {
            let of = asked.iter_mut().find(|asked| asked.link == index && asked.request == head.request);
            of.expect("it was asked").may_send += head.credit as usize;
        }
    }
}

#[test]
fn never_more_is_in_flight_than_allowed_and_everything_comes_whatever_is_slow() {
    for seed in 1..200 {
        let mut state = seed;
        let credit = Credit::new(32 << 10 << (seed % 6));
        let links: Vec<_> = (0..4).map(|_| Shared::alone(credit.clone())).collect();
        let mut asked: Vec<Asked> = Vec::new();
        let mut open = 0;
        // Link 0 has nothing for a long time: it holds up nobody.
        for step in 0..1_000_000u64 {
            if asked.len() == 60 && open == 0 {
                break;
            }
            take_grants(&links, &mut asked);
            assert!(in_flight(&credit) <= credit.state().expect("it has a bound").all);
            if asked.len() < 60 && next(&mut state).is_multiple_of(3) {
                let (link, length) = ((next(&mut state) % 4) as usize, 1 + (next(&mut state) % 600_000) as usize);
                let request = RequestId(asked.len() as u64 + 1);
                let may_send = credit.ask(&links[link].0, request, length) as usize;
                asked.push(Asked { link, request, length, is_there: false, may_send, came: 0 });
                open += 1;
            }
            if asked.is_empty() {
                continue;
            }
            let index = (next(&mut state) % asked.len() as u64) as usize;
            let one = &asked[index];
            let is_slow = one.link == 0 && step < 5_000 && asked.len() > 1;
            let one = &mut asked[index];
            if is_slow || one.came == one.length {
                continue;
            }
            let link = &links[one.link].0;
            let piece = one.may_send.min(one.length - one.came);
            if piece == 0 && one.is_there {
                continue;
            }
            one.is_there = true;
            one.may_send -= piece;
            one.came += piece;
            if one.came == one.length {
                credit.end(link, one.request);
                open -= 1;
            } else {
                credit.came(link, one.request, piece, one.length - one.came);
            }
        }
        assert_eq!((open, asked.len()), (0, 60), "seed {seed}");
        assert_eq!(in_flight(&credit), 0);
    }
}

#[test]
fn what_a_connection_takes_along_comes_back_with_its_end() {
    let credit = Credit::new(256 << 10);
    let (one, other) = (Shared::alone(credit.clone()), Shared::alone(credit.clone()));
    let now = credit.ask(&one.0, RequestId(1), 200_000);
    assert!(now > 0 && in_flight(&credit) == now as usize);
    credit.ask(&other.0, RequestId(1), 400_000);
    credit.came(&other.0, RequestId(1), 0, 400_000);
    credit.end_link(&one.0);
    assert_eq!(in_flight(&credit), 256 << 10, "the other one has all of it");
    credit.end_link(&other.0);
    assert_eq!(in_flight(&credit), 0);
}

#[test]
fn where_several_are_asked_none_has_more_than_a_part_and_one_alone_has_all() {
    let credit = Credit::new(192 << 10);
    let links: Vec<_> = (0..10).map(|_| Shared::alone(credit.clone())).collect();
    let alone = credit.ask(&links[0].0, RequestId(1), 1 << 20) as usize;
    assert_eq!(alone, 96 << 10, "half is kept for what is there");
    credit.came(&links[0].0, RequestId(1), alone, 1 << 19);
    assert_eq!(in_flight(&credit), 192 << 10);
    credit.end(&links[0].0, RequestId(1));
    for (number, (link, _)) in (2..).zip(&links) {
        credit.ask(link, RequestId(number), 1 << 20);
    }
    for (number, (link, _)) in (2..).zip(&links) {
        credit.came(link, RequestId(number), 0, 1 << 20);
    }
    let under_way: Vec<usize> =
        credit.state().expect("it has a bound").wanted.iter().map(|wanted| wanted.under_way).collect();
    assert_eq!(under_way.iter().sum::<usize>(), 192 << 10);
    // What was given away when it was asked is a part of what there were then.
    assert!(under_way.iter().skip(2).all(|bytes| *bytes <= 24 << 10), "{under_way:?}");
}

#[test]
fn without_a_bound_all_of_each_answer_comes_as_it_is_asked_for_and_nothing_is_granted() {
    let credit = Credit::boundless();
    let (link, sink) = Shared::alone(credit.clone());
    for (number, length) in [(1, 5), (2, 64 << 20), (3, 64 << 20)] {
        assert_eq!(credit.ask(&link, RequestId(number), length), NO_LIMIT);
    }
    credit.came(&link, RequestId(2), 1 << 20, 63 << 20);
    credit.end(&link, RequestId(1));
    credit.end_link(&link);
    assert!(sink.take_heads().is_empty());
}
