use super::*;
use crate::file::Sharing;
use crate::file::components::Asked;

const FILE: FileId = FileId(5);

/// A manager that is not there.
struct Nobody;

impl Control for Nobody {
    fn change(&self, _: Change) -> Asked<Reply> {
        Box::pin(async { Err(Error::disconnected("there is none")) })
    }

    fn ask(&self, _: Question) -> Asked<Reply> {
        Box::pin(async { Err(Error::disconnected("there is none")) })
    }

    fn client(&self) -> u64 {
        1
    }
}

fn called(serial: u64) -> Called {
    let told = Callback { file: FILE, caching: Caching::Nothing, serial };
    Called { files: vec![told], ..Called::default() }
}

#[test]
fn a_call_that_is_here_before_the_answer_that_opens_the_file_is_heeded_with_that() {
    let found = forebay_env::real::run_network(|env| async move {
        let now = env.clock.through_sleep();
        let keeper = Keeper::new(Rc::new(Nobody), env.clock.clone(), env.spawner.clone());
        let begun = keeper.begins();
        keeper.heed(called(2), now);
        let is_said = keeper.unsaid.borrow().contains_key(&FILE);
        let exclusive = Callback { file: FILE, caching: Caching::Exclusive, serial: 1 };
        let coming = keeper.opened(FILE, Some(exclusive), now, true);
        drop(begun);
        let is_asked = keeper.files.borrow()[&FILE].is_asked;
        (is_said, coming.sharing().await, is_asked)
    });
    let (is_said, sharing, is_asked) = found.expect("a loop");
    assert!(!is_said, "others would be let in beside one who takes itself to be alone");
    assert_eq!(sharing, Ok(Sharing::Beside));
    assert!(is_asked, "the manager is told what is kept");
}

#[test]
fn what_is_called_back_and_was_not_asked_to_be_opened_before_is_said_not_to_be_open() {
    let found = forebay_env::real::run_network(|env| async move {
        let now = env.clock.through_sleep();
        let keeper = Keeper::new(Rc::new(Nobody), env.clock.clone(), env.spawner.clone());
        let is_said = || keeper.unsaid.borrow_mut().remove(&FILE).is_some();
        let first = keeper.begins();
        keeper.heed(called(2), now);
        let mut said = vec![is_said()];
        // What is asked from now on is answered behind the call.
        let second = keeper.begins();
        drop(first);
        keeper.heed(called(2), now);
        said.push(is_said());
        drop(second);
        keeper.heed(called(3), now);
        said.push(is_said());
        (said, keeper.early.borrow().is_empty())
    });
    assert_eq!(found.expect("a loop"), (vec![false, true, true], true));
}
