use super::*;
use crate::file::components::Asked;
use forebay_wire::control::Change;
use forebay_wire::control::files::Unscrubbed;
use std::rc::Rc;

/// A manager with these files on its list.
struct Manager(Rc<RefCell<Vec<u64>>>);

impl Control for Manager {
    fn change(&self, _: Change) -> Asked<Reply> {
        Box::pin(async { Ok(Reply::Done) })
    }

    fn ask(&self, question: Question) -> Asked<Reply> {
        let Question::Unscrubbed(After { file, .. }) = question else { panic!("{question:?}") };
        // Two at a time.
        let mut files: Vec<FileId> = self.0.borrow().iter().copied().map(FileId).filter(|one| *one > file).collect();
        let more = files.len() > 2;
        files.truncate(2);
        Box::pin(async move { Ok(Reply::Unscrubbed(Unscrubbed { files, more })) })
    }

    fn client(&self) -> u64 {
        1
    }
}

#[test]
fn a_file_that_takes_long_is_in_the_way_of_no_other_one_and_is_taken_by_one_at_a_time() {
    let taken = forebay_env::real::run_network(|env| async move {
        let there = Rc::new(RefCell::new(vec![1, 2, 3]));
        let manager = Manager(there.clone());
        let page = |reply| match reply {
            Reply::Unscrubbed(Unscrubbed { files, more }) => Ok(Page { files, more }),
            other => panic!("{other:?}"),
        };
        let list = Listed::of(&manager, &*env.clock, Question::Unscrubbed, page);
        let mut taken = Vec::new();
        // The first one is never done with; each other one is, and is left again.
        for round in 0..3 {
            while let Some(file) = list.next().await.expect("the manager is there") {
                taken.push(file.0);
                if file != FileId(1) {
                    list.tried(file);
                }
            }
            list.again(Duration::from_secs(3600));
            assert_eq!(list.next().await, Ok(None), "it is too soon for another round");
            list.again(Duration::ZERO);
            if round == 1 {
                there.borrow_mut().push(4);
                list.tried(FileId(1));
            }
        }
        taken
    });
    assert_eq!(taken.expect("a loop"), [1, 2, 3, 2, 3, 1, 2, 3, 4]);
}
