use super::super::fake::{Answers, FakeNode, granted, nobody, open};
use super::*;
use crate::control::Control;
use crate::file::components::{Asked, Slice};
use forebay_env::NetworkEnv;
use forebay_model::object::Durability;
use forebay_model::{Bytes, TargetId};
use forebay_wire::capability::LENGTH;
use forebay_wire::control::access::Hidden;
use forebay_wire::control::files::{ComponentState, Grant, Granted, Grants};
use forebay_wire::control::{Question, Reply};

/// All five components whole, with what a node takes for capabilities.
fn able(version: u64) -> Grant {
    let mut grant = granted(version);
    for component in &mut grant.components {
        component.capability = vec![0; LENGTH];
        component.secret = Hidden(vec![0; 32]);
    }
    grant
}

/// A file that is open at the first version, whose components lie on these nodes, one after the other and from the first again.
fn open_on(env: &NetworkEnv, control: Rc<dyn Control>, nodes: &[&FakeNode]) -> Rc<Shared> {
    let shared = open(env.clone(), control, 1);
    *shared.grant.borrow_mut() = able(1);
    let addresses = (1..=5).map(|target| {
        let node = nodes[(target as usize - 1) % nodes.len()];
        (TargetId(target), node.address.clone())
    });
    *shared.addresses.borrow_mut() = addresses.collect();
    shared
}

async fn write(shared: &Rc<Shared>, component: u32) -> Result<()> {
    shared.write(component, Bytes::ZERO, vec![Slice::from_static(b"x")], Durability::Durable).await
}

#[test]
fn a_lock_is_given_back_as_deserted_if_what_was_asked_under_it_may_still_come() {
    let found = forebay_env::real::run_network(|env| async move {
        let (answers, hangs_up) = (FakeNode::start(&env).await, FakeNode::start(&env).await);
        hangs_up.hangs_up.set(true);
        let shared = open_on(&env, nobody(), &[&answers, &hangs_up]);
        let locked = async || shared.lock(0, StripeId(3)).await.expect("nobody else locks anything");
        let lock = locked().await;
        write(&shared, 0).await.expect("it is answered");
        drop(lock);
        let lock = locked().await;
        let failed = write(&shared, 1).await.expect_err("nobody knows what came of it");
        drop(lock);
        // What was asked before it was locked is nothing to it.
        drop(locked().await);
        let lock = locked().await;
        write(&shared, 1).await.expect_err("it hangs up again");
        shared.grant.borrow_mut().components[1].state = ComponentState::Missed;
        drop(lock);
        // Nobody waits any longer for something that is under way.
        let lock = locked().await;
        *shared.left.borrow_mut().entry(2).or_default() += 1;
        drop(lock);
        let link = shared.nodes.link(&answers.address).await.expect("it is there");
        link.ping().expect("it is asked").await.expect("it is answered");
        (failed.kind, answers.deserted.take())
    });
    assert_eq!(found.expect("a loop"), (Kind::Disconnected, vec![false, true, false, false, true]));
}

#[test]
fn who_has_lost_a_lock_still_reads_and_changes_nothing() {
    let found = forebay_env::real::run_network(|env| async move {
        let node = FakeNode::start(&env).await;
        let shared = open_on(&env, nobody(), &[&node]);
        let lock = shared.lock(0, StripeId(3)).await.expect("nobody else locks anything");
        shared.locks.lose(|_, _| true);
        let read = shared.read(1, Bytes::ZERO, Bytes(10)).await;
        let wrote = write(&shared, 1).await;
        drop(lock);
        (read, wrote, write(&shared, 1).await)
    });
    let (read, wrote, again) = found.expect("a loop");
    assert_eq!((read, again), (Ok(Slice::new()), Ok(())));
    assert_eq!(wrote.expect_err("somebody else may write it").kind, Kind::Refused);
}

/// A manager that fences the file.
#[derive(Default)]
struct Fences {
    fenced: RefCell<Vec<u64>>,
}

impl Control for Fences {
    fn change(&self, change: Change) -> Asked<Reply> {
        let Change::Fence(Fence { version, .. }) = change else { panic!("{change:?}") };
        self.fenced.borrow_mut().push(version);
        Box::pin(async { Ok(Reply::Done) })
    }

    fn ask(&self, question: Question) -> Asked<Reply> {
        let grant = able(self.fenced.borrow().last().copied().unwrap_or(1));
        let others = Answers(move |question| match question {
            Question::Renew(_) => {
                Ok(Reply::Grants(Grants { grants: vec![Granted { grant: Some(grant.clone()), error: None }] }))
            }
            _ => Ok(Reply::Done),
        });
        others.ask(question)
    }

    fn client(&self) -> u64 {
        2
    }
}

#[test]
fn who_finds_with_a_lock_what_others_left_has_them_shut_out_before_that_is_ended_and_once_for_all_of_it() {
    forebay_env::real::run_network(|env| async move {
        let node = FakeNode::start(&env).await;
        let manager = Rc::new(Fences::default());
        let (gone, shared) = (open_on(&env, nobody(), &[&node]), open_on(&env, manager.clone(), &[&node]));
        let intend = async |of: &Rc<Shared>, component, stripe| {
            let intent = Intent { stripe: StripeId(stripe), ..Intent::default() };
            of.intend(component, intent).await.expect("it is kept")
        };
        let left = async |component, stripe| {
            let lock = shared.lock(component, StripeId(stripe)).await.expect("nobody else locks anything");
            (lock.left.len(), manager.fenced.borrow().clone())
        };
        assert_eq!(left(0, 3).await, (0, vec![]), "nothing was left");
        for (component, stripe) in [(0, 3), (0, 4), (1, 5)] {
            intend(&gone, component, stripe).await;
        }
        for (component, stripe) in [(0, 3), (0, 4), (1, 5)] {
            assert_eq!(left(component, stripe).await, (1, vec![2]), "stripe {stripe}");
        }
        intend(&gone, 0, 6).await;
        assert_eq!(left(0, 6).await, (1, vec![2, 3]), "it was not there before");
        // What this client did not end waits for nobody.
        intend(&shared, 0, 7).await;
        assert_eq!(left(0, 7).await, (1, vec![2, 3]), "it is its own");
    })
    .expect("a loop");
}
